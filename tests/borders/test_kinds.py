"""A column of each kind, from each library, in each function that takes one.

The table READ says as what each role reads each kind. A cell is right if the function returns what
it returns for plain numbers or texts, or if its error names the argument, a value and a remedy.
"""

from __future__ import annotations

import datetime
import decimal
import re
from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pytest

from milearn import Bags, MIClassifier
from milearn._bags.kinds import covariate
from milearn.discriminant_analysis import ShareDiscriminant
from milearn.inspection import share_report
from milearn.metrics import concordance_index, group_scores
from milearn.model_selection import (
    StratifiedBagKFold,
    compare,
    confounder_baseline,
    label_permutation_test,
)
from milearn.preprocessing import AppendBagData, BagData
from milearn.survival import survival_outcomes
from milearn.svm import MISVC, MISVR

pytestmark = [
    pytest.mark.usefixtures("no_intervals"),
    *(
        pytest.mark.filterwarnings(f"ignore:{start}")
        for start in ("The positive class is", "MISV. stopped at", "MISVC found a constant")
    ),
]

# Every column has two values, in this order, one of them missing in the columns with a gap.
CODES = np.array([0, 1, 1, 0, 0, 1, 0, 1, 1, 0, 0, 1])
GAP = 4
N = len(CODES)
Y = np.arange(N) // 3 % 2
DAYS = [datetime.date(2024, 1, 1), datetime.date(2024, 1, 3)]
TIMES = [datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 3)]
SPANS = [datetime.timedelta(days=1), datetime.timedelta(days=3)]
UTC = [each.replace(tzinfo=datetime.UTC) for each in TIMES]


def two(values, gap):
    """A list of the two values."""
    cells = [values[code] for code in CODES]
    return [None if gap and at == GAP else cell for at, cell in enumerate(cells)]


def masked(kind, values):
    return lambda gap: np.array(two(values, gap), dtype=kind)


def of_pandas(kind, values):
    return lambda gap: pd.Series(two(values, gap), dtype=kind)


def of_polars(kind, values):
    return lambda gap: pl.Series("c", two(values, gap), dtype=kind)


def listed(values):
    return lambda gap: two(values, gap)


NUMBERS, WORDS = [1, 3], ["hi", "lo"]
FORMS = {
    "number": {
        "numpy": masked(np.float64, NUMBERS),
        "list": listed([1.0, 3.0]),
        "integers": listed(NUMBERS),
        "pandas": of_pandas("Int64", NUMBERS),
        "float": of_pandas("Float32", NUMBERS),
        "polars": of_polars(pl.Int32, NUMBERS),
        "decimal": listed([decimal.Decimal("1.0"), decimal.Decimal("3")]),
    },
    "category": {
        "of integers": lambda gap: pd.Series(two(NUMBERS, gap)).astype("Int64").astype("category"),
        "of numbers": lambda gap: pd.Categorical(two([1.0, 3.0], gap)),
        "of texts": lambda gap: pd.Series(pd.Categorical(two(WORDS, gap))),
        "ordered": lambda gap: pd.Series(pd.Categorical(two(WORDS, gap), WORDS, ordered=True)),
        "polars": of_polars(pl.Categorical, WORDS),
        "enum": of_polars(pl.Enum(WORDS), WORDS),
    },
    "text": {
        "list": listed(WORDS),
        "numpy": masked(object, WORDS),
        "object": lambda gap: pd.Series(two(WORDS, gap), dtype=object),
        "string": of_pandas("string", WORDS),
        "polars": of_polars(pl.String, WORDS),
    },
    "id": {
        "mixed": listed([7, "p1"]),
        "numpy": masked(object, ["7", "p1 "]),
        "category": lambda gap: pd.Series(pd.Categorical(two(["7", "p1"], gap))),
        "polars": of_polars(pl.String, ["7 ", "p1"]),
    },
    "time": {
        "numpy": masked("M8[h]", DAYS),
        "dates": listed(DAYS),
        "list": listed(TIMES),
        "pandas": of_pandas("M8[us]", TIMES),
        "zone": of_pandas("datetime64[ns, UTC]", UTC),
        "polars": of_polars(pl.Datetime("ms"), TIMES),
        "date": of_polars(pl.Date, DAYS),
    },
    "duration": {
        "numpy": masked("m8[h]", SPANS),
        "list": listed(SPANS),
        "pandas": of_pandas("m8[s]", SPANS),
        "polars": of_polars(pl.Duration("us"), SPANS),
    },
}

# -- roles -----------------------------------------------------------------------------------------

RNG = np.random.default_rng(0)
X = Bags.from_list([RNG.normal(size=(4, 2)) + label for label in Y])
SHARE = ShareDiscriminant(share=0.3).fit(X, Y)
LINEAR = MISVC(kernel="linear", init="mean", max_iter=1)
VALUES = MISVR(init="mean").fit(X, Y)
QUICK = MIClassifier(random_state=0, time_limit=1e-9)  # what reads groups has no limit


def framed(column, **names):
    """Bags, and what else, of a frame of the library of the column."""
    parts = {"bag": [f"b{at:02}" for at in range(N)], "x": np.arange(1.0, N + 1), "c": column}
    frame = (pl if isinstance(column, pl.Series) else pd).DataFrame(parts)
    return Bags.from_frame(frame, **{"bag": "bag", "features": ["x"], **names})


def partition(groups):
    return pd.factorize(pd.Series(groups))[0]


def covariates(column):
    return confounder_baseline(X, Y, covariates={"c": column}, cv=2).table()


def from_zero(column):
    found = covariate(column, "covariates")[1]
    return found - np.nanmin(found)


