"""One module per method, each with its ``REPORTS``."""
