"""Solvers of :mod:`milearn.svm`."""
