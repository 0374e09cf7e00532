"""Where w lives in the interior point method for the relaxation of instance selection.

The Newton systems of :mod:`.interior_point` are reduced to (w, b): with the signed rows
(z, 1) y of the instances in Z, weights d of instances and vectors p of bags,

    ( diag(1, .., 1, 0) + Z' diag(d) Z + sum_B (Z'p_B)(Z'p_B)' ) (dw, db) = right.

With few features this is solved as it stands. With a kernel, w = sum_i v_i y_i z_i is its vector of
coefficients v, and by the formula of Woodbury the system becomes one of the rows T of weights and
bags, (I + T K T') u = right, which needs the kernel matrix only: no factor of it, a third of the
operations, and no more rows than have a weight that counts. These become few: the weight of an
instance beyond its margin, or with a slack, goes to zero along the way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import sparse
from scipy.linalg import LinAlgError, cho_solve
from scipy.linalg.blas import dsymv
from scipy.linalg.lapack import dpotrf, spotrf

__all__ = [
    "ActiveRows",
    "FeatureGeometry",
    "Geometry",
    "KernelGeometry",
    "NewtonSystem",
    "SparseGeometry",
]

# A row of less weight than this, beside the heaviest, is lost in rounding anyway.
_WEIGHTLESS = 1e-15
# Rows that are left out of a system of kernel values change it by less than this share; what that
# leaves open, the refinement of the direction closes.
_NEGLECTED = 1e-4
# Up to this weight, in units of the kernel, single precision and a refinement are enough.
_SINGLE = 1e3
# Up to so many rows a factor is quicker than conjugate gradients, which take up to so many steps.
_FEW_ROWS = 400
_MAX_GRADIENTS = 200


class NewtonSystem(Protocol):
    """A factored system in (w, b)."""

    def solve(self, right: np.ndarray, image: np.ndarray | None = None) -> np.ndarray:
        """The solution for one right-hand side; ``image`` is Z times its part in w, if known."""
        ...


class Geometry(Protocol):
    """Vectors (w, b), and their products with the signed rows of the instances."""

    width: int
    """Length of w."""
    scale: float
    """Size of the largest row, one at least."""

    def rows_times(self, v: np.ndarray) -> np.ndarray:
        """Z v, shape (n_instances,)."""
        ...

    def times_rows(self, alpha: np.ndarray) -> np.ndarray:
        """Z' alpha, in the form of (w, b)."""
        ...

    def square(self, w: np.ndarray) -> float:
        """The square of the norm of w."""
        ...

    def inner(self, w: np.ndarray, other: np.ndarray, image: np.ndarray) -> float:
        """The inner product of two w, the image Z (w, 0) of the second being known."""
        ...

    def residual(self, v: np.ndarray) -> float:
        """The size of a gradient in (w, b), in units of the rows."""
        ...

    def system(
        self, weights: np.ndarray, pull: np.ndarray, bags: np.ndarray, tol: float = 0.0
    ) -> NewtonSystem:
        """The system of weights of all instances, and of vectors ``pull`` of the positive bags.

        A relative residual of ``tol`` is enough.
        """
        ...


class RowGeometry(Protocol):
    """Vectors whose systems are solved in terms of rows."""

    signs: np.ndarray

    def rows_times(self, v: np.ndarray) -> np.ndarray:
        """Z v, shape (n_instances,)."""
        ...

    def combined(self, coefficients: np.ndarray) -> np.ndarray:
        """The w that has these coefficients of the signed instances."""
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
        self.scale = max(1.0, float(np.abs(self.Z).max()))

    def rows_times(self, v: np.ndarray) -> np.ndarray:
        return np.asarray(self.Z @ v)

    def times_rows(self, alpha: np.ndarray) -> np.ndarray:
        return np.asarray(self.Z.T @ alpha)

    def square(self, w: np.ndarray) -> float:
        return float(w @ w)

    def inner(self, w: np.ndarray, other: np.ndarray, image: np.ndarray) -> float:
        return float(w @ other)

    def residual(self, v: np.ndarray) -> float:
        return float(np.abs(v).max()) / self.scale

    def system(
        self, weights: np.ndarray, pull: np.ndarray, bags: np.ndarray, tol: float = 0.0
    ) -> NewtonSystem:
        heavy = np.flatnonzero(weights > _WEIGHTLESS * weights.max())
        rows = self.Z[heavy] * np.sqrt(weights[heavy])[:, None]
        matrix = rows.T @ rows
        members = ActiveRows.of(weights, heavy[:0], pull, bags)
        if len(members):
            sums = members.sums(members.pulls[:, None] * self.Z[members.members])
            matrix += sums.T @ sums
        diagonal = np.einsum("ii->i", matrix)
        diagonal[:-1] += 1.0
        if diagonal[-1] <= 0:
            diagonal[-1] = 1.0
        return _Factored(matrix)


