"""Data sets: readers and writers of the field's file formats, generators, fetchers."""

from ._errors import BagFileError, DownloadError
from ._fetch.download import clear_data_home, get_data_home
from ._fetch.fetchers import fetch_andrews, fetch_musk
from ._formats.airr import load_airr
from ._formats.folder import load_bag_folder
from ._formats.io import load_bags, save_bags
from ._generate.make import load_digit_bags, make_affinity, make_bags

__all__ = [
    "BagFileError",
    "DownloadError",
    "clear_data_home",
    "fetch_andrews",
    "fetch_musk",
    "get_data_home",
    "load_airr",
    "load_bag_folder",
    "load_bags",
    "load_digit_bags",
    "make_affinity",
    "make_bags",
    "save_bags",
]
