"""Bags as their largest similarities to training instances (the embedding of MILES)."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state

from .._bags import Bags
from .._bags.prototypes import drawn_points
from .._compat import Interval, StrOptions
from .._fit.threads import fit_context
from .._kernels.instance import resolve_gamma
from ..metrics._distances import largest_similarities
from ._base import BagEmbedding

__all__ = ["MILESEmbedding"]


class MILESEmbedding(BagEmbedding):
    r"""Represent each bag by its largest similarities to instances of the training bags.

    With the distinct training instances :math:`z_1, \dots, z_m` as prototypes, the row of a bag has
    the entries

    .. math::

        s_k(B) = \max_{x \in B} \exp(-\gamma \|x - z_k\|^2), \qquad k = 1, \dots, m .

    Any scikit-learn classifier or regressor can follow; the 1-norm support vector machine of the
    paper is :class:`milearn.baselines.MILES`.

    Parameters
    ----------
    gamma : {"scale", "auto"} or float, default="scale"
        The inverse of the squared width. "scale" is 1 / (n_features * variance of the instances),
        "auto" is 1 / n_features.
    n_prototypes : int, "auto" or None, default="auto"
        Maximum number of prototypes, sampled from the distinct training instances. None uses all
        of them. "auto" uses all up to 10,000, and fewer for more than 3,355 bags: not more than
        2**25 (33.5 million) entries for the training bags, but 1,000 columns in any case.
    {random_state: which prototypes are drawn}

    Attributes
    ----------
    prototypes_ : ndarray or CSR of shape (n_prototypes_, n_features)
        The prototypes, in an order that does not depend on the order of the training bags.
    prototype_rows_ : ndarray of shape (n_prototypes_,)
        Rows of the prototypes in the training instances.
    gamma_ : float
        Resolved value of ``gamma``.
    {n_features_in_}
    {feature_names_in_}

    See Also
    --------
    milearn.baselines.MILES : A classifier based on this embedding.
    BagDissimilarity : Distances to the training bags.

    Notes
    -----
    [1]_ uses :math:`1 / \sigma^2` instead of :math:`\gamma`. Similarities are computed for all
    pairs of an instance and a prototype, in blocks of a few MiB. CSR instances stay CSR.

    References
    ----------
    .. [1] Y. Chen, J. Bi, J. Z. Wang. MILES: Multiple-Instance Learning via Embedded Instance
       Selection. IEEE TPAMI 28(12), 2006.

    Examples
    --------
    >>> from milearn.embedding import MILESEmbedding
    >>> bags = [[[0.0], [1.0]], [[3.0]]]
    >>> embedding = MILESEmbedding(gamma=1.0).fit(bags)
    >>> order = embedding.prototypes_[:, 0].argsort()
    >>> embedding.transform(bags)[:, order].round(3)
    array([[1.   , 1.   , 0.018],
           [0.   , 0.018, 1.   ]])
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0.0, None, closed="neither")],
        "n_prototypes": [
            Interval(Integral, 1, None, closed="left"),
            StrOptions({"auto"}),
            None,
        ],
        "random_state": ["random_state"],
    }

    prototypes_: Any
    prototype_rows_: np.ndarray
    gamma_: float

    def __init__(
        self,
        gamma: Any = "scale",
        *,
        n_prototypes: int | str | None = "auto",
        random_state: Any = None,
    ) -> None:
        self.gamma = gamma
        self.n_prototypes = n_prototypes
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> MILESEmbedding:
        """Select prototypes and compute the width from the training bags.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Rows of a plain matrix are bags of one instance.
        y : ignored
            Present for consistency with other estimators.

        Returns
        -------
        self
            The fitted transformer.
        """
        bags, fitted = self._validate_fit(X)
        rng = check_random_state(self.random_state)
        rows = drawn_points(bags, self.n_prototypes, rng)
        fitted |= {
            "prototypes_": bags.instances[rows],
            "prototype_rows_": rows,
            "_n_features_out": len(rows),
            "gamma_": resolve_gamma(self.gamma, bags.instances),
        }
        self._replace_fitted(fitted)
        return self

    def _rows(self, bags: Bags) -> np.ndarray:
        return largest_similarities(bags, self.prototypes_, self.gamma_)
