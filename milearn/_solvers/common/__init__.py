"""Quadratic and linear programs, Gram matrices and passes, shared by all solvers."""
