"""scikit-learn's checks and those of bags as marks of tests, for the two files that use them."""

from __future__ import annotations

import re

import numpy as np
import pytest
from sklearn.base import RegressorMixin, is_classifier
from sklearn.utils import column_or_1d
from sklearn.utils.estimator_checks import parametrize_with_checks

import tests.common.own_checks  # noqa: F401 - registers its checks
from milearn.survival import MICoxPH, survival_outcomes
from milearn.svm import OrdinalMISVC
from milearn.utils import all_estimators
from milearn.utils.estimator_checks import parametrize_with_bag_checks
from tests.common.few_trees import MIClassifier, MIRegressor


def _checks(names):
    """The names of checks, which all begin with the same word."""
    return {f"check_{name}" for name in names.split()}


# -- checks that depend on settings ----------------------------------------------------------------

# What scikit-learn's other checks look at is the same code for all settings of a class (validation
# of input and labels, tags, parameters, clones), or a check of bags looks at it too (weights,
# order, subsets, a second fit). The defaults run them.
SCIKIT_LEARN_OF_SETTINGS = _checks("""
class_weight_classifiers classifiers_one_label_sample_weights clusterer_compute_labels_predict
clustering decision_proba_consistency fit2d_1feature fit2d_1sample non_transformer_estimators_n_iter
regressors_int regressors_train transformer_general transformer_preserve_dtypes
""")

# What can differ between the estimators that one of ours wraps: besides the fit, what it passes on
# to them, as tags, parameters, weights and types are.
SCIKIT_LEARN_OF_WRAPPED = SCIKIT_LEARN_OF_SETTINGS | _checks("""
all_zero_sample_weights_error classifiers_classes classifiers_train estimator_cloneable
estimator_sparse_array estimator_sparse_tag estimators_dtypes estimators_nan_inf estimators_pickle
estimators_unfitted fit_idempotent get_params_invariance methods_sample_order_invariance
methods_subset_invariance n_features_in_after_fitting no_attributes_set_in_init requires_y_none
sample_weight_equivalence_on_dense_data sample_weight_equivalence_on_sparse_data
sample_weights_shape set_params transformers_unfitted valid_tag_types
""")

# Checks of scikit-learn that repeat another one: matrices of SciPy become the arrays of
# check_estimator_sparse_array where bags are made (tests/_bags), and of three runs on blobs the
# last one, of float32 in a memory map, asserts what the others do.
SCIKIT_LEARN_TWICE = {"check_estimator_sparse_matrix"} | {
    f"check_{kind}_train{memory_map}"
    for kind in ("classifiers", "regressors")
    for memory_map in ("", "(readonly_memmap=True)")
}

# Checks that a check of bags, named beside them, repeats on the same estimator with more kinds of
# input. Other settings of wrapping estimators run these, as they run no checks of bags.
REPEATED_BY_BAGS = {
    "check_estimator_sparse_tag",  # check_sparse_equals_dense, with the tag and without it
    "check_estimators_nan_inf",  # check_refused_fit, check_refused_prediction
    "check_methods_sample_order_invariance",  # check_order_of_bags
    "check_methods_subset_invariance",  # check_subset_of_bags
    "check_n_features_in_after_fitting",  # check_refused_prediction
    "check_positive_only_tag_during_fit",  # all of them: no feature has one sign
    "check_readonly_memmap_input",  # check_read_only_memory_map
    "check_sample_weight_equivalence_on_dense_data",  # check_sample_weight
}

# Checks of bags that depend on settings; the others look at what a class does in one way for all of
# them: containers, refused input, jobs, the positive class. They run on the first kind of input and
# task, as several classes are problems of two, and what holds for dense instances holds for sparse
# ones: check_sparse_equals_dense compares fit and prediction. In all checks the arrays of bags are
# read-only views, so that a memory map adds nothing that depends on a setting.
BAGS_OF_SETTINGS = _checks("""
callback_stop callbacks max_iter order_of_bags order_of_instances parameters_after_fit sample_weight
set_output sparse_equals_dense subset_of_bags two_levels witness
""")
# Checks whose claim for several classes is that for each problem of two.
CHECKS_OF_TWO_CLASSES = {"check_order_of_bags", "check_sample_weight"}
# Searches compare models that run the other checks themselves.
BAGS_OF_SEARCHES = _checks("""
callbacks order_of_bags order_of_instances output_configuration parallel_config sample_weight
sparse_equals_dense
""")

