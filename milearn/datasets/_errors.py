"""The two errors of this sub-package."""

from __future__ import annotations

__all__ = ["BagFileError", "DownloadError"]


class BagFileError(ValueError):
    """A data file that cannot be read, or data that a file format cannot hold.

    The message is one sentence: the file, the line or bag, what is wrong, and the remedy.
    """


class DownloadError(OSError):
    """A download that failed: no connection, a refusal, a broken body, a wrong checksum.

    Nothing of the failed download is left on the disk.
    """
