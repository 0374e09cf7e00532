"""Where w lives in the interior point method for the relaxation of instance selection.

The Newton systems of :mod:`.guo_interior_point` are reduced to (w, b): with the signed rows
(z, 1) y of the instances in Z, weights d of instances and vectors p of bags,

    ( diag(1, .., 1, 0) + Z' diag(d) Z + sum_B (Z'p_B)(Z'p_B)' ) (dw, db) = right.

With few features this is solved as it stands. With a kernel, w = sum_i v_i y_i z_i is its vector of
coefficients v, and by the formula of Woodbury the system becomes one of the rows T of weights and
bags, (I + T K T') u = right, which needs the kernel matrix only: no factor of it, a third of the
operations, and no more rows than have a weight that counts. These become few: the weight of an
instance beyond its margin, or with a slack, goes to zero along the way.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from scipy.linalg import LinAlgError, cho_solve
from scipy.linalg.blas import dsymv
from scipy.linalg.lapack import dpotrf, spotrf

from ..._bags.segments import segment_sum

__all__ = ["FeatureGeometry", "Geometry", "KernelGeometry", "NewtonSystem"]

# A row of less weight than this, beside the heaviest, is lost in rounding anyway.
_WEIGHTLESS = 1e-15
# Rows that are left out of a system of kernel values change it by less than this share; what that
# leaves open, the refinement of the direction closes.
_NEGLECTED = 1e-4
# Up to this weight, in units of the kernel, single precision and a refinement are enough.
_SINGLE = 1e3


class NewtonSystem(Protocol):
    """A factored system in (w, b)."""

    def solve(self, right: np.ndarray) -> np.ndarray:
        """The solution for one right-hand side."""
        ...


class Geometry(Protocol):
    """Vectors (w, b), and their products with the signed rows of the instances."""

    width: int
    """Length of w."""

    def rows_times(self, v: np.ndarray) -> np.ndarray:
        """Z v, shape (n_instances,)."""
        ...

    def times_rows(self, alpha: np.ndarray) -> np.ndarray:
        """Z' alpha, in the form of (w, b)."""
        ...

    def square(self, w: np.ndarray) -> float:
        """The square of the norm of w."""
        ...

    def residual(self, v: np.ndarray) -> float:
        """The size of a gradient in (w, b), in units of the rows."""
        ...

    def system(self, weights: np.ndarray, pull: np.ndarray, bags: np.ndarray) -> NewtonSystem:
        """The system of weights of all instances, and of vectors ``pull`` of the positive bags."""
        ...


class FeatureGeometry:
    """Vectors of features.

    Parameters
    ----------
    features : ndarray of shape (n_instances, r)
    signs : ndarray of shape (n_instances,)
    unit : float
        Factor on inner products.
    """

    def __init__(self, features: np.ndarray, signs: np.ndarray, unit: float) -> None:
        n, r = features.shape
        self.width = r
        self.Z = np.empty((n, r + 1))
        np.multiply(features, np.sqrt(unit), out=self.Z[:, :r])
        self.Z[:, r] = 1.0
        self.Z *= signs[:, None]
        self._scale = max(1.0, float(np.abs(self.Z).max()))

    def rows_times(self, v: np.ndarray) -> np.ndarray:
        return np.asarray(self.Z @ v)

    def times_rows(self, alpha: np.ndarray) -> np.ndarray:
        return np.asarray(self.Z.T @ alpha)

    def square(self, w: np.ndarray) -> float:
        return float(w @ w)

    def residual(self, v: np.ndarray) -> float:
        return float(np.abs(v).max()) / self._scale

    def system(self, weights: np.ndarray, pull: np.ndarray, bags: np.ndarray) -> NewtonSystem:
        heavy = weights > _WEIGHTLESS * weights.max()
        rows = self.Z[heavy] * np.sqrt(weights[heavy])[:, None]
        sums = segment_sum(pull[:, None] * self.Z[: len(pull)], bags)
        matrix = rows.T @ rows + sums.T @ sums
        np.einsum("ii->i", matrix)[:-1] += 1.0
        return _Factored(matrix)


class _Factored:
    """Cholesky's factor of a matrix."""

    def __init__(self, matrix: np.ndarray) -> None:
        factorize = spotrf if matrix.dtype == np.float32 else dpotrf
        lower, failed = factorize(matrix, lower=1, clean=0, overwrite_a=0)
        if failed:
            # Near the end the weights differ by fifteen digits.
            diagonal = np.einsum("ii->i", matrix)
            diagonal += 2.0 * np.finfo(matrix.dtype).eps ** 0.9 * diagonal.max()
            lower, failed = factorize(matrix, lower=1, clean=0, overwrite_a=1)
        if failed:
            raise LinAlgError("The Newton system is singular.")
        self._factor = (lower, True)

    def solve(self, right: np.ndarray) -> np.ndarray:
        right = right.astype(self._factor[0].dtype, copy=False)
        return np.asarray(cho_solve(self._factor, right, check_finite=False), dtype=np.float64)


