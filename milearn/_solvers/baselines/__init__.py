"""Diverse density, MILBoost, MIForest, BLRT."""
