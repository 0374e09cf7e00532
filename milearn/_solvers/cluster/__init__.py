"""Solvers of :mod:`milearn.cluster`."""
