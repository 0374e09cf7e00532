"""Checks of estimators on bags."""
