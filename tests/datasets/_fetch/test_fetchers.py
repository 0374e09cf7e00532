"""Downloads against a server of our own that also truncates, corrupts and refuses."""

from __future__ import annotations

import io
import os
import sys
import tarfile
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pooch
import pytest
from numpy.testing import assert_array_equal

from milearn.datasets import (
    BagFileError,
    DownloadError,
    clear_data_home,
    fetch_andrews,
    fetch_musk,
    get_data_home,
    load_bags,
)
from milearn.datasets._fetch.download import fetched

CONTENT = b"bag,label,f\nq,1,2\n"


def compressed(data):
    """A .Z file of a short text, whose bytes are the codes of 9 bits."""
    bits = [code >> at & 1 for code in data for at in range(9)]
    packed = np.packbits(np.array(bits, dtype=np.uint8), bitorder="little")
    return b"\x1f\x9d\x90" + packed.tobytes()


def zipped(**members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def tarred(**members):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


class _Server(ThreadingHTTPServer):
    """Serves ``files``; ``faults`` says for a path what goes wrong, and ``log`` what was asked."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.faults: dict[str, list[str]] = {}
        self.log: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_GET(self):
        self.server.log.append(self.path)
        faults = self.server.faults.get(self.path, [])
        fault = (faults.pop(0) if len(faults) > 1 else faults[0]) if faults else "none"
        body = self.server.files.get(self.path)
        if fault == "busy":
            self.send_error(503)
        elif body is None:
            self.send_error(404)
        else:
            self.send_response(302 if fault == "redirect" else 200)
            if fault == "redirect":
                self.send_header("Location", "/moved" + self.path)
            if fault == "encoded":
                self.send_header("Content-Encoding", "x-gzip")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2] if fault == "truncate" else body)


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    pooch.get_logger().setLevel("ERROR")
    with _Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


def kept(home):
    return sorted(path.name for path in home.rglob("*") if path.is_file())


def fetch(server, name, home, **options):
    options = {"n_retries": 0, "delay": 0.0, "download_if_missing": True, **options}
    return fetched(server.url + name, home, member="x.csv", **options).read_bytes()


def test_a_second_call_does_not_touch_the_network(server, home):
    server.files["/a/x.zip"] = zipped(**{"a/x.csv": CONTENT, "readme.txt": b"hello"})
    for _ in range(2):
        assert fetch(server, "/a/x.zip", home) == CONTENT
    assert server.log == ["/a/x.zip"]
    assert kept(home) == ["x.csv", "x.zip"]
    # What was unpacked from an older archive is replaced.
    archive = next(home.rglob("x.zip"))
    archive.write_bytes(zipped(**{"x.csv": b"new"}))
    os.utime(archive, (2e9, 2e9))
    assert fetch(server, "/a/x.zip", home) == b"new"
    clear_data_home(home)
    assert kept(home) == []
    with pytest.raises(FileNotFoundError, match=r"x\.zip: the file is missing and download_if_mis"):
        fetch(server, "/a/x.zip", home, download_if_missing=False)


def test_a_failure_that_passes(server, home):
    server.files["/x.zip"] = server.files["/moved/x.zip"] = zipped(**{"x.csv": CONTENT})
    server.faults["/x.zip"] = ["truncate", "busy", "redirect"]
    with pytest.raises(DownloadError, match=r"x\.zip: the download failed .* by hand to .*x\.zip"):
        fetch(server, "/x.zip", home)
    assert kept(home) == []
    assert fetch(server, "/x.zip", home, n_retries=1) == CONTENT
    assert len(server.log) == 4


def test_a_missing_file_is_not_asked_for_again(server, home):
    with pytest.raises(DownloadError, match=r"gone\.zip: the download failed \(404 Client Error"):
        fetch(server, "/gone.zip", home, n_retries=3)
    assert len(server.log) == 1


def test_a_body_is_kept_as_it_was_sent(server, home):
    """A server may declare a .tgz file to be an encoded tar file."""
    server.files["/x.tgz"] = tarred(**{"x.csv": CONTENT})
    server.faults["/x.tgz"] = ["encoded"]
    assert fetch(server, "/x.tgz", home) == CONTENT
    (path,) = home.rglob("x.tgz")
    assert path.read_bytes() == server.files["/x.tgz"]


def test_old_unix_compression(server, home, monkeypatch):
    pytest.importorskip("uncompresspy", reason=".Z files need uncompresspy")
    server.files["/x.zip"] = zipped(**{"x.csv.Z": compressed(CONTENT)})
    assert fetch(server, "/x.zip", home) == CONTENT
    clear_data_home(home)
    monkeypatch.setitem(sys.modules, "uncompresspy", None)
    with pytest.raises(ImportError, match=r"A \.Z file needs uncompresspy: pip install 'milea"):
        fetch(server, "/x.zip", home)


@pytest.mark.parametrize(("name", "pack"), [("x.zip", zipped), ("x.tgz", tarred)])
def test_paths_in_an_archive_and_damaged_ones(server, home, tmp_path, name, pack):
    server.files[f"/{name}"] = pack(**{"../../../x.csv": CONTENT})
    assert fetch(server, f"/{name}", home) == CONTENT
    assert {path.parent for path in tmp_path.rglob("x.csv")} == {home / "fetched"}
    clear_data_home(home)
    server.files[f"/{name}"] = server.files[f"/{name}"][:40]
    with pytest.raises(
        BagFileError, match=r": the archive cannot be read and was removed; fetch it again\.$"
    ):
        fetch(server, f"/{name}", home)
    assert kept(home) == []


# -- published sets, with their archives put where a download stores them ------------------------


def stored(fetcher, home, content):
    """Store an archive in the place that the error for a missing one names."""
    with pytest.raises(FileNotFoundError) as caught:
        fetcher(data_home=home, download_if_missing=False)
    path = Path(str(caught.value).partition(": the file is missing")[0])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def original(data_dir, name):
    path = data_dir / "original" / name
    if not path.exists():
        pytest.skip(f"no real data: original/{name} is not in the data folder")
    return path


def test_fetch_musk_as_the_archive_packs_it(data_dir, home):
    source = original(data_dir, "musk1.data").read_bytes()
    stored(fetch_musk, home, zipped(**{"clean1.data": source, "clean1.names": b"prose"}))
    musk = fetch_musk(data_home=home, download_if_missing=False)
    same = load_bags(data_dir / "musk1.npz")
    order = {name: at for at, name in enumerate(same.bag_names)}
    picked = [order[name] for name in musk.bag_names]
    assert_array_equal(musk.data.instances, same.data[picked].instances)
    assert_array_equal(musk.target, same.target[picked])
    assert sorted(musk.instance_names) == sorted(same.instance_names)
    assert musk.feature_names.tolist() == same.feature_names.tolist()
    assert fetch_musk(data_home=home, return_X_y=True)[1].sum() == 47
    # One digit that differs is noticed.
    clear_data_home(home)
    changed = source.replace(b"42,-198,-109", b"42,-198,-108")
    stored(fetch_musk, home, zipped(**{"clean1.data": changed}))
    with pytest.raises(BagFileError, match=r"the values differ from the published data set \(cont"):
        fetch_musk(data_home=home)


def test_fetch_andrews_as_the_archive_packs_it(data_dir, home):
    names = ("musk1norm_matlab.mat", "trec_1_200x200_matlab.mat")
    members = {f"MilData/{name}": original(data_dir, name).read_bytes() for name in names}
    stored(fetch_andrews, home, tarred(**members))
    musk = fetch_andrews("musk1norm", data_home=home, download_if_missing=False)
    trec = fetch_andrews("trec1", data_home=home, download_if_missing=False)
    assert (musk.data.shape, trec.data.shape) == ((92, 166), (400, 66552))
    assert (musk.target.sum(), trec.target.sum()) == (47, 200)
    assert trec.data.is_sparse
    assert not musk.data.is_sparse
    assert "bag_names" not in musk


@pytest.mark.parametrize(
    ("fetcher", "given", "sentence"),
    [
        (fetch_andrews, "sival", r"^name='sival' is unknown; choose one of elephant, fox, "),
        (fetch_musk, 3, r"^version=3 is unknown; choose 1 or 2\.$"),
    ],
)
def test_unknown_sets(fetcher, given, sentence):
    with pytest.raises(ValueError, match=sentence):
        fetcher(given)


def test_data_home(tmp_path, monkeypatch):
    monkeypatch.setenv("MILEARN_DATA", str(tmp_path / "env"))
    assert get_data_home() == tmp_path / "env"
    assert (tmp_path / "env").is_dir()
    monkeypatch.delenv("MILEARN_DATA")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert get_data_home() == tmp_path / "milearn_data"
    assert get_data_home("~/own") == tmp_path / "own"
    # What the user keeps in the folder is not ours to delete.
    (tmp_path / "own" / "mine.npz").write_bytes(b"x")
    (tmp_path / "own" / "fetched").mkdir()
    clear_data_home("~/own")
    assert [path.name for path in (tmp_path / "own").iterdir()] == ["mine.npz"]
