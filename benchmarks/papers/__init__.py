"""One module per paper, each with its ``REPORTS``: title and function of a table, by name."""
