"""Solvers of :mod:`milearn.ensemble`."""
