"""Solvers and linear algebra that more than one family of estimators uses."""
