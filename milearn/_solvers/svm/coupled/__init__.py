"""Bags coupled to their highest instances (Cheung and Kwok): dual and rows."""
