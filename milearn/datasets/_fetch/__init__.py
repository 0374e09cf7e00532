"""Download, cache and unpacking of published data sets."""
