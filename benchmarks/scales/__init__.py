"""One module per question of size, each with its ``REPORTS``, as those of papers."""