class _Inverse(Protocol):
    def solve(self, right: np.ndarray) -> np.ndarray: ...


class _Factored:
    """Cholesky's factor of a matrix."""

    def __init__(self, matrix: np.ndarray) -> None:
        factorize = spotrf if matrix.dtype == np.float32 else dpotrf
        if not len(matrix):
            self._factor = (matrix, True)
            return
        lower, failed = factorize(matrix, lower=1, clean=0, overwrite_a=0)
        if failed:
            # Near the end the weights differ by fifteen digits.
            diagonal = np.einsum("ii->i", matrix)
            diagonal += 2.0 * np.finfo(matrix.dtype).eps ** 0.9 * diagonal.max()
            lower, failed = factorize(matrix, lower=1, clean=0, overwrite_a=1)
        if failed:
            raise LinAlgError("The Newton system is singular.")
        self._factor = (lower, True)

    def solve(self, right: np.ndarray, image: np.ndarray | None = None) -> np.ndarray:
        if not len(right):
            return right
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
        self.scale = max(1.0, float(np.sqrt(self.diagonal.max())))

    def rows_times(self, v: np.ndarray) -> np.ndarray:
        return np.asarray(self.kernel_times(v[:-1]) + v[-1] * self.signs)

    def times_rows(self, alpha: np.ndarray) -> np.ndarray:
        return np.append(alpha, self.signs @ alpha)

    def square(self, w: np.ndarray) -> float:
        return max(0.0, float(w @ self.kernel_times(w)))

    def inner(self, w: np.ndarray, other: np.ndarray, image: np.ndarray) -> float:
        return float(w @ image)

    def combined(self, coefficients: np.ndarray) -> np.ndarray:
        return coefficients

    def single(self) -> np.ndarray:
        """The matrix in single precision."""
        if self._single is None:
            self._single = self.K.astype(np.float32)
        return self._single

    def kernel_times(self, values: np.ndarray) -> np.ndarray:
        """The product with the signed kernel matrix, of which one triangle is read."""
        return np.asarray(dsymv(1.0, self.K, values, lower=1))

    def residual(self, v: np.ndarray) -> float:
        return max(float(np.sqrt(self.square(v[:-1]))), abs(float(v[-1]))) / self.scale

    def system(
        self, weights: np.ndarray, pull: np.ndarray, bags: np.ndarray, tol: float = 0.0
    ) -> NewtonSystem:
        rows = _that_count(weights, self.diagonal, pull, bags)
        single = (weights * self.diagonal).max() <= _SINGLE
        gram = self._gram(rows, self.single() if single else self.K)
        return _RowSystem(self, rows, _Factored(_plus_one(gram)))

    def _gram(self, rows: ActiveRows, K: np.ndarray) -> np.ndarray:
        """T K T', in the order of columns as LAPACK takes it; one triangle."""
        k, m = len(rows.singles), len(rows)
        roots, pulls = rows.roots.astype(K.dtype), rows.pulls.astype(K.dtype)
        gram = np.empty((m, m), order="F", dtype=K.dtype)
        # The matrix is symmetric, so that its columns are its rows.
        ours = K.T[rows.singles][:, rows.singles] if k < self.width else K.T.copy()
        ours *= roots
        ours *= roots[:, None]
        gram[:k, :k] = ours.T
        if m > k:
            of_bags = rows.sums(pulls[:, None] * K.T[rows.members])
            gram[k:, :k] = of_bags[:, rows.singles] * roots
            gram[k:, k:] = rows.sums(pulls[:, None] * of_bags[:, rows.members].T)
        return gram


