"""Checks of kinds of input: sequences, arrays, matrices, types, memory maps, workers."""

from __future__ import annotations

import pickle
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import get_tags

from ..._bags import Bags
from .data import Problem
from .registry import always, bag_check, predicts
from .tools import (
    REFIT,
    SAME,
    Outputs,
    assert_close,
    comparable,
    ensure,
    fit_outputs,
    fitted_on,
    outputs_of,
    reference,
    refuses_fit,
)

# Bytes above which joblib maps an array into a file, which includes most arrays. The same limit for
# all checks, so that joblib keeps its worker processes.
MAPPED_BYTES = 1


def _assert_same_for(
    estimator: Any, problem: Problem, other: Any, tolerance: float, what: str
) -> None:
    fitted, expected = reference(estimator, problem)
    again = fitted_on(estimator, other, problem.y)
    assert_close(expected, outputs_of(fitted, other), tolerance, f"predicting for {what}")
    assert_close(
        comparable(fitted, expected), fit_outputs(again, other), tolerance, f"fitted on {what}"
    )


@bag_check("dense", "sparse")
def check_bags_as_sequences(estimator: Any, problem: Problem) -> None:
    """A list, a tuple or an object array of blocks is equivalent to Bags."""
    blocks = list(problem.X)
    objects = np.empty(len(blocks), dtype=object)
    for position, block in enumerate(blocks):
        objects[position] = block
    for what, other in (("a list", blocks), ("a tuple", tuple(blocks)), ("objects", objects)):
        _assert_same_for(estimator, problem, other, SAME, what)


@bag_check("equal")
def check_bags_as_3d_array(estimator: Any, problem: Problem) -> None:
    """A 3-D array, also of objects, is equivalent to bags of equal size."""
    stack = np.array([np.asarray(block) for block in problem.X])
    for what, other in (("a 3-D array", stack), ("a 3-D object array", stack.astype(object))):
        _assert_same_for(estimator, problem, other, SAME, what)


@bag_check("singletons")
def check_singletons_as_matrix(estimator: Any, problem: Problem) -> None:
    """The rows of a matrix are equivalent to bags of one instance."""
    _assert_same_for(estimator, problem, problem.X.instances, SAME, "a matrix")


@bag_check("noisy", "graphs")
def check_sparse_equals_dense(estimator: Any, problem: Problem) -> None:
    """CSR instances are equivalent to dense ones, or an error for an estimator without the tag."""
    X = problem.X
    csr = X.with_instances(sparse.csr_array(X.instances))
    if get_tags(estimator).input_tags.sparse:
        _assert_same_for(estimator, problem, csr, 1e-5, "CSR instances")
        return
    refuses_fit(estimator, csr, problem.y, (TypeError, ValueError), "(?i)sparse", "CSR instances")


@bag_check("dense")
def check_float32(estimator: Any, problem: Problem) -> None:
    """Results for float32 and float64 instances are nearly equal."""
    single = problem.X.instances.astype(np.float32)
    double = problem.X.with_instances(single.astype(np.float64))
    rounded = Problem(problem.kind, problem.task, double, problem.y)
    _assert_same_for(estimator, rounded, double.with_instances(single), REFIT, "float32 instances")


@bag_check("dense", "sparse", "graphs", applies=predicts)
def check_read_only_memory_map(estimator: Any, problem: Problem) -> None:
    """Bags in a read-only memory map, as joblib passes them to workers, are supported."""
    _, expected = reference(estimator, problem)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        joblib.dump((problem.X, problem.y), Path(folder) / "bags")
        X, y = joblib.load(Path(folder) / "bags", mmap_mode="r")
        again = fitted_on(estimator, X, y)
        assert_close(expected, outputs_of(again, X), SAME, "fitted on a read-only memory map")


@bag_check("dense", applies=predicts, once=True)
def check_parallel_workers(estimator: Any, problem: Problem) -> None:
    """Fits in worker processes, on memory maps, are the same as in this process."""
    _, expected = reference(estimator, problem)
    found = joblib.Parallel(n_jobs=2, max_nbytes=MAPPED_BYTES)(
        joblib.delayed(_fit_and_output)(estimator, problem.X, problem.y) for _ in range(2)
    )
    for outputs in found:
        if isinstance(outputs, Exception):
            raise outputs
        assert_close(expected, outputs, SAME, "fitted in a worker process")


def _fit_and_output(estimator: Any, X: Bags, y: Any) -> Outputs | Exception:
    with warnings.catch_warnings():
        # A separate process, to which the warning filters of the check do not apply.
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            return outputs_of(fitted_on(estimator, X, y), X)
        except Exception as error:
            # If an error were raised in it, joblib would restart its workers, which takes seconds.
            error.add_note(traceback.format_exc())
            return error


@bag_check("dense", "sparse", "graphs", applies=always)
def check_input_is_untouched(estimator: Any, problem: Problem) -> None:
    """Neither fit nor prediction modifies bags or labels."""
    before = joblib.hash((problem.X, problem.y))
    outputs_of(fitted_on(estimator, problem.X, problem.y), problem.X)
    after = joblib.hash((problem.X, problem.y))
    ensure(after == before, "the bags or labels were changed")


@bag_check("dense", "sparse", "graphs", applies=predicts)
def check_pickle(estimator: Any, problem: Problem) -> None:
    """An unpickled estimator has the same predictions."""
    fitted, expected = reference(estimator, problem)
    again = pickle.loads(pickle.dumps(fitted))
    assert_close(expected, outputs_of(again, problem.X), 0.0, "after a pickle")
