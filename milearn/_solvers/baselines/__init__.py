"""Diverse density, MILBoost, MIForest."""
