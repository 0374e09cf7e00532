"""Assignment of groups to folds."""
