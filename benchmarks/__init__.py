"""Benchmarks of milearn: ``python -m benchmarks --help``."""