class SparseGeometry:
    """Vectors of many features, few of which an instance has, counted from their mean.

    Parameters
    ----------
    features : CSR of shape (n_instances, r)
    signs : ndarray of shape (n_instances,)
    unit : float
        Factor on inner products.
    max_bytes : float
        Maximum size of the matrix of a system.
    """

    def __init__(
        self, features: sparse.csr_array, signs: np.ndarray, unit: float, max_bytes: float = np.inf
    ) -> None:
        self.max_bytes = max_bytes
        self.signs, self.width = signs, features.shape[1]
        self.Z = sparse.csr_array(features * (np.sqrt(unit) * signs)[:, None])
        self._transposed = sparse.csr_array(self.Z.T)
        self.mean = np.asarray(signs @ self.Z) / len(signs)
        squares = np.asarray(self.Z.multiply(self.Z).sum(axis=1)).ravel()
        offset = self.mean @ self.mean - 2.0 * signs * (self.Z @ self.mean)
        self.diagonal = np.maximum(0.0, squares + offset)
        self.scale = max(1.0, float(np.sqrt(self.diagonal.max())))

    def rows_times(self, v: np.ndarray) -> np.ndarray:
        return np.asarray(self.Z @ v[:-1] + self.signs * (v[-1] - self.mean @ v[:-1]))

    def times_rows(self, alpha: np.ndarray) -> np.ndarray:
        return np.append(self.combined(alpha), self.signs @ alpha)

    def combined(self, coefficients: np.ndarray) -> np.ndarray:
        total = self.signs @ coefficients
        return np.asarray(self._transposed @ coefficients - total * self.mean)

    def square(self, w: np.ndarray) -> float:
        return float(w @ w)

    def inner(self, w: np.ndarray, other: np.ndarray, image: np.ndarray) -> float:
        return float(w @ other)

    def residual(self, v: np.ndarray) -> float:
        return max(float(np.linalg.norm(v[:-1])), abs(float(v[-1]))) / self.scale

    def system(
        self, weights: np.ndarray, pull: np.ndarray, bags: np.ndarray, tol: float = 0.0
    ) -> NewtonSystem:
        rows = _that_count(weights, self.diagonal, pull, bags)
        images = _RowImages(self, rows)
        inverse: _Inverse
        if tol > 0 and len(rows) > _FEW_ROWS:
            inverse = _ConjugateGradients(images, tol)
        else:
            inverse = _Factored(images.matrix())
        return _RowSystem(self, rows, inverse)


class _RowImages:
    """I + T K T' of sparse instances, as a matrix or by its products.

    The rows of T Z are sparse before the mean is taken off, which is of rank two.
    """

    def __init__(self, of: SparseGeometry, rows: ActiveRows) -> None:
        T = rows.matrix(len(of.signs))
        self.images = sparse.csr_array(T @ of.Z)
        self._back = sparse.csr_array(self.images.T)
        self.heights = T @ of.signs
        self.common = self.images @ of.mean - 0.5 * (of.mean @ of.mean) * self.heights
        self._max_bytes = of.max_bytes

    def matrix(self) -> np.ndarray:
        m = len(self.heights)
        if 8.0 * m * m > self._max_bytes:
            raise MemoryError(
                f"The relaxation has {m} instances on the margin or above the level of their bag, "
                f"and needs the matrix of their inner products ({8 * m * m / 2**20:.0f} MiB): "
                "raise working_memory by sklearn.set_config, or set n_components to work with as "
                "many columns of a factor."
            )
        matrix = np.asfortranarray((self.images @ self._back).toarray())
        matrix -= np.outer(self.heights, self.common)
        matrix -= np.outer(self.common, self.heights)
        return _plus_one(matrix)

    def product(self, u: np.ndarray) -> np.ndarray:
        both = self.images @ (self._back @ u)
        both -= self.heights * (self.common @ u) + self.common * (self.heights @ u)
        return np.asarray(u + both)


class _ConjugateGradients:
    """Solutions with a residual of a part of the right-hand side; by a factor where it is slow."""

    def __init__(self, images: _RowImages, tol: float) -> None:
        self.images, self.tol = images, tol
        self._factored: _Factored | None = None

    def solve(self, right: np.ndarray) -> np.ndarray:
        if self._factored is None:
            u = np.zeros_like(right)
            left, ahead = right.copy(), right.copy()
            square = float(left @ left)
            stop = self.tol**2 * square
            for _ in range(_MAX_GRADIENTS):
                if square <= stop:
                    return u
                product = self.images.product(ahead)
                length = square / float(ahead @ product)
                u += length * ahead
                left -= length * product
                before, square = square, float(left @ left)
                ahead = left + square / before * ahead
            self._factored = _Factored(self.images.matrix())
        return self._factored.solve(right)