class KernelGeometry:
    """Vectors of coefficients: w stands for the sum of its entries times the signed rows.

    Parameters
    ----------
    kernel : ndarray of shape (n_instances, n_instances)
    signs : ndarray of shape (n_instances,)
    unit : float
        Factor on inner products.
    """

    def __init__(self, kernel: np.ndarray, signs: np.ndarray, unit: float) -> None:
        self.width = len(kernel)
        self.signs = signs
        self.K = np.asfortranarray(kernel.T) * (unit * signs)
        self.K *= signs[:, None]
        self._single: np.ndarray | None = None
        self.diagonal = np.maximum(0.0, np.diagonal(self.K))
        self._scale = max(1.0, float(np.sqrt(self.diagonal.max())))

    def rows_times(self, v: np.ndarray) -> np.ndarray:
        return np.asarray(self.kernel_times(v[:-1]) + v[-1] * self.signs)

    def times_rows(self, alpha: np.ndarray) -> np.ndarray:
        return np.append(alpha, self.signs @ alpha)

    def square(self, w: np.ndarray) -> float:
        return max(0.0, float(w @ self.kernel_times(w)))

    def single(self) -> np.ndarray:
        """The matrix in single precision."""
        if self._single is None:
            self._single = self.K.astype(np.float32)
        return self._single

    def kernel_times(self, values: np.ndarray) -> np.ndarray:
        """The product with the signed kernel matrix, of which one triangle is read."""
        return np.asarray(dsymv(1.0, self.K, values, lower=1))

    def residual(self, v: np.ndarray) -> float:
        return max(float(np.sqrt(self.square(v[:-1]))), abs(float(v[-1]))) / self._scale

    def system(self, weights: np.ndarray, pull: np.ndarray, bags: np.ndarray) -> NewtonSystem:
        return _KernelSystem(self, weights, pull, bags)


class _KernelSystem:
    """The system with (I + T K T') factored, T the rows of weights and of bags that count."""

    def __init__(
        self, of: KernelGeometry, weights: np.ndarray, pull: np.ndarray, bags: np.ndarray
    ) -> None:
        self.of, self.pull, self.bags = of, pull, bags
        share = weights * of.diagonal
        order = np.argsort(share, kind="stable")
        light = np.searchsorted(np.cumsum(share[order]), _NEGLECTED)
        self.rows = np.sort(order[light:])
        self.root = np.sqrt(weights[self.rows])
        m, p, n_bags = len(self.rows), len(pull), len(bags) - 1
        # In the order of columns, as LAPACK takes it; above the diagonal nothing is read.
        K, root, signed_pull = of.K, self.root, pull
        if share.max() <= _SINGLE:
            K, root, signed_pull = of.single(), root.astype(np.float32), pull.astype(np.float32)
        matrix = np.empty((m + n_bags, m + n_bags), order="F", dtype=K.dtype)
        ours = matrix[:m, :m]
        if m < of.width:
            np.multiply(K.T[np.ix_(self.rows, self.rows)].T, root, out=ours)
        else:
            np.multiply(K, root, out=ours)
        ours *= root[:, None]
        of_bags = segment_sum(signed_pull[:, None] * K.T[:p], bags)
        matrix[m:, :m] = of_bags[:, self.rows] * root
        matrix[m:, m:] = segment_sum(signed_pull[:, None] * of_bags[:, :p].T, bags)
        np.einsum("ii->i", matrix)[:] += 1.0
        self._factor = _Factored(matrix)
        self.right_b = self._times(of.signs)
        self.solved_b = self._factor.solve(self.right_b)

    def _times(self, values: np.ndarray) -> np.ndarray:
        """T values."""
        ours = segment_sum(self.pull * values[: len(self.pull)], self.bags)
        return np.concatenate([self.root * values[self.rows], ours])

    def _back(self, u: np.ndarray) -> np.ndarray:
        """T' u."""
        m = len(self.rows)
        out = np.zeros(self.of.width)
        out[self.rows] = self.root * u[:m]
        out[: len(self.pull)] += self.pull * np.repeat(u[m:], np.diff(self.bags))
        return out

    def solve(self, right: np.ndarray) -> np.ndarray:
        u = self._factor.solve(self._times(self.of.kernel_times(right[:-1])))
        db = (right[-1] - self.right_b @ u) / (self.right_b @ self.solved_b)
        return np.append(right[:-1] - self._back(u + db * self.solved_b), db)
