r"""Fisher's exact test of many sequences, and beta-binomial counts of those with a low p-value.

The p-value is a sum p(a, b) = h(a, b) + h(a + 1, b - 1) + ..., where h is the hypergeometric
probability that a of the positive and b of the negative repertoires have a sequence. The sums of
all sequences with the same a + b are found together, because there are few such numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import betaln, gammaln, logit, psi

# Bounds of alpha: the distribution is binomial at the upper one.
_ALPHAS = (0.1, 1e4)
_STARTS = (1.0, 10.0)
# A class without any associated sequence has the mean of this many sequences.
_LEAST_COUNT = 0.5
# Relative error of p-values, which are sums of exponentials.
_ROUNDING = 1e-12


class BetaBinomial(NamedTuple):
    """A beta-binomial distribution of counts."""

    alpha: float
    beta: float

    @property
    def mean(self) -> float:
        """Mean share of the associated sequences."""
        return self.alpha / (self.alpha + self.beta)

    def log_likelihood(self, counts: np.ndarray, depths: np.ndarray) -> np.ndarray:
        """Logarithms of the probabilities without the binomial coefficient."""
        above = betaln(counts + self.alpha, depths - counts + self.beta)
        return np.asarray(above - betaln(self.alpha, self.beta))


def fisher_p_values(n_positive: int, n_negative: int, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """One-sided p-values of Fisher's exact test.

    Parameters
    ----------
    n_positive, n_negative : int
        Numbers of repertoires.
    a, b : ndarray of int of shape (n_sequences,)
        Numbers of positive and of negative repertoires with each sequence.

    Returns
    -------
    ndarray of shape (n_sequences,)
        The probability of at least a positive repertoires among a + b repertoires.
    """
    n, together, found = n_positive + n_negative, a + b, np.empty(len(a))
    sizes = np.bincount(together)
    numbers = np.flatnonzero(sizes)
    # Small integers are sorted in linear time.
    order = np.argsort(together.astype(np.min_scalar_type(n)), kind="stable")
    parts = np.split(order, np.cumsum(sizes[numbers]))[:-1]
    for k, rows in zip(numbers.tolist(), parts, strict=True):
        least = max(0, k - n_negative)
        i = np.arange(least, min(k, n_positive) + 1)
        chances = np.exp(
            _log_binomial(n_positive, i) + _log_binomial(n_negative, k - i) - _log_binomial(n, k)
        )
        found[rows] = np.cumsum(chances[::-1])[::-1][a[rows] - least]
    return np.minimum(found, 1.0)


def _log_binomial(n: int, k: Any) -> np.ndarray:
    return np.asarray(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))


class Association(NamedTuple):
    """The p-value of each sequence, and the associated sequences of each repertoire."""

    # Of shape (n_sequences,).
    p_values: np.ndarray
    # Number of thresholds that are below each p-value.
    levels: np.ndarray
    # Of shape (n_thresholds, n_repertoires): a repertoire counts the sequences that are selected
    # without its fold.
    counts: np.ndarray
    # The number of sequences of a repertoire that these selections can find on average, relative to
    # the selection with all repertoires. Of the shape of ``counts``.
    yields: np.ndarray


def associations(
    presence: Any, positive: np.ndarray, folds: np.ndarray, thresholds: np.ndarray
) -> Association:
    """Test every sequence on all repertoires, and without each fold.

    Parameters
    ----------
    presence : csr_array of shape (n_repertoires, n_sequences)
        Its pattern, without duplicates, has the sequences of each repertoire.
    positive : ndarray of bool of shape (n_repertoires,)
        Both classes must occur.
    folds : ndarray of shape (n_repertoires,)
        Number of the fold of each repertoire. Those of both classes in a fold count the same
        sequences, and the classes would differ by chance otherwise.
    thresholds : ndarray of shape (n_thresholds,), increasing
        Sequences with a p-value of at most a threshold are selected.
    """
    n_rows, n_sequences = presence.shape
    bounds = thresholds * (1.0 + _ROUNDING)
    rows = [presence.indices[i:j] for i, j in pairwise(presence.indptr)]

    def number_with(chosen: np.ndarray) -> np.ndarray:
        """Number of the chosen repertoires that have each sequence."""
        found = np.zeros(n_sequences, dtype=np.int32)
        for at in np.flatnonzero(chosen).tolist():
            found[rows[at]] += 1
        return found

    def tested(a: np.ndarray, b: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """P-values of the sequences among the chosen repertoires."""
        n_positive = int((positive & chosen).sum())
        return fisher_p_values(n_positive, int(chosen.sum()) - n_positive, a, b)

    def found_by(levels: np.ndarray, a: np.ndarray, b: np.ndarray, chosen: Any) -> np.ndarray:
        """Mean number of the sequences below each threshold in the chosen repertoires."""
        sums = np.bincount(levels, a + b, minlength=len(thresholds) + 1)
        return np.asarray(np.cumsum(sums[:-1]) / max(1, chosen.sum()))

    with_a, with_b = number_with(positive), number_with(~positive)
    everyone = np.ones(n_rows, dtype=bool)
    p_values = tested(with_a, with_b, everyone)
    all_levels = np.searchsorted(bounds, p_values)
    of_all = found_by(all_levels, with_a, with_b, everyone)
    counts = np.zeros((len(thresholds), n_rows), dtype=np.intp)
    yields = np.ones(counts.shape)
    for fold in np.unique(folds):
        own = folds == fold
        a, b = with_a - number_with(own & positive), with_b - number_with(own & ~positive)
        levels = np.searchsorted(bounds, tested(a, b, ~own))
        for at in np.flatnonzero(own).tolist():
            found = np.bincount(levels[rows[at]], minlength=len(thresholds))
            counts[:, at] = np.cumsum(found[: len(thresholds)])
        mean = found_by(levels, a, b, ~own)
        both = (mean > 0) & (of_all > 0)
        yields[np.ix_(both, own)] = (mean[both] / of_all[both])[:, None]
    return Association(p_values, all_levels, counts, yields)


def fit_beta_binomial(counts: np.ndarray, depths: np.ndarray) -> BetaBinomial:
    """Maximum likelihood over the mean alpha / (alpha + beta) and alpha, within bounds.

    Parameters
    ----------
    counts, depths : ndarray of shape (n_repertoires,)
        Associated sequences, and all sequences.
    """
    total = depths.sum()
    least = _LEAST_COUNT / (total + 1)
    odds = float(logit(np.clip(counts.sum() / total, least, 1 - least)))
    bounds = [(float(logit(least)), -float(logit(least))), tuple(np.log(_ALPHAS))]

    def model(point: np.ndarray) -> BetaBinomial:
        # The odds of the mean are alpha / beta.
        return BetaBinomial(float(np.exp(point[1])), float(np.exp(point[1] - point[0])))

    def loss(point: np.ndarray) -> tuple[float, np.ndarray]:
        alpha, beta = model(point)
        value = BetaBinomial(alpha, beta).log_likelihood(counts, depths).sum()
        common = psi(alpha + beta) - psi(depths + alpha + beta)
        of_alpha = alpha * (psi(counts + alpha) - psi(alpha) + common).sum()
        of_beta = beta * (psi(depths - counts + beta) - psi(beta) + common).sum()
        return -float(value), np.array([of_beta, -of_alpha - of_beta])

    found = [
        minimize(loss, (odds, np.log(start)), jac=True, bounds=bounds, method="L-BFGS-B")
        for start in _STARTS
    ]
    return model(min(found, key=lambda each: float(each.fun)).x)


def log_odds(
    models: Sequence[BetaBinomial],
    prior: float,
    counts: np.ndarray,
    depths: np.ndarray,
) -> np.ndarray:
    """Logarithm of the odds of the second model.

    Parameters
    ----------
    models : sequence of two BetaBinomial
        The distributions of the counts of both classes.
    prior : float
        Logarithm of the odds without counts.
    counts, depths : ndarray of shape (n_repertoires,)
    """
    first, second = (model.log_likelihood(counts, depths) for model in models)
    return np.asarray(prior + second - first)