def _plus_one(matrix: np.ndarray) -> np.ndarray:
    np.einsum("ii->i", matrix)[:] += 1.0
    return matrix


def _that_count(
    weights: np.ndarray, diagonal: np.ndarray, pull: np.ndarray, bags: np.ndarray
) -> ActiveRows:
    share = weights * diagonal
    order = np.argsort(share, kind="stable")
    light = np.searchsorted(np.cumsum(share[order]), _NEGLECTED)
    singles = np.sort(order[light:])
    return ActiveRows.of(weights, singles[weights[singles] > 0], pull, bags)


@dataclass(frozen=True)
class ActiveRows:
    """The rows T of a Newton system: those of weights, then one for each vector of a bag.

    Attributes
    ----------
    singles : ndarray of int, shape (n_singles,)
        Instances with a weight.
    roots : ndarray of shape (n_singles,)
        Square roots of the weights.
    members : ndarray of int, shape (n_members,)
        Instances in the vectors of bags.
    starts : ndarray of int, shape (n_vectors,)
        Where each vector starts in ``members``.
    pulls : ndarray of shape (n_members,)
        Entries of the vectors.
    """

    singles: np.ndarray
    roots: np.ndarray
    members: np.ndarray
    starts: np.ndarray
    pulls: np.ndarray

    @classmethod
    def of(
        cls, weights: np.ndarray, singles: np.ndarray, pull: np.ndarray, bags: np.ndarray
    ) -> ActiveRows:
        """Rows of the instances ``singles``, and of the bags with an entry in ``pull``."""
        members = np.flatnonzero(pull)
        bag = np.searchsorted(bags, members, side="right")
        starts = np.flatnonzero(np.diff(bag, prepend=-1))
        return cls(singles, np.sqrt(weights[singles]), members, starts, pull[members])

    def __len__(self) -> int:
        return len(self.singles) + len(self.starts)

    def times(self, values: np.ndarray) -> np.ndarray:
        """T values."""
        ours = self.sums(self.pulls * values[self.members])
        return np.concatenate([self.roots * values[self.singles], ours])

    def back(self, u: np.ndarray, n: int) -> np.ndarray:
        """T' u, shape (n,)."""
        k = len(self.singles)
        out = np.zeros(n)
        out[self.singles] = self.roots * u[:k]
        sizes = np.diff(self.starts, append=len(self.members))
        out[self.members] += self.pulls * np.repeat(u[k:], sizes)
        return out

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Sums over the members of each vector."""
        if not len(self.starts):
            return values[:0]
        return np.asarray(np.add.reduceat(values, self.starts, axis=0))

    def matrix(self, n: int) -> sparse.csr_array:
        """T, shape (n_rows, n)."""
        k = len(self.singles)
        indices = np.concatenate([self.singles, self.members])
        ends = np.concatenate([np.arange(k), k + self.starts, [len(indices)]])
        entries = np.concatenate([self.roots, self.pulls])
        return sparse.csr_array((entries, indices, ends), (len(self), n))


class _RowSystem:
    """The system in terms of I + T K T', T the rows of weights and of bags that count."""

    def __init__(self, of: RowGeometry, rows: ActiveRows, inverse: _Inverse) -> None:
        self.of, self.rows, self._inverse = of, rows, inverse
        self.right_b = rows.times(of.signs)
        self.solved_b = inverse.solve(self.right_b)

    def solve(self, right: np.ndarray, image: np.ndarray | None = None) -> np.ndarray:
        if image is None:
            image = self.of.rows_times(np.append(right[:-1], 0.0))
        u = self._inverse.solve(self.rows.times(image))
        curvature = self.right_b @ self.solved_b
        if curvature > 0:
            db = (right[-1] - self.right_b @ u) / curvature
        else:
            # No row holds the intercept: the line search decides how far it goes.
            db = right[-1] / max(1.0, abs(right[-1]))
        back = self.rows.back(u + db * self.solved_b, len(self.of.signs))
        return np.append(right[:-1] - self.of.combined(back), db)
