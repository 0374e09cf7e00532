"""One module a method, each with its ``REPORTS``."""
