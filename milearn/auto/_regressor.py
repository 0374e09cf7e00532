"""MIRegressor: the regressor of bags that does not require any settings."""

from __future__ import annotations

import time
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.preprocessing import StandardScaler

from .._bags.distinct import merge_bags
from .._compat import Interval, with_callbacks
from .._fit.threads import fit_context
from .._fit.validation import validate_labels, validate_sample_weight
from ..base import BagRegressor
from ..model_selection._inner import checked_groups
from ._candidates import CandidateName
from ._plan import AVERAGE, prepared
from ._run import INSTANCE, LINEAR, RIDGE, RIDGE_STATISTICS, SHARE, TREES, Automatic, Search


class MIRegressor(Automatic, BagRegressor):
    """Bag regressor that works without tuning.

    It has the four steps of :class:`MIClassifier`, with these candidates:

    * "ridge": ridge regression on the means of bags; not for text;
    * "ridge_statistics": the same on the mean, minimum, maximum and standard deviation of each
      feature; not for text;
    * "trees": extremely randomised trees on these statistics; not for text;
    * "average": nu-support vector regression on an average of kernels between whole bags
      (:class:`~milearn.svm.BagSVR`);
    * "linear": :class:`~milearn.svm.MISVR` with a linear kernel, whose value of a bag is that of
      its highest, or lowest, instance; not for text;
    * "share": a linear value of instances whose mean over the highest values of a bag predicts
      (:class:`~milearn.discriminant_analysis.ShareRegressor`); not for text;
    * "instance": :class:`~milearn.svm.CoupledMISVR`, which couples the value of a bag to that of
      its highest, or lowest, instance.

    The out-of-fold predictions of each are calibrated by linear regression, and combined by least
    squares with coefficients that are not negative and are drawn to equal ones.

    Read more in the :ref:`User Guide <guide_choose>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    time_limit : float, default=None
        Seconds after which no further candidate is started.
    random_state : int, RandomState instance or None, default=None
        Determines the inner folds, and the landmarks if there are many bags.
    n_jobs : int, default=None
        Number of parallel jobs over scalings and inner folds. None means 1 unless in a
        :obj:`joblib.parallel_config` context; -1 means all processors.
    verbose : bool or int, default=False
        Whether to print a line after each step.

    Attributes
    ----------
    paradigm_ : str
        "combined", or the name of the only model whose coefficient is not zero.
    scores_ : dict of dict
        Out-of-fold "mean_squared_error" of each model after calibration, in squared units of y, and
        of the combination, which is optimistic; empty for too few bags.
    skipped_ : list of str
        Steps that were skipped because of the size of the data, ``time_limit`` or a callback.
    n_bags_ : int
        Number of training bags after merging equal bags with equal values.
    n_features_in_ : int
        Number of features of an instance.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if any.

    Raises
    ------
    MemoryError
        If kernel matrices do not fit into the available memory. This is checked before the fit.
    ValueError
        If bags, values or parameters are invalid.

    See Also
    --------
    MIClassifier : The corresponding classifier.
    milearn.svm.BagSVR : The model "average", with settings.
    milearn.svm.CoupledMISVR : The model "instance", with settings.
    milearn.svm.MISVR : The model "linear", with settings.
    milearn.discriminant_analysis.ShareRegressor : The model "share".

    Notes
    -----
    Values are standardised, and fitted with C = 10 (1 for text) and nu = 1/2; C of "linear" is 10
    divided by the mean squared norm of the instances. Kernels, scalings,
    inner folds and large data are handled as in :class:`MIClassifier`: other units or another order
    of the features give other folds, and the result can differ. The penalty of "ridge" is
    selected by generalised cross-validation. Trees consider all statistics at each split if these
    are at most a million values, otherwise as many of them, at least their square root. Bags of a
    Dask cluster have the models "ridge", "linear", "trees" and "share" only, and text "instance".

    References
    ----------
    B. Schoelkopf, A. J. Smola, R. C. Williamson, P. L. Bartlett. New Support Vector Algorithms.
    Neural Computation 12, 2000.

    Examples
    --------
    >>> from milearn import MIRegressor
    >>> from milearn.datasets import make_affinity
    >>> X, y = make_affinity(n_bags=50, n_features=16, random_state=0)
    >>> model = MIRegressor(random_state=0).fit(X[:30], y[:30])
    >>> model.predict(X[30:]).shape
    (20,)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "time_limit": [Interval(Real, 0.0, None, closed="neither"), None],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }

    _unit: StandardScaler

    def __init__(
        self,
        *,
        time_limit: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool | int = False,
    ) -> None:
        self.time_limit = time_limit
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> MIRegressor:
        """Fit on bags and their values.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Rows of a plain matrix are bags of one instance.
        y : array-like of shape (n_bags,)
            Value of each bag.
        sample_weight : array-like of shape (n_bags,), default=None
            Factor on C for each bag. A weight of two is equivalent to duplicating the bag.
        groups : array-like of shape (n_bags,), default=None
            Bags of one group, such as those of a patient, stay in one inner fold.

        Returns
        -------
        self
            The fitted estimator.
        """
        start = time.perf_counter()
        bags, noted = self._validate_fit(X)
        bags = prepared(bags, self._size_limits)
        targets = validate_labels(self, y, bags, numeric=True)
        weights = validate_sample_weight(sample_weight, bags)
        merged = merge_bags(bags, targets, weights, checked_groups(groups, bags))
        values = targets[merged.positions]
        # Values are fitted in units of their standard deviation.
        unit = StandardScaler().fit(values[:, None], sample_weight=merged.weights)
        task = self._start_task(None, X=bags, y=targets, sample_weight=sample_weight)
        # Trees break ties by the last bit, which depends on the unit and on the order of the bags.
        scaled = np.round((values - unit.mean_) / unit.scale_, 10)
        run = Search(self, task, merged, scaled, 1, start)
        judged = run.judged(self._candidates(run))
        attributes, _ = run.fitted(judged, unit=float(unit.scale_[0] ** 2))
        self._replace_fitted({**noted, **attributes, "_unit": unit})
        task.end()
        return self

    def _candidates(self, run: Search) -> list[CandidateName]:
        """The candidates, cheap ones first; one without inner folds."""
        names = [] if run.size.text else [RIDGE, RIDGE_STATISTICS, TREES]
        names += [AVERAGE] if run.size.kernels else []
        names += [] if run.size.text else [LINEAR, SHARE]
        names += [INSTANCE] if run.size.instance_kernel else []
        if not run.folds:
            names = [next(name for name in (AVERAGE, INSTANCE, RIDGE) if name in names)]
        both = [(name, (1, 0) if name in (LINEAR, INSTANCE) else (None,)) for name in names]
        found = [CandidateName(name, code) for name, codes in both for code in codes]
        return found if run.folds else found[:1]

    def _stated(self, scores: np.ndarray) -> np.ndarray:
        return self._unit.inverse_transform(scores)[:, 0]
