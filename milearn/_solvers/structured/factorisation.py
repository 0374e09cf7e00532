"""Joint factorisation of the links between rows and of their content (Zhu et al. 2007).

    min over Z, U, V:  |A - Z U Z'|^2 + a |X - Z V'|^2 + r (|U|^2 + |V|^2 + |Z|^2)

For given Z the best U and V have closed forms, so the problem is minimised over Z. With
G = Z'Z = Q diag(g) Q',

    V = a X'Z (a G + r I)^-1,    (Q'UQ)_ij = (Q'Z'AZQ)_ij / (g_i g_j + r).

Because U and V are optimal, the gradient in Z is the gradient for fixed U and V. Only products of A
and X with narrow matrices are computed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import minimize
from scipy.sparse.linalg import LinearOperator, svds

Matrix = Any  # an ndarray or a CSR matrix


@dataclass(frozen=True)
class FactorOptions:
    """The weights a and r of the problem, and the stopping criteria of L-BFGS."""

    n_components: int
    content: float
    ridge: float
    # Largest entry of the gradient relative to the root of the objective at zero.
    tol: float
    max_iter: int


@dataclass
class Factorisation:
    """Factors Z, U and V, the largest entry of the gradient in Z, and the outcome of L-BFGS."""

    Z: np.ndarray
    U: np.ndarray
    V: np.ndarray
    objective: float
    gradient: float
    n_iter: int
    converged: bool
    message: str
    # The best factors for the content x of a new row are ``x @ placement``.
    placement: Any = None


def fit_link_content(links: Matrix, content: Matrix, options: FactorOptions) -> Factorisation:
    """Factorise links and content, each divided by its Frobenius norm.

    The factors are in the units of the data, with row factors of mean squared length 1.

    Parameters
    ----------
    links : CSR matrix of shape (n_rows, n_rows)
        A matrix without entries if there are no links.
    content : ndarray or CSR of shape (n_rows, n_features)
    options : FactorOptions
    """
    link_norm, norm = (float(np.sqrt(_square(each))) or 1.0 for each in (links, content))
    found = factorise(links * (1.0 / link_norm), content * (1.0 / norm), options)
    length = float(np.sqrt(np.sum(found.Z**2) / len(found.Z))) or 1.0
    # The best factors of a new row x are a x V (a V'V + r I)^-1.
    inner = options.content * found.V.T @ found.V
    inner[np.diag_indices_from(inner)] += options.ridge
    placement = np.linalg.solve(inner, found.V.T).T * (options.content / (norm * length))
    return replace(
        found,
        Z=found.Z / length,
        U=found.U * (link_norm * length**2),
        V=found.V * (norm * length),
        placement=placement,
    )


def factorise(A: Matrix, X: Matrix, options: FactorOptions) -> Factorisation:
    """A stationary point of the problem above, from the leading singular vectors of both parts.

    Parameters
    ----------
    A : CSR matrix of shape (n_rows, n_rows)
        Links; a matrix without entries if there are none.
    X : ndarray or CSR of shape (n_rows, n_features)
    options : FactorOptions
    """
    content, ridge = options.content, options.ridge
    n = X.shape[0]
    norm = _square(A) + content * _square(X)
    start = _start(A, X, options)

    def value(flat: np.ndarray) -> tuple[float, np.ndarray]:
        Z = flat.reshape(n, -1)
        U, V, ZtAZ, XtZ = _factors(A, X, Z, content, ridge)
        G = Z.T @ Z
        total = norm - float(np.sum(U * ZtAZ)) - content * float(np.sum(V * XtZ))
        total += ridge * float(flat @ flat)
        gradient = 2.0 * Z @ (U @ G @ U.T + U.T @ G @ U + content * V.T @ V)
        gradient += 2.0 * ridge * Z - 2.0 * content * (X @ V)
        if A.nnz:
            gradient -= 2.0 * (A @ (Z @ U.T) + A.T @ (Z @ U))
        return total, gradient.ravel()

    gtol = options.tol * np.sqrt(max(norm, 1e-300))
    limits = {"maxiter": options.max_iter, "gtol": gtol, "ftol": 1e-15, "maxcor": 20}
    found = minimize(value, start.ravel(), jac=True, method="L-BFGS-B", options=limits)
    Z = found.x.reshape(n, -1)
    U, V, _, _ = _factors(A, X, Z, content, ridge)
    largest = float(np.abs(found.jac).max(initial=0.0))
    return Factorisation(
        Z=Z,
        U=U,
        V=V,
        objective=float(found.fun),
        gradient=largest,
        n_iter=int(found.nit) + 1,
        converged=bool(found.success),
        message=str(found.message),
    )


def _factors(
    A: Matrix, X: Matrix, Z: np.ndarray, content: float, ridge: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The best U and V, and the products Z'AZ and X'Z."""
    G = Z.T @ Z
    g, Q = np.linalg.eigh(G)
    ZtAZ = Z.T @ (A @ Z) if A.nnz else np.zeros_like(G)
    U = Q @ ((Q.T @ ZtAZ @ Q) / (np.outer(g, g) + ridge)) @ Q.T
    XtZ = np.asarray(X.T @ Z)
    V = content * (XtZ @ Q) / (content * g + ridge) @ Q.T
    return U, V, ZtAZ, XtZ


def _start(
    A: Matrix, X: Matrix, options: FactorOptions, *, dense_max_rows: int = 200
) -> np.ndarray:
    """Left singular vectors of [content, links, links'] times roots of shrunken singular values.

    Without links this is the minimum: the singular values of Z V' are those of X reduced by the
    ridge. Up to ``dense_max_rows`` rows or columns a dense decomposition is faster.
    """
    n, d = X.shape
    content, ridge = options.content, options.ridge
    root = np.sqrt(content)
    linked = A.nnz > 0
    width = d + (2 * n if linked else 0)
    k = min(options.n_components, n, width)
    if min(n, width) <= max(dense_max_rows, 2 * k):
        dense = [root * (X.toarray() if sparse.issparse(X) else X)]
        if linked:
            dense += [A.toarray(), A.toarray().T]
        left, values, _ = np.linalg.svd(np.hstack(dense), full_matrices=False)
        left, values = left[:, :k], values[:k]
    else:

        def forward(v: np.ndarray) -> np.ndarray:
            v = v.ravel()
            out = root * (X @ v[:d])
            if linked:
                out = out + A @ v[d : d + n] + A.T @ v[d + n :]
            return np.asarray(out)

        def back(u: np.ndarray) -> np.ndarray:
            u = u.ravel()
            parts = [root * (X.T @ u)]
            return np.concatenate([*parts, A.T @ u, A @ u] if linked else parts)

        operator = LinearOperator((n, width), matvec=forward, rmatvec=back, dtype=np.float64)
        # This start does not depend on the order of rows.
        first = np.ones(min(n, width)) / np.sqrt(min(n, width))
        left, values, _ = svds(operator, k=k, v0=first)
        order = np.argsort(-values)
        left, values = left[:, order], values[order]
    # Balanced factors of a singular value s cost 2 r s, in addition to a (sigma - s)^2.
    sigma = values / root
    return np.asarray(left * np.sqrt(np.maximum(sigma - ridge / content, 1e-3 * sigma)))


def _square(matrix: Matrix) -> float:
    values = matrix.data if sparse.issparse(matrix) else matrix.ravel()
    return float(values @ values)
