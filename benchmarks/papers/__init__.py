"""One module a paper, each with its ``REPORTS``."""
