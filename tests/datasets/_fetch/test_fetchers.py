"""Downloads against a server of our own that also truncates, corrupts and refuses."""

from __future__ import annotations

import gzip
import hashlib
import io
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
    fetch_bags,
    fetch_musk,
    get_data_home,
    load_bags,
    make_bags,
    save_bags,
)


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
    request_queue_size = 32

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
def content(tmp_path):
    X, y = make_bags(5, 2, random_state=0)
    save_bags(tmp_path / "made.csv", X, y)
    return (tmp_path / "made.csv").read_bytes()


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


def kept(home):
    return sorted(path.name for path in home.rglob("*") if path.is_file())


def fetch(server, name, home, **options):
    """The checksum is that of the file of the server, as plain http needs one."""
    digest = hashlib.sha256(server.files.get(name, b"")).hexdigest()
    options = {"n_retries": 0, "delay": 0.0, "sha256": digest, **options}
    return fetch_bags(server.url + name, data_home=home, **options)


def test_a_second_call_does_not_touch_the_network(server, content, home):
    server.files["/a/x.csv"] = content
    digest = hashlib.sha256(content).hexdigest()
    first = fetch(server, "/a/x.csv", home, sha256=digest.upper())
    assert first.data.shape == (5, 2)
    assert first.url == f"{server.url}/a/x.csv"
    second, y = fetch(server, "/a/x.csv", home, return_X_y=True)
    assert_array_equal(second.instances, first.data.instances)
    assert_array_equal(y, first.target)
    assert server.log == ["/a/x.csv"]
    assert kept(home) == ["x.csv"]
    # The same name at another address is another file.
    server.files["/b/x.csv"] = b"bag,label,f\nq,1,2\n"
    assert len(fetch(server, "/b/x.csv", home).data) == 1
    assert len(fetch(server, "/a/x.csv", home).data) == 5
    clear_data_home(home)
    assert kept(home) == []


@pytest.mark.parametrize("pack", [bytes, lambda data: zipped(**{"x.csv": data})])
def test_a_kept_file_with_another_checksum_is_fetched_again(server, content, home, pack):
    name = "/x.csv" if pack is bytes else "/x.zip"
    for data, n_bags in ((b"bag,label,f\nq,1,2\n", 1), (content, 5)):
        server.files[name] = pack(data)
        # What was unpacked from the older version is replaced.
        assert len(fetch(server, name, home).data) == n_bags
    assert server.log == [name, name]


def test_a_checksum_that_differs(server, content, home):
    server.files["/x.csv"] = content
    with pytest.raises(DownloadError, match=r"x\.csv: SHA256 hash of downloaded file .* does not"):
        fetch(server, "/x.csv", home, sha256="0" * 64, n_retries=3)
    assert kept(home) == []
    assert len(server.log) == 1


def test_a_failure_that_passes(server, content, home):
    server.files["/x.csv"] = server.files["/moved/x.csv"] = content
    server.faults["/x.csv"] = ["truncate", "busy", "redirect"]
    with pytest.raises(DownloadError, match=r"x\.csv: the download failed .* by hand to .*x\.csv"):
        fetch(server, "/x.csv", home)
    assert kept(home) == []
    assert fetch(server, "/x.csv", home, n_retries=1).data.shape == (5, 2)
    assert len(server.log) == 4
    assert kept(home) == ["x.csv"]


def test_a_missing_file_is_not_asked_for_again(server, home):
    with pytest.raises(DownloadError, match=r"gone\.csv: the download failed \(404 Client Error"):
        fetch(server, "/gone.csv", home, n_retries=3)
    assert len(server.log) == 1


@pytest.mark.parametrize("name", ["x.csv", "x.zip"])
def test_simultaneous_fetches_end_in_one_whole_file(server, content, home, name):
    server.files |= {"/x.csv": content, "/x.zip": zipped(**{"x.csv": content})}
    shapes, errors = [], []

    def work():
        try:
            shapes.append(fetch(server, f"/{name}", home).data.shape)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert shapes == [(5, 2)] * 8
    assert kept(home) == sorted({"x.csv", name})


