"""Generators of bags."""
