"""Rules of the layout that no linter knows: layers, sizes, private names of scikit-learn."""

from __future__ import annotations

import ast
import inspect
import re
import runpy
from functools import cache
from importlib.util import resolve_name as absolute_name
from pathlib import Path
from pkgutil import resolve_name

import sklearn.base

import milearn
from milearn import _compat
from milearn.utils import all_estimators

ROOT = Path(milearn.__file__).parents[1]
MAX_SETTINGS = 15  # of an estimator: scikit-learn's SVC has as many

# A module imports from its own group and from groups in rows above; groups in one row do not know
# each other. The empty name is that of milearn/__init__.py.
LAYERS = (
    ("_version",),
    ("exceptions", "_bags", "_compat"),
    ("_constraints", "_kernels"),
    ("_solvers.common",),
    (
        "_solvers",
        "_solvers.baselines",
        "_solvers.cluster",
        "_solvers.discriminant",
        "_solvers.ensemble",
        "_solvers.model_selection",
        "_solvers.structured",
        "_solvers.survival",
        "_solvers.svm",
    ),
    ("_fit",),
    ("base",),
    ("metrics", "model_selection", "preprocessing"),
    ("embedding", "inspection"),
    ("baselines", "cluster", "discriminant_analysis", "ensemble", "structured", "survival", "svm"),
    ("auto",),
    ("datasets._errors",),
    ("datasets._formats",),
    ("datasets._fetch", "datasets._generate"),
    ("datasets",),
    ("distributed",),
    ("",),
    ("utils",),
)
ROWS = {group: number for number, row in enumerate(LAYERS) for group in row}
# Groups that import less than their row allows.
NARROW = {
    "_bags": {"_version"},
    **{
        group: {"_bags", "_kernels", "exceptions", "_compat", "_solvers.common"}
        for row in LAYERS
        for group in row
        if group.startswith("_solvers")
    },
}
PRIVATE = {
    name
    for kind in (*vars(sklearn.base).values(), _compat.CallbackSupportMixin)
    if isinstance(kind, type)
    for name in dir(kind)
    if name.startswith("_") and not name.startswith("__")
}


def sources(*folders):
    """Path below the root and parsed text of each module."""
    return [each for folder in folders for each in sources_of(folder)]


@cache
def sources_of(folder):
    texts = [
        (path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "results" not in path.parts
    ]
    return [(path, text, ast.parse(text)) for path, text in texts]


# -- layers ----------------------------------------------------------------------------------------


def module_name(path):
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@cache
def group_of(module):
    """Longest group of the table that holds a module of the package."""
    inside = module.removeprefix("milearn").removeprefix(".")
    found = [group for group in ROWS if group and f"{inside}.".startswith(f"{group}.")]
    if inside and not found:
        raise AssertionError(f"{module} is in no layer: add its package to LAYERS.")
    return max(found, key=len, default="")


def imported_modules(path, tree, modules):
    """Modules of the package that a module imports, wherever the statement is."""
    here = module_name(path).split(".")
    package = here if path.endswith("__init__.py") else here[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.split(".")[0] == "milearn")
        if isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*start, *([node.module] if node.module else [])])
            if base.split(".")[0] != "milearn":
                continue
            for name in node.names:
                whole = f"{base}.{name.name}"
                yield whole if whole in modules else base


def upward_imports(path, tree, modules):
    here = group_of(module_name(path))
    for module in imported_modules(path, tree, modules):
        there = group_of(module)
        if there == here or (ROWS[there] < ROWS[here] and there in NARROW.get(here, {there})):
            continue
        yield f"{path} imports {module}"


def test_imports_run_downwards():
    modules = {module_name(path) for path, _, _ in sources("milearn")}
    for path, _, tree in sources("milearn"):
        assert list(upward_imports(path, tree, modules)) == []


# -- sizes -----------------------------------------------------------------------------------------


def test_no_folder_is_above_its_budget():
    script = runpy.run_path(str(ROOT / ".ci" / "lines"))
    budgets = script["budgets"](ROOT)
    sizes = {}
    for folder in ("milearn", "tests", "benchmarks"):
        sizes |= script["folder_sizes"](ROOT, folder)
    above = {name: (sizes[name], most) for name, most in budgets.items() if sizes[name] > most}
    assert above == {}, "a folder grew (lines, budget): see .ci/lines"


def test_no_estimator_has_many_parameters():
    counts = {name: len(inspect.signature(each).parameters) for name, each in all_estimators()}
    assert {name: n for name, n in counts.items() if n > MAX_SETTINGS} == {}


# -- the picture of the folders -------------------------------------------------------------------


def test_contributing_shows_the_folders_as_they_are():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    shown = page.partition("<!-- written by .ci/tree -->\n```\n")[2].partition("```\n")[0]
    picture = runpy.run_path(str(ROOT / ".ci" / "tree"))["picture"]()
    assert shown == picture, "run .ci/tree: it writes the picture into CONTRIBUTING.md"
    for line in picture.splitlines():
        assert len(line.split(maxsplit=1)) == 2, f"{line.strip()}: its __init__.py says nothing"


# -- where things may be used ----------------------------------------------------------------------


def test_private_names_of_sklearn_stand_in_one_module():
    private = re.compile(
        r"sklearn[.\w]*\._[a-z]|from sklearn\S* import [^#\n]*\b_[a-z]|"
        rf"\.({'|'.join(sorted(PRIVATE))})\b"
    )
    users = {path for path, text, _ in sources("milearn") if private.search(text)}
    assert users == {"milearn/_compat.py"}


def test_references_of_docstrings_lead_somewhere():
    missing = []
    for path, text, _ in sources("milearn", "benchmarks"):
        package = path.rpartition("/")[0].replace("/", ".")
        # Relative and absolute ones; Sphinx looks for the others.
        for name in re.findall(r":\w+:`~?((?:\.|milearn\.)[\w.]+)", text):
            try:
                resolve_name(absolute_name(name, package))
            except (ImportError, AttributeError) as error:
                missing.append(f"{path}: {name} ({error})")
    assert missing == []