OF_EVERY_SEARCH = {"check_callbacks", "check_output_configuration", "check_parallel_config"}


def _depends_on_settings(estimator, check):
    names = set(BAGS_OF_SETTINGS)
    if hasattr(estimator, "transform"):
        names |= {"check_feature_names", "check_transform"}
    if hasattr(estimator, "graph"):
        names.add("check_graphs_are_cut")
    if isinstance(estimator, tuple(FORESTS.values())):
        # What the search does for every model is the same code for classes and values.
        names = BAGS_OF_SEARCHES - (set() if is_classifier(estimator) else OF_EVERY_SEARCH)
    # The jobs of a classifier are its classes.
    first = check.problem.task != "multiclass" or check.name == "check_parallel_config"
    return check.name in names and check.problem.kind == check.kinds[0] and first


# Estimators whose fit consists of many fits of others, or of many starts: settings with which a fit
# is a small one. With these they run the checks that do not depend on settings, and the others as
# they are but for IN_PART.
OF_MANY_FITS: dict[str, dict] = {
    "BagSVC": {"bag_kernel": ["mean", "set_median"], "scaling": None},
    "BagSVR": {"bag_kernel": ["mean", "set_median"], "scaling": None},
    **{name: {"n_init": 1} for name in ("DiverseDensity", "EMDD")},
    "M3IC": {"n_init": 2},
    "MIClassifier": {"time_limit": 1e-9},
    "MIRegressor": {"time_limit": 1e-9},
    "SDPMIL": {"kernel": "linear", "C": 1.0},
    "ShareDiscriminant": {"share": 1.0, "n_parts": 0},
    "ShareRegressor": {"share": 1.0, "n_parts": 0},
    "SequenceAbundanceClassifier": {"thresholds": 0.1},
    "SparseMISVC": {"variant": "smil", "kernel": "linear"},
}
# Three parts of the bags show what twenty do.
IN_PART: dict[str, dict] = {"ShareDiscriminant": {"n_parts": 3}, "ShareRegressor": {"n_parts": 3}}

# Boosting takes hundreds of rounds to its tolerance, for each of its selections.
QUICK = {"n_estimators": 10}

# Ensembles and searches of which a few members show all that a check can see: they run every check
# with these settings, as scikit-learn makes its own smaller for its checks.
SMALLER: dict[str, dict] = {
    "BLRT": {"n_estimators": 3},
    "ConceptEmbedding": {"n_init": 2},
    "DDSVM": {"n_init": 2},
    "DPBoost": QUICK,
    "MIForest": {"n_estimators": 3, "n_epochs": 1},
    "MILBoost": {"n_estimators": 10},
}


# No check looks at the number of trees; tests/auto compares a forest with one of scikit-learn.
FORESTS: dict[str, type] = {"MIClassifier": MIClassifier, "MIRegressor": MIRegressor}


def all_with_small_fits():
    """Every public estimator, with the settings for a small fit if it has some."""
    settings = OF_MANY_FITS | SMALLER
    return [FORESTS.get(name, each)(**settings.get(name, {})) for name, each in all_estimators()]


def all_of_many_fits():
    """Those with such settings without them, for the checks that depend on settings."""
    found = [(name, each) for name, each in all_estimators() if name in OF_MANY_FITS]
    return [FORESTS.get(name, each)(**IN_PART.get(name, {})) for name, each in found]


def _is_of_many_fits(estimator):
    return type(estimator).__name__ in OF_MANY_FITS


