"""Solvers: arrays in, a result object out. They know no estimators, no labels, no containers."""
