"""One module per paper, each with its ``REPORTS``."""
