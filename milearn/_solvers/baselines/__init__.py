"""Diverse density, MILBoost, MIForest, BLRT, sequence abundance."""
