"""Representations of w, and the Newton systems of the relaxation of instance selection.

The Newton systems are reduced to (w, b). With the signed rows (z, 1) y of the instances in Z,
weights d of instances and vectors p of bags, they are

    ( diag(1, .., 1, 0) + Z' diag(d) Z + sum_B (Z'p_B)(Z'p_B)' ) (dw, db) = right.

With few features the system is solved directly. With a kernel, w = sum_i v_i y_i z_i is represented
by its coefficients v, and by Woodbury's formula the system is (I + T K T') u = right, where the
rows of T belong to instances and bags. It needs the kernel matrix but not a factor of it, and has a
row only for each weight that is not negligible. There are few of them: the weight of an instance
beyond its margin, or with a slack, converges to zero.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

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

# Rows with a smaller weight, as a fraction of the largest, are zero up to rounding.
_WEIGHTLESS = 1e-15
# Rows may be left out of a system of kernel values if they change it by less than this fraction.
_NEGLECTED = 1e-4
# Up to this weight, in units of the kernel, single precision is sufficient.
_SINGLE = 1e3

# The solution in (w, b) for a right-hand side and, if it is known, Z times its part in w.
NewtonSystem = Callable[..., np.ndarray]
Inverse = Callable[[np.ndarray], np.ndarray]


class Geometry(ABC):
    """Vectors (w, b), their products with the signed rows of the instances, and their systems."""

    width: int
    """Length of w."""
    scale: float
    """Size of the largest row, at least one."""

    @abstractmethod
    def rows_times(self, v: np.ndarray) -> np.ndarray:
        """Z v, shape (n_instances,)."""

    @abstractmethod
    def times_rows(self, alpha: np.ndarray) -> np.ndarray:
        """Z' alpha, in the form of (w, b)."""

    @abstractmethod
    def system(
        self, weights: np.ndarray, vectors: np.ndarray, bags: np.ndarray, tol: float = 0.0
    ) -> NewtonSystem:
        """The system with weights of all instances, and with vectors of the positive bags.

        Its solutions have a relative residual of at most ``tol``.
        """

    def square(self, w: np.ndarray) -> float:
        """The square of the norm of w."""
        return float(w @ w)

    def inner(self, w: np.ndarray, other: np.ndarray, image: np.ndarray) -> float:
        """The inner product of two w; ``image`` is Z (other, 0)."""
        return float(w @ other)

    def residual(self, v: np.ndarray) -> float:
        """The norm of a gradient in (w, b) divided by the size of the rows."""
        return max(float(np.sqrt(self.square(v[:-1]))), abs(float(v[-1]))) / self.scale


class FeatureGeometry(Geometry):
    """Dense features; inner products are multiplied by ``unit``."""

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

    def residual(self, v: np.ndarray) -> float:
        return float(np.abs(v).max()) / self.scale

    def system(
        self, weights: np.ndarray, vectors: np.ndarray, bags: np.ndarray, tol: float = 0.0
    ) -> NewtonSystem:
        heavy = np.flatnonzero(weights > _WEIGHTLESS * weights.max())
        rows = self.Z[heavy] * np.sqrt(weights[heavy])[:, None]
        matrix = rows.T @ rows
        members = ActiveRows.of(weights, heavy[:0], vectors, bags)
        if len(members):
            sums = members.sums(members.entries[:, None] * self.Z[members.members])
            matrix += sums.T @ sums
        diagonal = np.einsum("ii->i", matrix)
        diagonal[:-1] += 1.0
        if diagonal[-1] <= 0:
            diagonal[-1] = 1.0
        inverse = _factored(matrix)
        return lambda right, image=None: inverse(right)


class _RowGeometry(Geometry):
    """Base class of geometries whose systems are solved in terms of the rows T."""

    signs: np.ndarray
    diagonal: np.ndarray
    """Squared norms of the rows."""

    @abstractmethod
    def combined(self, coefficients: np.ndarray) -> np.ndarray:
        """The w with these coefficients of the signed instances."""

    @abstractmethod
    def inverse(self, rows: ActiveRows, tol: float) -> Inverse:
        """The inverse of I + T K T'."""

    def system(
        self, weights: np.ndarray, vectors: np.ndarray, bags: np.ndarray, tol: float = 0.0
    ) -> NewtonSystem:
        rows = ActiveRows.heavy(weights, self.diagonal, vectors, bags)
        inverse = self.inverse(rows, tol)
        right_b = rows.times(self.signs)
        solved_b = inverse(right_b)
        curvature = right_b @ solved_b

        def solve(right: np.ndarray, image: np.ndarray | None = None) -> np.ndarray:
            if image is None:
                image = self.rows_times(np.append(right[:-1], 0.0))
            u = inverse(rows.times(image))
            if curvature > 0:
                db = (right[-1] - right_b @ u) / curvature
            else:
                # No row depends on the intercept: the line search determines the step.
                db = right[-1] / max(1.0, abs(right[-1]))
            back = rows.back(u + db * solved_b, len(self.signs))
            return np.append(right[:-1] - self.combined(back), db)

        return solve


