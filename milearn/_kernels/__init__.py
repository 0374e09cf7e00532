"""Kernels between instances and kernels between bags."""
