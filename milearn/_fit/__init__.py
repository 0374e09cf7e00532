"""The machinery of every fit: validation, labels, threads, starts, and warnings."""