def of_bag_data(column):
    found = BagData().fit_transform(X.with_bag_data({"c": column}))[:, 0]
    return partition(found) if found.dtype == object else found


def outcomes(column):
    return survival_outcomes(np.arange(N) % 2 == 0, column)["time"]


def folds(column):
    return np.concatenate([test for _, test in StratifiedBagKFold(2).split(X, Y, column)])


def risks(column):
    y = survival_outcomes(np.arange(N) % 2 == 0, np.arange(N))
    return concordance_index(y, np.arange(N) % 5, sample_weight=column)


# A function of a column, which returns something to compare, and the argument in its messages.
ROLES = {
    "y of a classifier": (lambda c: LINEAR.fit(X, c).decision_function(X), "y"),
    "y of a regressor": (lambda c: MISVR(init="mean").fit(X, c).predict(X), "y"),
    "y of a score": (lambda c: VALUES.score(X, c), "y"),
    "sample_weight": (lambda c: LINEAR.fit(X, Y, sample_weight=c).coef_, "sample_weight"),
    "weights of a score": (risks, "sample_weight"),
    "time": (outcomes, "time"),
    "event": (lambda c: survival_outcomes(c, np.ones(N)), "event"),
    "label": (lambda c: LINEAR.fit(X, framed(c, label="c")[1]).decision_function(X), "label|y"),
    "classes": (lambda c: partition(framed(c, label="c", classes=c)[1]), "label"),
    "groups of folds": (folds, "groups"),
    "groups of merge": (lambda c: X.merge(c).instances, "groups"),
    "groups of scores": (lambda c: group_scores(np.arange(N), c)[0], "groups"),
    "groups of a report": (
        lambda c: partition(share_report(SHARE, X, Y, groups=c).bags["group"]),
        "groups",
    ),
    "bag_ids": (lambda c: Bags.from_ids(np.arange(N)[:, None], c).instances, "bag_ids"),
    "bag": (lambda c: framed(c, bag="c").instances, "bag_ids"),
    "names": (lambda c: partition(Bags(X.instances, X.offsets, names=c).names), "names"),
    "covariate": (from_zero, "covariates"),
    "bag_data": (of_bag_data, "bag_data"),
    "bag_data of a frame": (
        lambda c: of_bag_data(framed(c, bag_data=["c"]).bag_data["c"]),
        "bag_data",
    ),
    "bag_data as features": (
        lambda c: AppendBagData().fit_transform(X.with_bag_data({"c": c})).instances[::4, 2],
        "bag_data",
    ),
}
# These take seconds: one column of each kind.
SLOW = {
    "covariates": (covariates, "covariates?"),
    "groups of compare": (
        lambda c: compare({"m": LINEAR}, {"d": (X, Y, c)}, cv=2).table(),
        "groups",
    ),
    "strata of permutations": (
        lambda c: (
            label_permutation_test(
                LINEAR, X, Y, strata=c, cv=2, n_permutations=1, random_state=0
            ).permutation_scores
        ),
        "strata",
    ),
    "groups of a search": (lambda c: ShareDiscriminant().fit(X, Y, groups=c).cut_, "groups"),
    "groups of MIClassifier": (
        lambda c: QUICK.fit(X, Y, groups=c).decision_function(X),
        "groups",
    ),
}

_NUMBERS = {"number": "number", "duration": "number"}
_CLASSES = {"number": "text", "category": "text", "text": "text", "id": "text"}
_COLUMNS = _CLASSES | {"number": "number", "time": "days", "duration": "number"}
# As what a role reads a kind; everything else is an error. Ids take every kind, and no gap.
READ = {
    "y of a classifier": _CLASSES,
    "label": _CLASSES,
    "y of a regressor": _NUMBERS,
    "y of a score": _NUMBERS,
    "sample_weight": _NUMBERS,
    "weights of a score": _NUMBERS,
    "time": _NUMBERS,
    "event": {},
    "covariate": _COLUMNS,
    "covariates": _COLUMNS,
    "bag_data": _COLUMNS,
    "bag_data of a frame": _COLUMNS,
    "bag_data as features": _NUMBERS | {"time": "days"},
}
_IDS = dict.fromkeys(FORMS, "text")
TAKES_GAPS = ("classes", "covariate", "covariates", "bag_data", "bag_data of a frame")
_PLAIN = {"number": [1.0, 3.0], "text": ["a", "b"], "days": [19723.0, 19725.0]}


@cache
def expected(role, reading, gap):
    """What the function returns for plain numbers, or texts."""
    column = two(_PLAIN[reading], gap)
    return (ROLES | SLOW)[role][0](column if reading == "text" else np.array(column, dtype=float))


def check(role, kind, form, gap):
    call, what = (ROLES | SLOW)[role]
    reading, column = READ.get(role, _IDS).get(kind), FORMS[kind][form](gap)
    # No column of one kind, but ids; and numbers, but no classes.
    unlike = form == "mixed" and (role in READ or role == "classes")
    unlike |= form == "decimal" and role == "y of a classifier"
    if reading is None or unlike or (gap and role not in TAKES_GAPS):
        with pytest.raises((TypeError, ValueError)) as caught:
            call(column)
        assert re.search(rf"\b({what})\b.*[:;] [a-z]", str(caught.value)), caught.value
    else:
        np.testing.assert_array_equal(call(column), expected(role, reading, gap))


@pytest.mark.parametrize("kind", FORMS)
@pytest.mark.parametrize("role", [*ROLES, *SLOW])
def test_a_kind_in_a_role(role, kind):
    for form in [*FORMS[kind]][: 1 if role in SLOW else None]:
        for gap in (False, True):
            try:
                check(role, kind, form, gap)
            except BaseException as error:
                error.add_note(f"{role}: {form} of {kind}, gap={gap}")
                raise
