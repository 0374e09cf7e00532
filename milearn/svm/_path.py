"""A path of MI-SVMs over the cost, with warm starts."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_array

from .._kernels.instance import resolve_gamma
from ._misvc import MISVC


def misvc_path(
    X: Any,
    y: Any,
    *,
    Cs: Any = 10,
    eps: float = 1e-3,
    sample_weight: Any = None,
    estimator: MISVC | None = None,
) -> tuple[np.ndarray, list[MISVC]]:
    r"""Linear MI-SVMs for several costs, in little more time than a few fits.

    The problem of :class:`MISVC` for a cost C is to minimise :math:`\tfrac12 \|w\|^2 + C L(w, b)`,
    and it has several local minima. The cost in the middle is fitted from the starts of the
    estimator. Each of the others starts from the witnesses of its neighbour. Then the objective of
    each model is compared with those that the other models have for its cost. A model for which
    another one has a lower objective is at a bad minimum, and is fitted again from the witnesses
    of that one. So no model of the path has a lower objective for the cost of another one. A single
    fit with the screened starts of its own cost can still have a lower one.

    Parameters
    ----------
    X : bags, see :class:`milearn.Bags`
        Training bags.
    y : array-like of shape (n_bags,)
        Class of each bag, one of two.
    Cs : int or array-like of shape (n_costs,), default=10
        The costs, or how many. A number of them are spaced evenly on a logarithmic scale from 100
        down to 100 times ``eps``, divided by ``n_features * X.instances.var()``. So they mean the
        same for any number and unit of the features, as ``gamma="scale"`` does.
    eps : float, default=1e-3
        Ratio of the lowest cost to the highest one, if ``Cs`` is a number.
    sample_weight : array-like of shape (n_bags,), default=None
        Factor on C for each bag.
    estimator : MISVC, default=None
        Settings other than C. Its kernel must be "linear". By default,
        ``MISVC(kernel="linear")``.

    Returns
    -------
    Cs : ndarray of shape (n_costs,)
        The costs, the highest first.
    models : list of MISVC
        The model fitted for each cost.

    Raises
    ------
    ValueError
        If the bags, labels or costs are invalid, if the kernel is not linear, or if there are three
        or more classes.

    See Also
    --------
    MISVC : The estimator of one cost.

    Examples
    --------
    >>> from milearn.datasets import make_bags
    >>> from milearn.svm import misvc_path
    >>> bags, y = make_bags(n_bags=40, random_state=0)
    >>> Cs, models = misvc_path(bags, y, Cs=5)
    >>> len(Cs), len(models)
    (5, 5)
    >>> max(model.score(bags, y) for model in models) > 0.9
    True
    """
    estimator = MISVC(kernel="linear") if estimator is None else estimator
    if not (isinstance(estimator.kernel, str) and estimator.kernel == "linear"):
        raise ValueError(
            f"The estimator has kernel={estimator.kernel!r}: a path needs kernel='linear'."
        )
    if len(np.unique(y)) > 2:
        raise ValueError("y has three or more classes: a path needs two, take one of them at once.")
    bags, _ = clone(estimator)._validate_fit(X)
    costs = _costs(Cs, eps, bags)
    first = len(costs) // 2

    def fitted(C: float, init: Any) -> MISVC:
        settings = {"C": float(C), "init": init}
        if not isinstance(init, str):
            settings["n_init"] = 1
        model: MISVC = clone(estimator).set_params(**settings)
        return model.fit(bags, y, sample_weight=sample_weight)

    models: dict[int, MISVC] = {first: fitted(costs[first], estimator.init)}
    for places, step in ((range(first + 1, len(costs)), -1), (range(first - 1, -1, -1), 1)):
        for place in places:
            models[place] = fitted(costs[place], models[place + step].witnesses_)
    found = [models[place] for place in range(len(costs))]
    better = True
    while better:
        better = False
        norms, losses = _parts(found, costs)
        reached = norms + costs[:, None] * losses
        for place, row in enumerate(reached):
            other = int(np.argmin(row))
            if row[other] < row[place] - _SAME * abs(row[place]):
                candidate = fitted(costs[place], found[other].witnesses_)
                if candidate.objective_ < found[place].objective_:
                    found[place], better = candidate, True
    for model in found:
        model.set_params(init=estimator.init, n_init=estimator.n_init)
    return costs, found


# Relative difference up to which two objectives are the same minimum.
_SAME = 1e-7
_HIGHEST = 100.0


def _costs(Cs: Any, eps: float, bags: Any) -> np.ndarray:
    """The costs, the highest first."""
    if np.ndim(Cs) > 0:
        costs = np.sort(check_array(Cs, ensure_2d=False, dtype=np.float64, input_name="Cs"))[::-1]
        if costs[-1] <= 0:
            raise ValueError(f"Cs holds {costs[-1]:g}: costs must be positive.")
        return costs
    if int(Cs) != Cs or Cs < 1:
        raise ValueError(f"Cs={Cs!r}: pass a positive number of costs, or the costs.")
    if not 0 < eps <= 1:
        raise ValueError(f"eps={eps!r}: pass a ratio above 0 and at most 1.")
    scale = resolve_gamma("scale", bags.instances)
    return _HIGHEST * scale * np.geomspace(1.0, eps, int(Cs))


def _parts(models: list[MISVC], costs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Half of the squared norm of each model, and its loss without the cost."""
    norms = np.array([0.5 * float(np.sum(model.coef_**2)) for model in models])
    objectives = np.array([model.objective_ for model in models])
    return norms, (objectives - norms) / costs
