"""Estimates of the time of a fit, and a warning before a fit that takes long.

The rates are CPU seconds with one thread on generated bags (overlapping classes, C=1, 10 to 40
instances per bag, 10 to 1,000 features, 320 to 10,000 instances), extrapolated by powers:

* kernel values and their products: a rate times the square of the number of instances, and 5e-10
  of it for each feature;
* the quadratic programs of MI-SVM, whose number of free variables grows with the number of bags: a
  rate times the cube of the number of bags;
* explicit features that are recomputed in every pass: the kernel values of all instances with the
  landmarks, in about 20 passes, and the steps between them: a rate for each value;
* a semidefinite relaxation: a rate times instances times the square of the rank of its features;
* a mixture of selections: a rate times the cube of the number of instances.

The error is at most a factor of 3 for the measured sizes, and a factor of 10 for other data, other
C and other processors. For larger sizes the estimates only distinguish minutes from days.
"""

from __future__ import annotations

from sklearn.exceptions import EfficiencyWarning

from .warn import warn_user

# Seconds times the square of the number of instances, and times the cube of the number of bags.
_KERNEL_RATES = {"maximum": (3e-7, 3e-8), "coupled": (1.5e-7, 0.0), "labels": (4e-7, 0.0)}
_FEATURE_RATE = 5e-10
# Seconds for a kernel value with a landmark in all passes of a fit, and number of passes.
_LANDMARK_RATE, _PASSES = 3e-7, 20
_RELAXATION_RATE, _SELECTION_RATE = 5e-10, 7e-7
# Seconds of a mixture of selections times the cube of the number of instances.
_MIXTURE_RATE = 4.5e-10


def kernel_seconds(kind: str, n_bags: int, n_instances: int, n_features: int) -> float:
    """Time of a dual problem over kernel values.

    Parameters
    ----------
    kind : {"maximum", "coupled", "labels"}
        MI-SVM, a coupling loss, or labels of all instances.
    n_bags, n_instances, n_features : int
    """
    square, cube = _KERNEL_RATES[kind]
    rate = square + _FEATURE_RATE * n_features
    return rate * float(n_instances) ** 2 + cube * float(n_bags) ** 3


def features_seconds(n_instances: int, n_features: int, n_components: int) -> float:
    """Time of a problem over explicit features.

    Parameters
    ----------
    n_instances, n_features, n_components : int
    """
    rate = _LANDMARK_RATE + _PASSES * _FEATURE_RATE * n_features
    return rate * float(n_instances) * n_components


def relaxation_seconds(n_bags: int, n_instances: int, rank: int) -> float:
    """Time of SDPMIL over features of the given rank."""
    return (
        _RELAXATION_RATE * float(n_instances) * min(rank, n_instances) ** 2
        + _SELECTION_RATE * float(n_bags) ** 2
    )


def mixture_seconds(n_instances: int) -> float:
    """Time of WellSVC, whose support vector machines are over all instances."""
    return _MIXTURE_RATE * float(n_instances) ** 3


def duration(seconds: float) -> str:
    """A rough time in words."""
    if seconds < 1800:
        return f"{max(1.0, seconds / 60):.0f} min"
    hours = seconds / 3600.0
    return f"{hours:.1f} hours" if hours < 48 else f"{hours / 24:.0f} days"


def warn_if_long(
    seconds: float, n_bags: int, n_instances: int, remedy: str, long_seconds: float = 1800.0
) -> None:
    """Warn before a fit that takes longer than ``long_seconds``, with advice.

    Warns
    -----
    EfficiencyWarning
        If the estimate is above it.
    """
    if seconds <= long_seconds:
        return
    warn_user(
        f"A fit to {n_bags:,} bags with {n_instances:,} instances is estimated to take "
        f"{duration(seconds)} (from sizes alone, and wrong by a factor of 10 perhaps): {remedy}.",
        EfficiencyWarning,
    )
