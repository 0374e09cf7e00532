"""Cox's partial likelihood of risk scores: value, slope, curvature, conjugate, baseline hazard.

With scores f, weights c (a weight of two is a subject that is there twice), and R(t) the subjects
at risk at the time t, those that leave at t or later, the negative logarithm is

    L(f) = G(f) - sum over events of c_i f_i,
    G(f) = sum over terms s of g_s log S_s(f),    S_s(f) = sum_j a_sj c_j exp(f_j).

The terms are those of an event time t, at which events D of weight m are tied. Breslow's
approximation has one with g = m and a_j = 1 on R(t). Efron's has one for l = 0, 1, ... < m, with
g = min(1, m - l), a_j = 1 on R(t) without D and a_j = 1 - l / m on D.

G is convex and does not decrease in any f_j. Its slopes are the expected numbers of events, which
sum to the weight of all events.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

# Logarithms of the weights of a risk set are cut off at this distance below the largest: only the
# curvature uses the weights themselves, which would vanish in double precision.
_RANGE = 600.0


class PartialLikelihood:
    """The functions L and G.

    Parameters
    ----------
    events : ndarray of bool of shape (n,)
        Whether a subject leaves by an event; otherwise it is censored.
    times : ndarray of shape (n,)
        When it leaves.
    weights : ndarray of shape (n,), not negative
    ties : {"breslow", "efron"}

    Attributes
    ----------
    subjects : ndarray of int
        Those that are ever at risk at an event, by time, latest first; of one time, events last.
    event_weights : ndarray of shape (n,)
        Weights of events, zero for what is censored.
    event_times, tied_weights : ndarray of shape (n_times,)
        Distinct times of events, latest first, and the weight of their events.
    n_events : float
        Weight of all events, the sum of the slopes of G.
    term_time, term_starts : ndarray of int of shape (n_terms,) and (n_times,)
        Number of the event time of each term s, and the first term of each event time.
    term_weights, coefs : ndarray of shape (n_terms,)
        The g_s, and the a_sj of tied events.
    lowest : float
        A lower bound of L: that of subjects which leave by events before all others.
    """

    def __init__(
        self, events: np.ndarray, times: np.ndarray, weights: np.ndarray, ties: str
    ) -> None:
        self.n, self._given = len(times), (events, times, weights, ties)
        self.event_weights = np.where(events, weights, 0.0)
        order = np.lexsort((events, -times))
        first = times[self.event_weights > 0].min(initial=np.inf)
        self.subjects = order[(weights[order] > 0) & (times[order] >= first)]
        self._log_weights = np.log(weights[self.subjects])
        happened, times = events[self.subjects], times[self.subjects]
        # Tied events are consecutive: the first and the last of each event time.
        at = np.flatnonzero(happened)
        new = np.flatnonzero(np.r_[True, times[at][1:] != times[at][:-1]][: len(at)])
        self._begin = at[new]
        self._end = at[np.r_[new[1:], len(at)] - 1] + 1 if len(at) else self._begin
        self._starts_of_tied = np.cumsum(self._end - self._begin) - (self._end - self._begin)
        self.event_times = times[self._begin]
        by_time = np.add.reduceat(self.event_weights[self.subjects[at]], new) if len(at) else at
        self.tied_weights = tied = np.asarray(by_time, dtype=np.float64)
        self.n_events = float(tied.sum())
        counts = np.ones(len(tied), dtype=np.intp)
        if ties == "efron":
            counts = np.maximum(np.ceil(tied - 1e-9), 1.0).astype(np.intp)
        self.term_starts = np.cumsum(counts) - counts
        self.term_time = np.repeat(np.arange(len(tied)), counts)
        number = np.arange(len(self.term_time)) - self.term_starts[self.term_time]
        tied_at = tied[self.term_time]
        self.term_weights = tied if ties == "breslow" else np.minimum(1.0, tied_at - number)
        self.coefs = 1.0 - number / tied_at
        self.lowest = float(tied @ np.log(tied) + self.term_weights @ np.log(self.coefs))
        # Number of the latest event time at which a subject is at risk.
        self._entry = np.searchsorted(-self.event_times, -times, side="left")
        self._tied = happened

    def of(self, subjects: np.ndarray) -> PartialLikelihood:
        """The likelihood of some subjects, in their order."""
        events, times, weights, ties = self._given
        return PartialLikelihood(events[subjects], times[subjects], weights[subjects], ties)

    def log_sums(self, f: np.ndarray) -> float:
        """G of scores of shape (n,)."""
        return float(self.term_weights @ self._logs(f[self.subjects] + self._log_weights))

    def slopes(self, f: np.ndarray) -> np.ndarray:
        """The slopes of G, shape (n,)."""
        found = np.zeros(self.n)
        logs = f[self.subjects] + self._log_weights
        found[self.subjects] = np.exp(logs + self._log_hazards(self._logs(logs)))
        return found

    def curvature(self, f: np.ndarray, factor: float) -> Curvature:
        """The second derivative of G times a factor."""
        logs = f[self.subjects] + self._log_weights
        logs = np.maximum(logs - logs.max(initial=-np.inf), -_RANGE)
        sums = self._logs(logs)
        return Curvature(
            self,
            factor,
            weights=np.exp(logs),
            inverse=np.exp(-sums),
            slopes=np.exp(logs + self._log_hazards(sums)),
        )

    def log_baseline(self, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Breslow's estimate: times of events, increasing, and logarithms of their hazards."""
        at_risk = np.logaddexp.accumulate(f[self.subjects] + self._log_weights)[self._end - 1]
        return self.event_times[::-1], (np.log(self.tied_weights) - at_risk)[::-1]

    # -- parts ---------------------------------------------------------------------------------

    def _logs(self, logs: np.ndarray) -> np.ndarray:
        """log S_s of every term; ``logs`` are the logarithms of c_j exp(f_j) of the subjects."""
        if len(self.tied_weights) == 0:
            return np.zeros(0)
        before = np.append(-np.inf, np.logaddexp.accumulate(logs))[self._begin]
        tied = np.logaddexp.reduceat(logs[self._tied], self._starts_of_tied)
        tied = np.log(self.coefs) + tied[self.term_time]
        return np.asarray(np.logaddexp(before[self.term_time], tied))

    def _log_hazards(self, sums: np.ndarray) -> np.ndarray:
        """Logarithm of the hazard that each subject was exposed to."""
        if len(sums) == 0:
            return np.zeros(0)
        logs = np.log(self.term_weights) - sums
        # Of all terms up to a time, which is the sum over those from its number on.
        at = np.logaddexp.reduceat(logs, self.term_starts)
        total = np.append(np.logaddexp.accumulate(at[::-1])[::-1], -np.inf)
        own = np.logaddexp.reduceat(logs + np.log(self.coefs), self.term_starts)
        of_tied = np.logaddexp(total[1:], own)
        return np.where(self._tied, of_tied[self._entry], total[self._entry])


