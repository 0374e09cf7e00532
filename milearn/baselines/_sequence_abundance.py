"""Sequence abundance: the number of associated sequences of a repertoire and its depth."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit

from .._bags import Bags
from .._bags.distinct import bag_fingerprints
from .._constraints import SHARE, Constraints
from .._fit.threads import fit_context
from .._fit.validation import encode_classes, validate_labels, warn_of_unnamed_positive
from .._solvers.baselines.sequence_abundance import (
    BetaBinomial,
    associations,
    fit_beta_binomial,
    log_odds,
)
from ..base import BagClassifier

_N_FOLDS = 10
_THRESHOLDS = (1e-6, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)


class SequenceAbundanceClassifier(BagClassifier):
    r"""Classification by the number of associated sequences and the depth of a repertoire.

    A bag is the repertoire of a person, and a feature is a sequence, such as the CDR3 of a T cell
    receptor. A bag has a sequence if one of its instances has a value above zero. Each sequence is
    tested by Fisher's exact test: is it in more of the positive repertoires than expected by
    chance? Sequences with a p-value of at most a threshold are associated. A repertoire has
    :math:`n` sequences, which are its depth, and :math:`k` of them are associated. In each class
    :math:`c`, this count has a beta-binomial distribution with the parameters :math:`\alpha_c,
    \beta_c`. The score is the logarithm of the odds

    .. math::

        \log \frac{N_1}{N_0}
        + \log \frac{B(k + \alpha_1, n - k + \beta_1)}{B(\alpha_1, \beta_1)}
        - \log \frac{B(k + \alpha_0, n - k + \beta_0)}{B(\alpha_0, \beta_0)},

    where :math:`N_c` is the number of training repertoires. This is the classifier of [1]_, with
    counts of inner folds, see the notes.

    Read more in the :ref:`User Guide <tutorial_receptors>`.

    .. versionadded:: 0.3.0

    Parameters
    ----------
    thresholds : float or array-like of shape (n_thresholds,)
        Thresholds of the p-value to compare, above 0 and at most 1. By default, 1e-6, 1e-5, 1e-4,
        3e-4, 1e-3, 3e-3, 1e-2 and 3e-2. Ten inner folds are scored by the sequences that are
        selected without them. The threshold with the highest likelihood of the classes is used.
    pos_label : label, default=None
        The class that has more of the associated sequences. By default, ``classes_[1]``.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The class labels, sorted.
    p_values_ : ndarray of shape (n_features,)
        One-sided p-value of each sequence, without a correction for the number of tests.
    threshold_ : float
        The chosen threshold.
    thresholds_ : ndarray of shape (n_thresholds,)
        The thresholds, sorted.
    threshold_scores_ : ndarray of shape (n_thresholds,)
        Mean logarithm of the probability of the true class on the inner folds.
    associated_ : ndarray of shape (n_associated,)
        Columns of the associated sequences.
    alpha_, beta_ : ndarray of shape (2,)
        Parameters of the beta-binomial distributions, in the order of ``classes_``.
    n_features_in_ : int
        Number of features of an instance.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if any.

    See Also
    --------
    milearn.datasets.load_airr : Reads the repertoires of a folder.
    milearn.discriminant_analysis.ShareDiscriminant : A share of the instances decides, for numeric
        features.

    Notes
    -----
    A bag with one instance can be the whole repertoire. You can therefore pass a sparse matrix with
    a row for each person and a column for each sequence. An instance without a value above zero
    counts as one sequence that no training repertoire has: it is part of the depth.

    The distributions are fitted by maximum likelihood to the counts of the inner folds. In counts
    of sequences that were selected with the same repertoires, the classes differ too much. For this
    reason, scores of training repertoires are too good. A fold selects fewer sequences than all
    repertoires do, and the depths are reduced accordingly. If positive repertoires have no more
    associated sequences than the others, both classes get the same distribution, and the threshold
    is of no use. Different samples of one person are not independent: pass one of them, or their
    union.

    Memory and time grow with the number of sequences in all repertoires. There are no weights: an
    abundant sequence counts once. The score of an instance is that of a repertoire with this
    sequence alone.

    References
    ----------
    .. [1] R. O. Emerson, W. S. DeWitt, M. Vignali et al. Immunosequencing identifies signatures of
       cytomegalovirus exposure history and HLA-mediated effects on the T cell repertoire. Nature
       Genetics 49, 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from milearn.baselines import SequenceAbundanceClassifier
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(80) % 2
    >>> rate = np.where(np.arange(1000) < 50, 0.02 + 0.2 * y[:, None], 0.02)
    >>> X = sparse.csr_array((rng.random((80, 1000)) < rate).astype(float))
    >>> model = SequenceAbundanceClassifier().fit(X[:60], y[:60])
    >>> model.score(X[60:], y[60:]) > 0.9
    True
    >>> bool((model.associated_ < 50).mean() > 0.8)
    True
    """

    _parameter_constraints = Constraints(thresholds=[SHARE, "array-like"])

    _bag_score_is_max = False
    _dtypes = (np.float64, np.float32)
    alpha_: np.ndarray
    beta_: np.ndarray
    associated_: np.ndarray
    _prior: float

    def __init__(
        self,
        thresholds: Any = _THRESHOLDS,
        *,
        pos_label: Any = None,
    ) -> None:
        self.thresholds = thresholds
        self.pos_label = pos_label

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        # Tests of scikit-learn have dense features, each of which is in half of the bags.
        tags.classifier_tags.poor_score = True
        return tags

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> SequenceAbundanceClassifier:
        """Fit on repertoires and their labels.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Rows of a plain matrix are repertoires.
        y : array-like of shape (n_bags,)
            Class of each repertoire, of two.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        ValueError
            For three or more classes, and for thresholds outside of (0, 1].
        """
        thresholds = np.unique(np.asarray(self.thresholds, dtype=np.float64))
        if not (len(thresholds) and (thresholds > 0).all() and (thresholds <= 1).all()):
            raise ValueError(
                f"thresholds={self.thresholds!r} must be numbers above 0 and at most 1."
            )
        bags, noted = self._validate_fit(X)
        classes, codes, positive = encode_classes(validate_labels(self, y, bags), self.pos_label)
        warn_of_unnamed_positive(self, classes)
        if len(classes) > 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is multiclass: "
                f"y has {len(classes)} classes. Use OneVsRestClassifier for them."
            )
        presence, depths = _presence(bags)
        folds = _folds(Bags.singletons(presence), codes)
        found = associations(presence, codes == positive, folds, thresholds)
        prior = float(np.log((codes == 1).sum() / (codes == 0).sum()))
        models, scores = [], []
        for counts, yields in zip(found.counts, found.yields, strict=True):
            scaled = np.maximum(depths * yields, counts)
            of_class = [(counts[codes == c], scaled[codes == c]) for c in (0, 1)]
            pair = [fit_beta_binomial(*each) for each in of_class]
            # Without a count, the mean of a class depends on its depth only.
            found_any = counts[codes == positive].any()
            if not found_any or pair[positive].mean <= pair[1 - positive].mean:
                pair = [fit_beta_binomial(counts, scaled)] * 2
            odds = log_odds(pair, prior, counts, scaled)
            models.append(pair)
            scores.append(-np.logaddexp(0.0, np.where(codes == 1, -odds, odds)).mean())
        best = int(np.argmax(scores))
        alpha, beta = np.array(models[best]).T
        self._replace_fitted(
            {
                **noted,
                "classes_": classes,
                "p_values_": found.p_values,
                "thresholds_": thresholds,
                "threshold_": float(thresholds[best]),
                "threshold_scores_": np.array(scores),
                "associated_": np.flatnonzero(found.levels <= best),
                "alpha_": alpha,
                "beta_": beta,
                "_prior": prior,
                "_positive_sign": 1 if positive == 1 else -1,
            }
        )
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of each class, from the odds.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Repertoires to predict.

        Returns
        -------
        ndarray of shape (n_bags, 2)
            Rows sum to 1.
        """
        scores = self.decision_function(X)
        return np.stack([expit(-scores), expit(scores)], axis=1)

    def counts(self, X: Any) -> np.ndarray:
        """Numbers of associated sequences and of all sequences.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Repertoires.

        Returns
        -------
        ndarray of int of shape (n_bags, 2)
            Associated sequences k and depth n.
        """
        return self._of_bags(X, self._counts)

    def _counts(self, bags: Bags) -> np.ndarray:
        presence, depths = _presence(bags)
        associated = np.zeros(presence.shape[1], dtype=bool)
        associated[self.associated_] = True
        ends = np.concatenate([[0], np.cumsum(associated[presence.indices])])[presence.indptr]
        return np.stack([np.diff(ends), depths], axis=1)

    def _bag_scores(self, bags: Bags) -> np.ndarray:
        models = [*map(BetaBinomial, self.alpha_, self.beta_)]
        return log_odds(models, self._prior, *self._counts(bags).T)

    def _decide(self, scores: np.ndarray) -> np.ndarray:
        # Equal odds are not evidence for the positive class.
        second = scores > 0 if self._positive_sign == 1 else scores >= 0
        return self.classes_[second.astype(np.intp)]


def _folds(presence: Bags, codes: np.ndarray) -> np.ndarray:
    """Number of the fold of each repertoire, which does not depend on the order of repertoires."""
    folds = np.empty(len(codes), dtype=np.intp)
    by_content = np.argsort(bag_fingerprints(presence), kind="stable")
    for c in (0, 1):
        members = by_content[codes[by_content] == c]
        folds[members] = np.arange(len(members)) % _N_FOLDS
    return folds


def _presence(bags: Bags) -> tuple[Any, np.ndarray]:
    """Pattern of the sequences of each bag, and its depth."""
    rows = sparse.csr_array(bags.instances)
    if (rows.data <= 0).any():
        rows = rows.multiply(rows > 0).tocsr()
        rows.eliminate_zeros()
    unknown = np.add.reduceat(np.diff(rows.indptr) == 0, bags.offsets[:-1], dtype=np.intp)
    seen = np.ones(rows.nnz, dtype=bool)
    parts = (seen, rows.indices, rows.indptr[bags.offsets])
    presence = sparse.csr_array(parts, shape=(len(bags), bags.shape[1]))
    if not presence.has_canonical_format:
        presence = presence.copy()
        presence.sum_duplicates()
    return presence, np.diff(presence.indptr) + unknown