@pytest.mark.parametrize(
    ("url", "options", "error", "sentence"),
    [
        ("http://127.0.0.1/x.csv", {}, DownloadError, "only https addresses are downloaded, or h"),
        ("file:///etc/passwd", {"sha256": "0"}, DownloadError, "only https addresses are downloa"),
        ("https://127.0.0.1/", {}, DownloadError, r"does not end in a file name; pass filename=\."),
        ("https://127.0.0.1/x.csv", {"download_if_missing": False}, FileNotFoundError,
         r"x\.csv: the file is missing and download_if_missing=False; allow the download, or"),
    ],
)  # fmt: skip
def test_what_is_refused_before_a_download(home, url, options, error, sentence):
    with pytest.raises(error, match=sentence):
        fetch_bags(url, data_home=home, **options)
    assert kept(home) == []


def test_a_body_is_kept_as_it_was_sent(server, content, home):
    """A server may declare a .tgz file to be an encoded tar file; its checksum is of the former."""
    server.files["/x.tgz"] = tarred(**{"x.csv": content})
    server.faults["/x.tgz"] = ["encoded"]
    assert fetch(server, "/x.tgz", home).data.shape == (5, 2)
    (path,) = home.rglob("x.tgz")
    assert path.read_bytes() == server.files["/x.tgz"]


@pytest.mark.parametrize(
    ("name", "member"),
    [("one.zip", None), ("two.tar.gz", "d/x.csv"), ("two.tar.gz", "x.csv"), ("x.csv.gz", None),
     ("in.zip", None), ("in.zip", "x.csv.gz")],
)  # fmt: skip
def test_archives(server, content, home, name, member):
    server.files |= {
        "/one.zip": zipped(**{"a/readme.txt": b"hello", "a/x.csv": content}),
        "/two.tar.gz": tarred(**{"d/x.csv": content, "d/y.csv": b"bag,f\nq,1\n"}),
        "/x.csv.gz": gzip.compress(content),
        "/in.zip": zipped(**{"x.csv.gz": gzip.compress(content)}),
    }
    assert fetch(server, f"/{name}", home, member=member).data.shape == (5, 2)


@pytest.mark.parametrize(("member", "found"), [(None, 2), ("z.csv", 0)])
def test_a_member_that_is_unknown(server, content, home, member, found):
    server.files["/two.zip"] = zipped(**{"d/x.csv": content, "d/y.csv": content})
    with pytest.raises(BagFileError) as caught:
        fetch(server, "/two.zip", home, member=member)
    assert str(caught.value).endswith(
        f"two.zip: the archive holds {found} files that fit; name one with member= (d/x.csv, "
        "d/y.csv)."
    )


def test_old_unix_compression(server, home, monkeypatch):
    pytest.importorskip("uncompresspy", reason=".Z files need uncompresspy")
    server.files["/x.csv.Z"] = compressed(b"bag,label,f\nq,1,2\n")
    assert fetch(server, "/x.csv.Z", home).data.instances.tolist() == [[2.0]]
    clear_data_home(home)
    monkeypatch.setitem(sys.modules, "uncompresspy", None)
    with pytest.raises(ImportError, match=r"need uncompresspy; install it with pip install 'milea"):
        fetch(server, "/x.csv.Z", home)


@pytest.mark.parametrize("name", ["x.zip", "x.tar.gz"])
def test_no_path_in_an_archive_is_followed(server, content, home, tmp_path, name):
    pack = zipped if name == "x.zip" else tarred
    server.files[f"/{name}"] = pack(**{"../../../evil.csv": content})
    assert fetch(server, f"/{name}", home).data.shape == (5, 2)
    assert {path.parent.parent for path in tmp_path.rglob("evil*")} == {home / "fetched"}


@pytest.mark.parametrize("name", ["x.zip", "x.tar.gz", "x.csv.gz", "x.csv.Z"])
def test_a_damaged_archive_is_removed(server, content, home, name):
    if name.endswith(".Z"):
        pytest.importorskip("uncompresspy", reason=".Z files need uncompresspy")
    whole = {
        "x.zip": zipped(**{"x.csv": content}),
        "x.tar.gz": tarred(**{"x.csv": content}),
        "x.csv.gz": gzip.compress(content),
        "x.csv.Z": b"\x1f\x9d\x90\xff\xff\xff\0\0\0\0\0\0",
    }[name]
    server.files[f"/{name}"] = whole[: len(whole) // 2]
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
    packed = {"clean1.data.gz": gzip.compress(source), "clean1.names": b"prose"}
    stored(fetch_musk, home, zipped(**packed))
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
    packed["clean1.data.gz"] = gzip.compress(source.replace(b"42,-198,-109", b"42,-198,-108"))
    stored(fetch_musk, home, zipped(**packed))
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