class KernelGeometry(_RowGeometry):
    """Coefficients of the signed rows; kernel values are multiplied by ``unit``."""

    def __init__(self, kernel: np.ndarray, signs: np.ndarray, unit: float) -> None:
        self.width = len(kernel)
        self.signs = signs
        self.K = np.asfortranarray(kernel.T) * (unit * signs)
        self.K *= signs[:, None]
        self._single: np.ndarray | None = None
        self.diagonal = np.maximum(0.0, np.diagonal(self.K))
        self.scale = max(1.0, float(np.sqrt(self.diagonal.max())))

    def rows_times(self, v: np.ndarray) -> np.ndarray:
        return np.asarray(self._kernel_times(v[:-1]) + v[-1] * self.signs)

    def times_rows(self, alpha: np.ndarray) -> np.ndarray:
        return np.append(alpha, self.signs @ alpha)

    def square(self, w: np.ndarray) -> float:
        return max(0.0, float(w @ self._kernel_times(w)))

    def inner(self, w: np.ndarray, other: np.ndarray, image: np.ndarray) -> float:
        return float(w @ image)

    def combined(self, coefficients: np.ndarray) -> np.ndarray:
        return coefficients

    def inverse(self, rows: ActiveRows, tol: float) -> Inverse:
        K = self.K
        if (rows.roots**2 * self.diagonal[rows.singles]).max(initial=0.0) <= _SINGLE:
            if self._single is None:
                self._single = K.astype(np.float32)
            K = self._single
        return _factored(_plus_one(self._gram(rows, K)))

    def _kernel_times(self, values: np.ndarray) -> np.ndarray:
        # Only one triangle of the matrix is read.
        return np.asarray(dsymv(1.0, self.K, values, lower=1))

    def _gram(self, rows: ActiveRows, K: np.ndarray) -> np.ndarray:
        """One triangle of T K T', in Fortran order for LAPACK."""
        k, m = len(rows.singles), len(rows)
        roots, entries = rows.roots.astype(K.dtype), rows.entries.astype(K.dtype)
        gram = np.empty((m, m), order="F", dtype=K.dtype)
        # The matrix is symmetric, so that its columns are its rows.
        ours = K.T[rows.singles][:, rows.singles] if k < self.width else K.T.copy()
        ours *= roots
        ours *= roots[:, None]
        gram[:k, :k] = ours.T
        if m > k:
            of_bags = rows.sums(entries[:, None] * K.T[rows.members])
            gram[k:, :k] = of_bags[:, rows.singles] * roots
            gram[k:, k:] = rows.sums(entries[:, None] * of_bags[:, rows.members].T)
        return gram


class SparseGeometry(_RowGeometry):
    """Sparse features, centred.

    Parameters
    ----------
    features : CSR of shape (n_instances, r)
    signs : ndarray of shape (n_instances,)
    unit : float
        Factor of inner products.
    max_bytes : float
        Maximum size of the matrix of a system.
    few_rows, max_gradients : int
        Systems with more rows are solved by conjugate gradients, with at most so many steps.
    """

    def __init__(
        self,
        features: sparse.csr_array,
        signs: np.ndarray,
        unit: float,
        max_bytes: float = np.inf,
        *,
        few_rows: int = 400,
        max_gradients: int = 200,
    ) -> None:
        self.max_bytes, self.few_rows, self.max_gradients = max_bytes, few_rows, max_gradients
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

    def inverse(self, rows: ActiveRows, tol: float) -> Inverse:
        # The rows of T Z are sparse; the centring is added as a term of rank two.
        T = rows.matrix(len(self.signs))
        images = sparse.csr_array(T @ self.Z)
        back = sparse.csr_array(images.T)
        heights = T @ self.signs
        common = images @ self.mean - 0.5 * (self.mean @ self.mean) * heights

        def matrix() -> np.ndarray:
            m = len(heights)
            if 8.0 * m * m > self.max_bytes:
                raise MemoryError(
                    f"The relaxation has {m} instances on the margin or above the level of their "
                    f"bag, and needs the matrix of their inner products ({8 * m * m / 2**20:.0f} "
                    "MiB): raise working_memory by sklearn.set_config, or set n_components to work "
                    "with as many columns of a factor."
                )
            gram = np.asfortranarray((images @ back).toarray())
            gram -= np.outer(heights, common)
            gram -= np.outer(common, heights)
            return _plus_one(gram)

        def product(u: np.ndarray) -> np.ndarray:
            both = images @ (back @ u)
            both -= heights * (common @ u) + common * (heights @ u)
            return np.asarray(u + both)

        if tol > 0 and len(rows) > self.few_rows:
            return _ConjugateGradients(product, matrix, tol, self.max_gradients)
        return _factored(matrix())