def _is_of_defaults(estimator, check):
    """Whether a check of bags is one of those of all estimators."""
    if _is_of_many_fits(estimator) and _depends_on_settings(estimator, check):
        return False
    # The arrays of bags are read-only views, of whatever kind the instances are.
    if check.name == "check_read_only_memory_map" and check.problem.kind != check.kinds[0]:
        return False
    # Where one class has the instances that decide, several classes are problems of two.
    of_two = hasattr(estimator, "pos_label") and not isinstance(estimator, tuple(FORESTS.values()))
    if of_two and check.problem.task == "multiclass" and check.name in CHECKS_OF_TWO_CLASSES:
        return False
    # Links: most estimators ignore them, and then selected bags show it.
    of_links = check.problem.kind != "graphs" or hasattr(estimator, "unlabeled")
    return of_links or check.name in ("check_graphs_are_cut", "check_transform")


# -- targets with two fields -----------------------------------------------------------------------


class NumbersAsTimes(RegressorMixin, MICoxPH):
    """Survival of plain numbers, as scikit-learn's checks pass them: times, some of them censored.

    The time alone decides, so that the outcome of a bag does not depend on its position.
    """

    def fit(self, X, y, sample_weight=None):
        return super().fit(X, y if y is None else _outcomes_of(y), sample_weight)

    def score(self, X, y, sample_weight=None):
        return MICoxPH.score(self, X, _outcomes_of(y), sample_weight)


def _outcomes_of(y):
    times = column_or_1d(y, warn=True)
    with np.errstate(invalid="ignore"):
        censored = np.round(1000 * times.astype(float)) % 3 == 2
        # Times are not negative, and their order is all that counts.
        times = times.astype(float)
        times = np.where(np.isfinite(times), np.exp(np.clip(times, -700, 700)), times)
    return survival_outcomes(~censored, times)


def _with_plain_targets(estimator):
    """The estimator for scikit-learn's checks, which pass numbers or classes as targets."""
    return NumbersAsTimes(**estimator.get_params()) if type(estimator) is MICoxPH else estimator


# -- marks -----------------------------------------------------------------------------------------


def with_scikit_learn_checks(estimators, only=None):
    """scikit-learn's checks of the estimators: those that are named, or those of the defaults."""
    estimators = [_with_plain_targets(each) for each in estimators]
    made = parametrize_with_checks(estimators, expected_failed_checks=_expected_to_fail)
    names, cases = made.args
    # A list: pytest 9 warns of the generator that scikit-learn 1.7 hands over.
    kept = []
    for case in cases:
        estimator, check = _values(case)
        name = check.func.__name__
        if _named(check) in SCIKIT_LEARN_TWICE:
            continue
        elsewhere = name in REPEATED_BY_BAGS or (
            _is_of_many_fits(estimator) and name in SCIKIT_LEARN_OF_SETTINGS
        )
        if not elsewhere if only is None else not only.isdisjoint((name, _named(check))):
            kept.append(case)
    # The ids of scikit-learn's decorator print each estimator again for each of its checks.
    printed = {id(each): re.sub(r"\s", "", repr(each)) for each in estimators}
    return pytest.mark.parametrize(
        names,
        [_stops_early(case) for case in kept],
        ids=[f"{printed[id(_values(case)[0])]}-{_named(_values(case)[1])}" for case in kept],
    )


def _expected_to_fail(estimator):
    if isinstance(estimator, OrdinalMISVC) and estimator.categories is None:
        return {"check_classifiers_classes": "Text has no order, so that it is refused."}
    return {}


def _named(check):
    keywords = ",".join(f"{name}={value}" for name, value in check.keywords.items())
    return f"{check.func.__name__}({keywords})" if keywords else check.func.__name__


def with_bag_checks(estimators, of_settings=False):
    made = parametrize_with_bag_checks(estimators)
    names, cases = made.args
    belongs = _depends_on_settings if of_settings else _is_of_defaults
    kept = [case for case in cases if belongs(*_values(case))]
    return pytest.mark.parametrize(names, kept, **made.kwargs)


def _values(case):
    return getattr(case, "values", case)


def _stops_early(case):
    """Let estimators warn whose setting stops them before convergence, to be quick."""
    values = _values(case)
    if getattr(values[0], "n_estimators", None) != QUICK["n_estimators"]:
        return case
    ignored = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    return pytest.param(*values, marks=[*getattr(case, "marks", ()), ignored])
