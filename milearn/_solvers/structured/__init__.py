"""Linked bags: MILSD and matrix factorisation."""
