"""Discriminants of the mean of the highest scores of a bag."""
