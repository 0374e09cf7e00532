"""Kernels between instances by scikit-learn's names."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics.pairwise import (
    additive_chi2_kernel,
    chi2_kernel,
    cosine_similarity,
    laplacian_kernel,
    linear_kernel,
    polynomial_kernel,
    rbf_kernel,
    sigmoid_kernel,
)

from milearn._kernels.instance import KERNELS, instance_kernel, resolve_gamma, takes_sparse

OPTIONS = {"gamma": 0.3}
# As in scikit-learn's SVC, unlike its functions.
DEFAULTS = {"degree": 3, "coef0": 0.0}
# The functions themselves with the parameters that each one has, and whether it is semidefinite.
EXPECTED = {
    "additive_chi2": (additive_chi2_kernel, (), False),
    "chi2": (chi2_kernel, ("gamma",), True),
    "cosine": (cosine_similarity, (), True),
    "laplacian": (laplacian_kernel, ("gamma",), True),
    "linear": (linear_kernel, (), True),
    "poly": (polynomial_kernel, ("gamma", "degree", "coef0"), True),
    "polynomial": (polynomial_kernel, ("gamma", "degree", "coef0"), True),
    "rbf": (rbf_kernel, ("gamma",), True),
    "sigmoid": (sigmoid_kernel, ("gamma", "coef0"), False),
}


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return rng.random((7, 4)), rng.random((5, 4))


@pytest.mark.parametrize("name", EXPECTED)
def test_values_are_those_of_the_function(name, rows):
    function, names, semidefinite = EXPECTED[name]
    kernel, known = instance_kernel(name, **OPTIONS)
    expected = function(*rows, **{each: {**OPTIONS, **DEFAULTS}[each] for each in names})
    np.testing.assert_array_equal(kernel(*rows), expected)
    assert known == semidefinite
    left, right = rows
    for pair in (
        (left, left),
        (left.astype(np.float32), right),
        (left[::2], np.asfortranarray(right)),
    ):
        expected = function(*pair, **{each: {**OPTIONS, **DEFAULTS}[each] for each in names})
        np.testing.assert_array_equal(kernel(*pair), expected)
    expected = kernel(*rows)
    for each in rows:
        each.flags.writeable = False
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(kernel))(*rows), expected)


@pytest.mark.parametrize("name", KERNELS)
def test_sparse_rows(name, rows):
    kernel, _ = instance_kernel(name, **OPTIONS)
    left, right = (sparse.csr_array(each) for each in rows)
    if takes_sparse(name):
        np.testing.assert_allclose(kernel(left, right), kernel(*rows), rtol=1e-12)
        return
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        kernel(left, right)


def test_a_users_kernel_must_return_a_matrix_of_the_pairs(rows):
    kernel, _ = instance_kernel(lambda left, right: left @ left.T, **OPTIONS)
    with pytest.raises(ValueError, match=r"returned shape \(7, 7\) for 7 and 5 instances"):
        kernel(*rows)
    kernel, _ = instance_kernel(
        lambda left, right: sparse.csr_array(left) @ sparse.csr_array(right).T, **OPTIONS
    )
    np.testing.assert_allclose(kernel(*rows), rows[0] @ rows[1].T)


@pytest.mark.parametrize("name", ["rbf", "laplacian"])
def test_values_do_not_depend_on_the_origin(name):
    rng = np.random.default_rng(0)
    # Multiples of 1/64, whose sums with the offset are exact.
    left, right = (np.round(rng.normal(size=(n, 3)) * 64) / 64 for n in (40, 25))
    kernel, _ = instance_kernel(name, **OPTIONS)
    for offset in (1e7, 2.0**36):
        np.testing.assert_allclose(
            kernel(left + offset, right + offset), kernel(left, right), rtol=1e-12
        )
        moved = left + offset
        whole = kernel(moved, moved)
        np.testing.assert_allclose(whole, kernel(left, left), rtol=1e-12)
        np.testing.assert_array_equal(np.diagonal(whole), 1.0)


def test_the_scale_of_equal_numbers_is_no_rounding_error():
    assert resolve_gamma("scale", np.full((30, 3), 0.7)) == 1.0
