"""The way in, the labels, and prediction on two levels."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.base import BaseEstimator
from sklearn.exceptions import DataConversionWarning

from milearn import Bags
from milearn._fit.validation import (
    TrainingLabels,
    as_bags,
    bag_weights,
    check_bags,
    encode_classes,
    validate_bags,
    validate_labels,
    validate_sample_weight,
)
from tests._bags.kinds import refuses
from tests.toys import LeastSquaresBags, two_level_bags


class Anything(BaseEstimator):
    """An estimator to hang ``n_features_in_`` on."""


# -- what counts as bags -------------------------------------------------------------------------

BLOCKS = [np.arange(6.0).reshape(3, 2), np.ones((1, 2)), np.zeros((2, 2))]
EQUAL = [np.arange(4.0).reshape(2, 2), np.ones((2, 2)), np.zeros((2, 2))]


def _object_array(blocks):
    array = np.empty(len(blocks), dtype=object)
    for position, block in enumerate(blocks):
        array[position] = block
    return array


SEQUENCES = {
    "list": list,
    "tuple": tuple,
    "object array": _object_array,
    "series": lambda blocks: pd.Series(list(blocks)),
    "nested lists": lambda blocks: [block.tolist() for block in blocks],
    "lists of rows": lambda blocks: [list(block) for block in blocks],
    "csr": lambda blocks: [sparse.csr_array(block) for block in blocks],
    "csr_matrix": lambda blocks: [sparse.csr_matrix(block) for block in blocks],
    "frames": lambda blocks: [pd.DataFrame(block, columns=["a", "b"]) for block in blocks],
    "list and csr": lambda blocks: [sparse.csr_array(blocks[0]), *blocks[1:]],
    "bags": Bags.from_list,
}
STACKS = {
    "3-D": np.array,
    "3-D of objects": lambda blocks: np.array(blocks, dtype=object),
    "3-D of integers": lambda blocks: np.array(blocks, dtype=int),
    "3-D in Fortran order": lambda blocks: np.asfortranarray(np.array(blocks)),
    "3-D list": lambda blocks: np.array(blocks).tolist(),
    "3-D transposed": lambda blocks: np.array(blocks).transpose(2, 1, 0).transpose(2, 1, 0),
}


def _assert_blocks(bags, blocks):
    assert type(bags) is Bags
    assert len(bags) == len(blocks)
    for mine, block in zip(bags, blocks, strict=True):
        np.testing.assert_array_equal(mine.toarray() if sparse.issparse(mine) else mine, block)


@pytest.mark.parametrize("kind", SEQUENCES)
@pytest.mark.parametrize("blocks", [BLOCKS, EQUAL], ids=["ragged", "equal"])
def test_blocks_are_bags(kind, blocks):
    _assert_blocks(as_bags(SEQUENCES[kind](blocks)), blocks)
    _assert_blocks(validate_bags(Anything(), SEQUENCES[kind](blocks)), blocks)


@pytest.mark.parametrize("kind", STACKS)
def test_equal_blocks_of_a_3d_array_are_bags(kind):
    _assert_blocks(validate_bags(Anything(), STACKS[kind](EQUAL)), EQUAL)


@pytest.mark.parametrize(
    "convert",
    [
        np.array,
        list,
        lambda matrix: matrix.tolist(),
        sparse.csr_array,
        sparse.csc_matrix,
        pd.DataFrame,
        lambda matrix: matrix.astype(object),
    ],
)
def test_rows_of_a_matrix_are_bags_of_one(convert):
    matrix = np.arange(6.0).reshape(3, 2)
    assert as_bags(convert(matrix)) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bags = validate_bags(Anything(), convert(matrix))
    _assert_blocks(bags, matrix[:, None, :])


NOT_A_NUMBER = (
    "X holds {!r}, which is not a number: encode it as numbers first, for example by "
    "pandas.get_dummies or sklearn's OneHotEncoder. A bag of texts is a list of strings"
)


@pytest.mark.parametrize("module", ["pandas", "polars"])
@pytest.mark.parametrize("reset", [True, False])
def test_a_frame_with_a_bag_column_names_from_frame(module, reset):
    module = pytest.importorskip(module)
    frame = module.DataFrame({"x": [1.0, 2.0], "molecule": ["a", "b"], "y": [1.0, 2.0]})
    estimator = Anything()
    if not reset:
        validate_bags(estimator, frame[["x", "y"]])
    message = "Column 'molecule' holds text ('a', 'b'), which is not a number: "
    if reset:
        refuses(lambda: check_bags(frame), message)
        refuses(lambda: validate_bags(estimator, frame), message)
        assert not hasattr(estimator, "n_features_in_")
    bags = Bags.from_frame(frame, "molecule")
    assert validate_bags(estimator, bags, reset=reset).shape == (2, 2)


def test_frames_with_other_faults_keep_their_message():
    frame = pd.DataFrame({"x": [1.0, np.nan], "y": [1.0, 2.0]})
    with pytest.raises(ValueError, match="contains NaN"):
        check_bags(frame)
    texts = pd.DataFrame({"x": np.array(["1", "2.5"], dtype=object)})
    with pytest.raises(ValueError, match=r"^Column 'x' holds text \('1', '2\.5'\), which is not"):
        check_bags(texts)


def test_rows_of_named_and_polars_frames():
    for module in (pd, pytest.importorskip("polars")):
        frame = module.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
        estimator = Anything()
        bags = validate_bags(estimator, frame)
        _assert_blocks(bags, [[[1.0, 3.0]], [[2.0, 4.0]]])
        assert estimator.feature_names_in_.tolist() == ["a", "b"]
        assert bags.feature_names.tolist() == ["a", "b"]


def test_bags_are_passed_on_without_a_copy_and_keep_their_type():
    bags = Bags.from_list(BLOCKS)
    assert validate_bags(Anything(), bags) is bags
    stack = np.array(EQUAL)
    assert np.shares_memory(validate_bags(Anything(), stack).instances, stack)
    # The largest values are no infinity.
    huge = np.full((3, 2), np.finfo(np.float32).max, dtype=np.float32)
    for given in (Bags(huge, [0, 2, 3]), huge):
        assert validate_bags(Anything(), given).dtype == np.float32
        assert validate_bags(Anything(), given, dtype=np.float64).dtype == np.float64


# -- bad input -----------------------------------------------------------------------------------


def _with(value, kind):
    instances = np.arange(12.0).reshape(6, 2)
    instances[4, 1] = value
    instances[2, 0] = 0.0
    matrix = sparse.csr_array(instances) if kind == "csr" else instances
    return Bags(matrix, [0, 3, 4, 6])


NAN_ADVICE = (
    "impute it with milearn.preprocessing.InstanceTransformer(SimpleImputer()) or remove the "
    "instance."
)


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.nan, f"Bag 2 contains NaN (instance row 4): {NAN_ADVICE}"),
        (np.inf, "Bag 2 contains infinity (instance row 4): remove or clip it."),
        (-np.inf, "Bag 2 contains infinity (instance row 4): remove or clip it."),
    ],
    ids=str,
)
def test_not_finite(value, message, kind):
    bags = _with(value, kind)
    refuses(lambda: validate_bags(Anything(), bags), message)
    if kind == "dense":
        refuses(lambda: validate_bags(Anything(), list(bags)), message)
    with config_context(assume_finite=True):
        validate_bags(Anything(), bags)
    validate_bags(Anything(), bags, ensure_all_finite=False)
    if np.isnan(value):
        validate_bags(Anything(), bags, ensure_all_finite="allow-nan")
    else:
        refuses(lambda: validate_bags(Anything(), bags, ensure_all_finite="allow-nan"), message)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ("musk1.data", "X is a string ('musk1.data'): pass bags; to read them from a file use"),
        (Bags(np.empty((0, 2)), [0]), "Found 0 bag(s) while a minimum of 1 is required by"),
        (Bags(np.empty((2, 0)), [0, 2]), "The bags have 0 features while a minimum of 1 is"),
        (
            np.full((2, 2, 2), "a"),
            "instances holds text ('a'), which is not a number: encode it as",
        ),
    ],
    ids=["a string for all", "no bags", "no features", "text"],
)
def test_bad_bags(X, message):
    refuses(lambda: validate_bags(Anything(), X), message, (TypeError, ValueError))


@pytest.mark.parametrize("X", [3.0, np.ones(3), [1.0, 2.0]])
def test_other_things_are_left_to_scikit_learn(X):
    with pytest.raises(ValueError, match="Expected 2D array"):
        validate_bags(Anything(), X)


@pytest.mark.parametrize(
    "convert", [list, np.array, lambda X: np.array(X, dtype=object), lambda X: pd.Series(list(X))]
)
def test_text_of_equal_length_is_refused_with_the_remedy(convert):
    for X in ([["good film", "red"], ["bad film", "blue"]], [["1.5", "red"], ["2", "blue"]]):
        text = "good film" if X[0][0] == "good film" else "red"
        message = NOT_A_NUMBER.format(text)
        refuses(lambda X=X: validate_bags(Anything(), convert(X)), message)
        refuses(lambda X=X: check_bags(convert(X)), message)


def test_sparse_where_dense_is_needed():
    bags = Bags.from_list([sparse.csr_array(block) for block in BLOCKS])
    refuses(
        lambda: validate_bags(Anything(), bags, accept_sparse=False),
        "The instances are sparse but Anything needs dense ones: convert them with "
        "bags.with_instances(bags.instances.toarray()).",
        TypeError,
    )
    with pytest.raises(TypeError, match="Sparse data was passed"):
        validate_bags(Anything(), bags.instances, accept_sparse=False)


# -- features ------------------------------------------------------------------------------------


def test_feature_names_are_kept_and_checked():
    named = Bags.from_list(BLOCKS, feature_names=["a", "b"])
    estimator = Anything()
    validate_bags(estimator, named)
    assert estimator.feature_names_in_.tolist() == ["a", "b"]
    assert estimator.feature_names_in_.dtype == object
    assert estimator.n_features_in_ == 2
    validate_bags(estimator, named[[1, 0]], reset=False)
    validate_bags(estimator, pd.DataFrame({"a": [1.0], "b": [2.0]}), reset=False)
    start = "The feature names should match those that were passed during fit: "
    for names, said in ((["b", "a"], "the order differs. Pass"), (["b"], "'a' missing. Pass")):
        message = f"{start}{said} X[:, model.feature_names_in_]"
        refuses(lambda n=names: validate_bags(estimator, named[:, n], reset=False), message)
    # A fit without names forgets them.
    validate_bags(estimator, np.ones((2, 2, 5)))
    assert not hasattr(estimator, "feature_names_in_")
    assert estimator.n_features_in_ == 5


def test_names_on_one_side_are_warned_of_as_in_scikit_learn():
    named, plain = Bags.from_list(BLOCKS, feature_names=["a", "b"]), Bags.from_list(BLOCKS)
    estimator = Anything()
    validate_bags(estimator, named)
    for X in (plain, [np.ones((3, 2))], np.ones((3, 2)), [[1.0, 2.0]]):
        with pytest.warns(UserWarning, match="X does not have valid feature names, but Anything"):
            validate_bags(estimator, X, reset=False)
    validate_bags(estimator, plain)
    for X in (np.ones((3, 3)), np.ones((2, 4, 3)), [np.ones((3, 3))]):
        refuses(lambda X=X: validate_bags(estimator, X, reset=False), "X has 3 features, but")


# -- labels and weights --------------------------------------------------------------------------


@pytest.fixture
def bags():
    return Bags.from_list(BLOCKS)


def test_labels(bags):
    assert validate_labels(Anything(), ["a", "b", "a"], bags).tolist() == ["a", "b", "a"]
    numbers = validate_labels(Anything(), [1, 2, 3], bags, numeric=True)
    assert numbers.dtype == np.float64
    for y, message in (
        (
            np.zeros(bags.n_instances),
            "y has 6 labels for 3 bags: pass one label per bag (inconsistent numbers of samples).",
        ),
        (None, "This Anything estimator requires y to be passed, but the target y is None."),
    ):
        refuses(lambda y=y: validate_labels(Anything(), y, bags), message)
    with pytest.raises(
        ValueError, match=r"^y holds 1 missing value\(s\) \(NaN\), the first for bag 1"
    ):
        validate_labels(Anything(), [0.0, np.nan, 1.0], bags, numeric=True)
    with pytest.warns(DataConversionWarning, match="column-vector"):
        assert validate_labels(Anything(), [[0], [1], [0]], bags).shape == (3,)


def test_weights(bags):
    assert validate_sample_weight(None, bags).tolist() == [1.0] * 3
    assert validate_sample_weight(2, bags).tolist() == [2.0] * 3
    assert validate_sample_weight([1, 0, 2], bags).tolist() == [1.0, 0.0, 2.0]
    for weights, message in (
        ([1.0, 2.0], r"sample_weight\.shape == \(2,\), expected \(3,\)"),
        ([1.0, -1.0, -2.0], "sample_weight is negative at bag 1: weights must not be negative"),
        ([0.0, 0.0, 0.0], "sample_weight is zero for every bag|at least one non-zero number"),
    ):
        with pytest.raises(ValueError, match=message):
            validate_sample_weight(weights, bags)
    with pytest.raises(ValueError, match=r"^sample_weight holds 1 missing value\(s\)"):
        validate_sample_weight([1.0, np.nan, 1.0], bags)


@pytest.mark.parametrize(
    ("y", "pos_label", "classes", "positive"),
    [
        (["musk", "non-musk", "musk"], None, ["musk", "non-musk"], 1),
        (["musk", "non-musk", "musk"], "musk", ["musk", "non-musk"], 0),
        (["musk", "non-musk", "musk"], "non-musk", ["musk", "non-musk"], 1),
        ([1, -1, 1], -1, [-1, 1], 0),
        ([1.0, 0.0, 1.0], 1, [0.0, 1.0], 1),
        ([True, False, True], True, [False, True], 1),
        ([2, 0, 1], None, [0, 1, 2], -1),
        (np.array(["b", "a", "b"], dtype=object), "b", ["a", "b"], 1),
    ],
    ids=str,
)
def test_classes(y, pos_label, classes, positive):
    found, codes, number = encode_classes(np.asarray(y), pos_label)
    assert found.tolist() == classes
    assert found[codes].tolist() == list(y)
    assert number == positive


@pytest.mark.parametrize("kind", [list, tuple, lambda y: np.array(y, dtype=object), pd.Series])
@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([1, "a", 0], "y holds labels of mixed types (int, str): give every bag a label of the"),
        (["a", None, "b"], "y holds 1 missing label(s) (None): leave these bags out, or fit an"),
        (["a", np.nan, np.nan], "y holds 2 missing label(s) (nan): leave these bags out, or fit"),
    ],
    ids=["mixed", "None", "nan"],
)
def test_labels_of_mixed_types_or_none(bags, y, message, kind):
    labels = kind(y)
    if kind is pd.Series and None not in list(labels):
        message = message.replace("None", "nan")  # what pandas makes of it since version 3
    refuses(lambda: encode_classes(validate_labels(Anything(), labels, bags)), message)


def test_labels_of_python_numbers(bags):
    message = (
        "Unknown label type: y is an array of Python objects (int); convert it to an array of "
        "whole numbers, as in np.array(y.tolist())."
    )
    y = np.array([1, 0, 1], dtype=object)
    refuses(lambda: encode_classes(validate_labels(Anything(), y, bags)), message)
    missing = np.array([None, 1, 0], dtype=object)
    refuses(lambda: encode_classes(missing), "y holds 1 missing label(s) (None): leave these bags")


@pytest.mark.parametrize(
    ("y", "pos_label", "message"),
    [
        ([1, 1, 1], None, "y holds one class only (1): a classifier needs bags of at least two"),
        (["musk"] * 3, None, "y holds one class only ('musk'): a classifier needs bags of at"),
        (["a", "b", "a"], "c", "pos_label='c' is not a label in y: the labels are ['a', 'b']."),
        (["a", "b", "a"], 1, "pos_label=1 is not a label in y: the labels are ['a', 'b']."),
        (
            [0, 1, 1],
            "musk",
            "pos_label='musk' is not a label in y: the labels are [0, 1].",
        ),
        ([0, 1, 2], 1, "pos_label=1 was given but y has 3 classes: it names the positive one of"),
    ],
    ids=str,
)
def test_wrong_classes(y, pos_label, message):
    refuses(lambda: encode_classes(np.asarray(y), pos_label), message)


def test_numbers_are_no_classes():
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        encode_classes(np.array([0.5, 1.5, 2.5]))
    with pytest.raises(ValueError, match="Input y contains infinity"):
        encode_classes(np.array([0.0, 1.0, np.inf]))
    with pytest.raises(ValueError, match="y holds 1 missing label"):
        encode_classes(np.array([0.0, 1.0, np.nan]))


def test_bag_weights():
    classes, codes = np.array([0, 1]), np.array([0, 1, 1, 1])
    weights = np.array([1.0, 1.0, 2.0, 0.0])
    assert bag_weights(None, classes, codes, weights) is weights
    balanced = bag_weights("balanced", classes, codes, weights)
    np.testing.assert_allclose(balanced, [2.0, 2 / 3, 4 / 3, 0.0])
    # A weight of two is a bag that is there twice.
    repeated = bag_weights("balanced", classes, np.array([0, 1, 1, 1]), np.ones(4))
    np.testing.assert_allclose(repeated, [2.0, 2 / 3, 2 / 3, 2 / 3])
    np.testing.assert_allclose(bag_weights({1: 3.0}, classes, codes, weights), [1, 3, 6, 0])
    for given, message in (
        ({7: 1.0}, " names 7, which is not a label in y: the labels are [0, 1]."),
        ({1: -1.0}, " must hold finite numbers that are not negative."),
    ):
        refuses(lambda g=given: bag_weights(g, classes, codes, weights), f"class_weight{message}")


# -- two levels ----------------------------------------------------------------------------------


def test_an_instance_of_an_estimator_that_scores_bags_alone_is_a_bag_of_one():
    bags, y = two_level_bags(n_bags=4)
    estimator = LeastSquaresBags().fit(bags, y)
    expected = estimator.instance_decision_function(bags)
    by_bags = super(LeastSquaresBags, estimator)._instance_scores(bags)
    np.testing.assert_array_equal(by_bags, expected)


def test_a_class_weight_may_name_a_class_whose_bags_have_no_weight():
    bags, y = Bags(np.arange(6.0)[:, None], np.arange(7)), np.array([0, 1, 2] * 2)
    weights = np.where(y == 2, 0.0, 1.0)
    estimator = LeastSquaresBags()
    estimator.class_weight = {0: 1.0, 1: 3.0, 2: 2.0}
    found = TrainingLabels.of(estimator, y, bags, weights)
    assert found.classes.tolist() == [0, 1]
    np.testing.assert_array_equal(found.weights, [1.0, 3.0, 1.0, 3.0])
    estimator.class_weight = {0: 1.0, 5: 2.0}
    with pytest.raises(ValueError, match=r"class_weight names 5, which is not a label in y"):
        TrainingLabels.of(estimator, y, bags, weights)
