"""Solvers of :mod:`milearn.structured`."""
