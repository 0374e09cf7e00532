"""Outcomes of survival analysis: events and times."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_consistent_length

from .._bags import Bags
from .._bags.kinds import as_labels, column, is_missing, numbers
from .validation import validate_labels


def survival_outcomes(event: Any, time: Any) -> np.ndarray:
    """Combine events and times into targets for survival models.

    Read more in the :ref:`User Guide <tutorial_survival>`.

    .. versionadded:: 0.2.0

    Parameters
    ----------
    event : array-like of bool of shape (n_bags,)
        Whether the event was observed; otherwise the bag is censored. Zeros and ones are allowed.
    time : array-like of shape (n_bags,)
        Time of the event or of censoring, in any unit; predictions have the same unit. Durations
        are days.

    Returns
    -------
    ndarray of shape (n_bags,)
        A structured array with the fields "event" and "time", as
        ``sksurv.util.Surv.from_arrays`` of scikit-survival makes them. Of pandas Series it keeps
        the index, which must be in the order of the bags if it names them.

    Raises
    ------
    ValueError
        If ``event`` has other values, times are dates, negative or not finite, or the lengths or
        indices differ.

    See Also
    --------
    MICoxPH : Survival model of bags.
    milearn.metrics.concordance_index : Score of predicted risks.

    Examples
    --------
    >>> from milearn.survival import survival_outcomes
    >>> y = survival_outcomes([True, False], [12.5, 60.0])
    >>> y["time"]
    array([12.5, 60. ])
    """
    indices: list[Any] = [getattr(values, "index", None) for values in (event, time)]
    indices = [index for index in indices if hasattr(index, "equals")]
    names = indices[0] if indices else None
    events = as_labels(column(event, "event"))
    wrong = [is_missing(each) or each not in (0, 1) for each in events.tolist()]
    for at in np.flatnonzero(wrong)[:1].tolist():
        raise ValueError(
            f"event holds {events.tolist()[at]!r} for {_bag(at, names)}: pass True for an observed "
            "event and False for a censored bag."
        )
    times = _times(time, "time", names)
    check_consistent_length(events, times)
    found = np.empty(len(times), dtype=[("event", bool), ("time", np.float64)])
    found["event"], found["time"] = events.astype(bool), times
    if not indices:
        return found
    if not indices[0].equals(indices[-1]):
        raise ValueError("event and time have different indices: pass time.loc[event.index].")
    named = found.view(_Outcomes)
    named.index = indices[0]
    return named


class _Outcomes(np.ndarray):
    """Outcomes with the index of the Series of which they were made."""

    index: Any = None

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        if self.index is not None and isinstance(found, _Outcomes) and found.dtype == self.dtype:
            found.index = self.index[np.arange(len(self.index))[key]]
        return found

    def __reduce__(self) -> Any:  # with the index, for workers
        made: Any = super().__reduce__()
        return (*made[:-1], (made[-1], self.index))

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state[0])
        self.index = state[1]


def outcome_fields(y: np.ndarray) -> tuple[str, str] | None:
    """Names of the fields of events and times of structured outcomes; None for other targets."""
    names = y.dtype.names or ()
    for event, time in (names, names[::-1]) if len(names) == 2 else ():
        if y.dtype[event].kind == "b" and y.dtype[time].kind in "iuf":
            return event, time
    return None


def has_outcomes(y: Any) -> bool:
    """Whether targets are outcomes of survival analysis."""
    return isinstance(y, np.ndarray) and outcome_fields(y) is not None


def validate_outcomes(estimator: Any, y: Any, bags: Bags) -> tuple[np.ndarray, np.ndarray]:
    """Events and times, one per bag.

    Parameters
    ----------
    estimator : estimator instance
        The estimator that the outcomes are for; named in error messages.
    y : structured array of shape (n_bags,)
        A field of bool, the events, and a field of numbers, the times.
    bags : Bags

    Returns
    -------
    events : ndarray of bool of shape (n_bags,)
    times : ndarray of shape (n_bags,)

    Raises
    ------
    ValueError
        For other targets, another number of them than bags, or times that are not finite.
    """
    y = y if y is None else np.asanyarray(y)
    if y is not None and y.dtype.names is None:
        events_and_times(y)  # whose error says what to pass
    return events_and_times(validate_labels(estimator, y, bags))


def events_and_times(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Events and times of structured outcomes; times have to be finite."""
    y = np.asarray(y)
    if (names := outcome_fields(y)) is None:
        raise ValueError(
            "y must be a structured array with a field of bool (whether the event was observed) "
            "and a field of numbers (the time): make it with "
            "milearn.survival.survival_outcomes(event, time)."
        )
    event, time = names
    return y[event].astype(bool), _times(y[time], "y")


def _bag(at: int, names: Any) -> str:
    return f"bag {at if names is None else names[at]!r}"


def _times(values: Any, what: str, names: Any = None) -> np.ndarray:
    times: np.ndarray = numbers(values, what, place=lambda at: _bag(at, names))
    for at in np.flatnonzero((times < 0) | np.isinf(times))[:1].tolist():
        raise ValueError(
            f"{what} holds {times[at]:g} for {_bag(at, names)}: a time is counted from the start "
            "of the observation, and is neither negative nor infinite."
        )
    return times
