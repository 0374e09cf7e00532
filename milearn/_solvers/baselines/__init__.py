"""Solvers of the baselines: functions of arrays."""
