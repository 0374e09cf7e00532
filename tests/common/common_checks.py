"""scikit-learn's checks and those of bags as marks of tests, for the two files that use them."""

from __future__ import annotations

from functools import partial

import pytest
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from milearn.utils.estimator_checks import parametrize_with_bag_checks

# -- checks that fail ------------------------------------------------------------------------------

# Checks that fail for a reason, by class. They are strict: one that passes has to be taken off.
EXPECTED_FAILURES: dict[str, dict[str, str]] = {}


def _expected_failures(estimator):
    return EXPECTED_FAILURES.get(type(estimator).__name__, {})


# -- checks that depend on settings ----------------------------------------------------------------

# What scikit-learn's other checks look at is the same code for all settings of a class: the
# validation of input and labels, tags, parameters, clones. The defaults run them.
SCIKIT_LEARN_OF_SETTINGS = {
    "check_class_weight_classifiers",
    "check_classifiers_classes",
    "check_classifiers_one_label_sample_weights",
    "check_classifiers_train",
    "check_clusterer_compute_labels_predict",
    "check_clustering",
    "check_decision_proba_consistency",
    "check_dict_unchanged",
    "check_dont_overwrite_parameters",
    "check_fit2d_1feature",
    "check_fit2d_1sample",
    "check_fit_idempotent",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_non_transformer_estimators_n_iter",
    "check_regressors_int",
    "check_regressors_train",
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
    "check_transformer_general",
    "check_transformer_preserve_dtypes",
}

_FIRST = ("binary", "regression", "unsupervised")
_EVERY = (*_FIRST, "multiclass")
_LAST = ("multiclass", "regression", "unsupervised")

# Checks of bags that depend on settings: kinds of input and tasks on which they run. Kinds of
# containers and refused input are left to the defaults for the same reason.
BAGS_OF_SETTINGS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "check_order_of_instances": (("dense", "sparse"), _FIRST),
    "check_order_of_bags": (("dense", "sparse"), _FIRST),
    "check_subset_of_bags": (("dense",), _EVERY),
    "check_sparse_equals_dense": (("dense",), _EVERY),
    "check_float32": (("dense",), _FIRST),
    "check_read_only_memory_map": (("dense", "sparse"), _FIRST),
    "check_input_is_untouched": (("dense", "sparse"), _FIRST),
    "check_pickle": (("dense", "sparse"), _FIRST),
    "check_clone": (("dense",), _FIRST),
    "check_fit_again": (("dense",), _EVERY),
    "check_refit_with_other_settings": (("dense",), _FIRST),
    "check_parameters_after_fit": (("dense",), _EVERY),
    "check_refused_refit": (("dense",), _FIRST),
    "check_parallel_config": (("dense",), _LAST),
    "check_max_iter": (("dense",), _FIRST),
    "check_callbacks": (("dense",), _FIRST),
    "check_callback_stop": (("dense",), _FIRST),
    "check_pos_label": (("dense",), _FIRST),
    "check_sample_weight": (("dense",), _EVERY),
    "check_feature_names": (("dense",), _FIRST),
    "check_transform": (("dense", "sparse"), _FIRST),
    "check_set_output": (("dense",), _FIRST),
    "check_two_levels": (("dense",), _EVERY),
    "check_witness": (("dense", "sparse"), _EVERY),
}
# Of these, what only an estimator with a transform does differently by its settings.
_OF_TRANSFORMS = {"check_feature_names"}


def _depends_on_settings(estimator, check):
    if isinstance(check, partial):
        memory_map = check.keywords.get("readonly_memmap", False)
        return check.func.__name__ in SCIKIT_LEARN_OF_SETTINGS and not memory_map
    kinds, tasks = BAGS_OF_SETTINGS.get(check.name, ((), ()))
    if hasattr(estimator, "graph") and check.name == "check_graphs_are_cut":
        kinds, tasks = ("graphs",), _EVERY
    if check.name in _OF_TRANSFORMS and not hasattr(estimator, "transform"):
        return False
    if check.problem.kind not in kinds:
        return False
    # A classifier of two classes has no other task that could stand for its last one.
    single = not getattr(get_tags(estimator).classifier_tags, "multi_class", False)
    return check.problem.task in tasks or single


# Estimators whose input goes through the same code as that of all others, and whose fit consists of
# many fits of estimators that run every check, or of many starts: they run the checks of settings.
OF_MANY_FITS = {
    "ConceptEmbedding",
    "DDSVM",
    "DiverseDensity",
    "EMDD",
    "MIClassifier",
    "MIForest",
    "MILBoost",
    "MIRegressor",
    "WellSVC",
}


def _is_of_many_fits(estimator):
    return type(estimator).__name__ in OF_MANY_FITS


# Ensembles and searches of which a few members show all that a check can see.
SMALLER: dict[str, dict] = {
    "ConceptEmbedding": {"n_starts": 2},
    "DDSVM": {"n_starts": 2},
    "MIForest": {"n_estimators": 5, "n_epochs": 1},
    "MILBoost": {"n_learners": 10},
}
# Boosting with a learner other than stumps takes hundreds of rounds to its tolerance.
QUICK = {"max_learners": 20}


# -- marks -----------------------------------------------------------------------------------------


def with_scikit_learn_checks(estimators, of_settings=False):
    made = parametrize_with_checks(estimators, expected_failed_checks=_expected_failures)
    names, cases = made.args
    # A list: pytest 9 warns of the generator that scikit-learn 1.7 hands over.
    kept = [case for case in cases if not of_settings or _depends_on_settings(*_values(case))]
    return pytest.mark.parametrize(names, [_stops_early(case) for case in kept], **made.kwargs)


def with_bag_checks(estimators, of_settings=False):
    made = parametrize_with_bag_checks(estimators, expected_failed_checks=_expected_failures)
    names, cases = made.args
    kept = [
        case
        for case in cases
        if not (of_settings or _is_of_many_fits(_values(case)[0]))
        or _depends_on_settings(*_values(case))
    ]
    return pytest.mark.parametrize(names, kept, **made.kwargs)


def _values(case):
    return getattr(case, "values", case)


def _stops_early(case):
    """Let estimators warn whose setting stops them before convergence, to be quick."""
    values = _values(case)
    if getattr(values[0], "max_learners", None) != QUICK["max_learners"]:
        return case
    ignored = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    return pytest.param(*values, marks=[*getattr(case, "marks", ()), ignored])
