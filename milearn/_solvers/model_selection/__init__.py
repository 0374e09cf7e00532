"""Assignment of groups to folds, and the combination of models."""