def _factored(matrix: np.ndarray) -> Inverse:
    """The inverse of a positive definite matrix by its Cholesky factor."""
    if not len(matrix):
        return lambda right: right
    factorize = spotrf if matrix.dtype == np.float32 else dpotrf
    lower, failed = factorize(matrix, lower=1, clean=0, overwrite_a=0)
    if failed:
        # Near convergence the ratio of weights may be 1e15.
        diagonal = np.einsum("ii->i", matrix)
        diagonal += 2.0 * np.finfo(matrix.dtype).eps ** 0.9 * diagonal.max()
        lower, failed = factorize(matrix, lower=1, clean=0, overwrite_a=1)
    if failed:
        raise LinAlgError("The Newton system is singular.")

    def solve(right: np.ndarray) -> np.ndarray:
        right = right.astype(lower.dtype, copy=False)
        return np.asarray(cho_solve((lower, True), right, check_finite=False), dtype=np.float64)

    return solve


class _ConjugateGradients:
    """Conjugate gradients, or a Cholesky factor if they converge slowly."""

    def __init__(
        self, product: Inverse, matrix: Callable[[], np.ndarray], tol: float, max_steps: int
    ) -> None:
        self.product, self.matrix, self.tol, self.max_steps = product, matrix, tol, max_steps
        self._factor: Inverse | None = None

    def __call__(self, right: np.ndarray) -> np.ndarray:
        if self._factor is None:
            u = np.zeros_like(right)
            left, ahead = right.copy(), right.copy()
            square = float(left @ left)
            stop = self.tol**2 * square
            for _ in range(self.max_steps):
                if square <= stop:
                    return u
                product = self.product(ahead)
                length = square / float(ahead @ product)
                u += length * ahead
                left -= length * product
                before, square = square, float(left @ left)
                ahead = left + square / before * ahead
            self._factor = _factored(self.matrix())
        return self._factor(right)


def _plus_one(matrix: np.ndarray) -> np.ndarray:
    np.einsum("ii->i", matrix)[:] += 1.0
    return matrix


@dataclass(frozen=True)
class ActiveRows:
    """The rows T of a Newton system: those of instances, then those of bags."""

    singles: np.ndarray  # instances with a weight
    roots: np.ndarray  # square roots of the weights
    members: np.ndarray  # instances in the vectors of bags
    starts: np.ndarray  # start of each vector in these
    entries: np.ndarray  # entries of the vectors

    @classmethod
    def of(
        cls, weights: np.ndarray, singles: np.ndarray, vectors: np.ndarray, bags: np.ndarray
    ) -> ActiveRows:
        """Rows of the instances ``singles``, and of the bags with an entry in ``vectors``."""
        members = np.flatnonzero(vectors)
        bag = np.searchsorted(bags, members, side="right")
        starts = np.flatnonzero(np.diff(bag, prepend=-1))
        return cls(singles, np.sqrt(weights[singles]), members, starts, vectors[members])

    @classmethod
    def heavy(
        cls, weights: np.ndarray, diagonal: np.ndarray, vectors: np.ndarray, bags: np.ndarray
    ) -> ActiveRows:
        """Rows of all instances that are not negligible, and of the bags."""
        share = weights * diagonal
        order = np.argsort(share, kind="stable")
        light = np.searchsorted(np.cumsum(share[order]), _NEGLECTED)
        singles = np.sort(order[light:])
        return cls.of(weights, singles[weights[singles] > 0], vectors, bags)

    def __len__(self) -> int:
        return len(self.singles) + len(self.starts)

    def times(self, values: np.ndarray) -> np.ndarray:
        """T values."""
        ours = self.sums(self.entries * values[self.members])
        return np.concatenate([self.roots * values[self.singles], ours])

    def back(self, u: np.ndarray, n: int) -> np.ndarray:
        """T' u, shape (n,)."""
        k = len(self.singles)
        out = np.zeros(n)
        out[self.singles] = self.roots * u[:k]
        sizes = np.diff(self.starts, append=len(self.members))
        out[self.members] += self.entries * np.repeat(u[k:], sizes)
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
        values = np.concatenate([self.roots, self.entries])
        return sparse.csr_array((values, indices, ends), (len(self), n))