@dataclass(frozen=True)
class Curvature:
    """The second derivative of G, diag(p) - sum_s g_s q_s q_s' with q_s = a_s c exp(f) / S_s.

    A matrix of shape (n, n) of which products are made by cumulative sums.
    """

    likelihood: PartialLikelihood
    factor: float
    # c exp(f), 1 / S_s and p of the subjects, on a common scale.
    weights: np.ndarray
    inverse: np.ndarray
    slopes: np.ndarray

    def diagonal(self) -> np.ndarray:
        """An upper bound of the diagonal, shape (n,)."""
        found = np.zeros(self.likelihood.n)
        found[self.likelihood.subjects] = self.factor * self.slopes
        return found

    def __matmul__(self, values: Any) -> np.ndarray:
        """The product with values of shape (n,) or (n, k)."""
        values, given = np.asarray(values, dtype=np.float64), self.likelihood
        found: np.ndarray = np.zeros_like(values)
        subjects = given.subjects
        if len(given.coefs) == 0:
            return found
        rows = values.reshape(len(values), -1)
        rows = (rows - self._centre(rows))[subjects]
        sums = np.cumsum(self.weights[:, None] * rows, axis=0)
        sums = np.vstack([np.zeros(rows.shape[1]), sums])
        before, tied = sums[given._begin], sums[given._end] - sums[given._begin]
        means = before[given.term_time] + given.coefs[:, None] * tied[given.term_time]
        # g_s q_s.v / S_s, of which a subject takes the sum over its terms; 1 / S_s^2 may overflow.
        means *= self.inverse[:, None]
        means *= (given.term_weights * self.inverse)[:, None]
        at = np.add.reduceat(means, given.term_starts, axis=0)
        total = np.vstack([np.cumsum(at[::-1], axis=0)[::-1], np.zeros(rows.shape[1])])
        own = np.add.reduceat(means * given.coefs[:, None], given.term_starts, axis=0)
        of_tied = (total[1:] + own)[given._entry]
        exposed = np.where(given._tied[:, None], of_tied, total[given._entry])
        product = self.slopes[:, None] * rows - self.weights[:, None] * exposed
        found[subjects] = self.factor * product.reshape(-1, *found.shape[1:])
        return found

    def gram(self, values: np.ndarray, *, chunk_numbers: int = 2**17) -> np.ndarray:
        """The product with values of shape (n, k) from both sides, shape (k, k).

        Chunks of rows with ``chunk_numbers`` numbers stay in a core's cache.
        """
        given, centre, width = self.likelihood, self._centre(values), values.shape[1]
        found, total = np.zeros((width, width)), np.zeros(width)
        step = max(1, chunk_numbers // max(1, width))
        efron = bool((given.coefs < 1.0).any())
        # Sums up to the first and to the last of tied events.
        bounds = [(given._begin, np.zeros((len(given._begin), width)))] if efron else []
        bounds.append((given._end, np.empty((len(given._end), width))))
        for first in range(0, len(given.subjects), step):
            part = slice(first, first + step)
            rows = values[given.subjects[part]] - centre
            found += rows.T @ (self.slopes[part, None] * rows)
            rows *= self.weights[part, None]
            rows[0] += total
            np.cumsum(rows, axis=0, out=rows)
            for places, sums in bounds:
                mine = slice(*np.searchsorted(places, [first, first + step], side="right"))
                sums[mine] = rows[places[mine] - 1 - first]
            total = rows[-1].copy()
        # What is left of a difference may be rounding: its bound keeps the result semidefinite.
        found[np.diag_indices(width)] *= 1.0 + 10.0 * width * np.finfo(np.float64).eps
        upto = bounds[-1][1]
        for first in range(0, len(given.coefs), step):
            part = slice(first, first + step)
            time = given.term_time[part]
            means = upto[time]
            if efron:
                before = bounds[0][1][time]
                means = before + given.coefs[part, None] * (means - before)
            means *= (np.sqrt(given.term_weights) * self.inverse)[part, None]
            found -= means.T @ means
        return np.asarray(self.factor * found)

    def _centre(self, values: np.ndarray) -> np.ndarray:
        """A mean of the values, which may be subtracted: a constant is in the null space."""
        weights = np.zeros(self.likelihood.n)
        weights[self.likelihood.subjects] = self.slopes
        return np.asarray(weights @ values / max(float(weights.sum()), 1e-300))
