"""Boosting by linear programs with column generation."""
