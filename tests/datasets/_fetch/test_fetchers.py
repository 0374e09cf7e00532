"""Downloads against a server of our own that also truncates, corrupts, stalls and refuses."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import os
import shutil
import socket
import subprocess
import tarfile
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
import requests
from numpy.testing import assert_array_equal
from requests.adapters import HTTPAdapter
from urllib3 import HTTPResponse

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
from milearn.datasets._fetch import download, fetchers, unpack
from milearn.datasets._fetch.lzw import unlzw


def lzw(data, widest=16):
    """A plain compressor of the .Z format, the other half of what is tested."""
    table = {bytes([value]): value for value in range(256)}
    bits, run, width, free, held = [], 0, 9, 257, b""

    def emit(code):
        nonlocal width, run
        bits.extend(code >> at & 1 for at in range(width))
        if free > (1 << width) - 1 and width < widest:
            bits.extend([0] * (-(len(bits) - run) % (8 * width)))
            run, width = len(bits), width + 1

    for value in data:
        longer = held + bytes([value])
        if longer in table:
            held = longer
            continue
        emit(table[held])
        if free < 1 << widest:
            table[longer] = free
            free += 1
        held = longer[-1:]
    emit(table[held])
    packed = np.packbits(np.array(bits, dtype=np.uint8), bitorder="little").tobytes()
    return bytes([0x1F, 0x9D, 0x80 | widest]) + packed


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
        elif fault == "encoded":
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Content-Encoding", "x-gzip")
            self.end_headers()
            self.wfile.write(body)
        elif fault == "redirect":
            self.send_response(302)
            self.send_header("Location", "/moved" + self.path)
            self.end_headers()
        elif fault == "hang":
            self.server.released.wait(5)
        else:
            self.send_response(200)
            if fault != "nolength":
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if fault == "corrupt":
                body = bytes([body[0] ^ 1]) + body[1:]
            self.wfile.write(body[: len(body) // 2] if fault == "truncate" else body)


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    with _Server() as running:
        running.released = threading.Event()
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.released.set()
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


def fetch(url, home, **options):
    options = {"n_retries": 0, "delay": 0.0, "allow_unverified": True, **options}
    return fetch_bags(url, data_home=home, **options)


def test_a_second_call_does_not_touch_the_network(server, content, home):
    server.files["/a/x.csv"] = content
    digest = hashlib.sha256(content).hexdigest()
    first = fetch(f"{server.url}/a/x.csv", home, sha256=digest.upper())
    assert first.data.shape == (5, 2)
    assert first.url == f"{server.url}/a/x.csv"
    second, y = fetch(f"{server.url}/a/x.csv", home, sha256=digest, return_X_y=True)
    assert_array_equal(second.instances, first.data.instances)
    assert_array_equal(y, first.target)
    assert server.log == ["/a/x.csv"]
    assert kept(home) == ["x.csv"]
    # The same name at another address is another file.
    server.files["/b/x.csv"] = b"bag,label,f\nq,1,2\n"
    assert len(fetch(f"{server.url}/b/x.csv", home).data) == 1
    assert len(fetch(f"{server.url}/a/x.csv", home).data) == 5
    clear_data_home(home)
    assert kept(home) == []


def test_a_kept_file_with_another_checksum_is_fetched_again(server, content, home):
    url = f"{server.url}/x.csv"
    server.files["/x.csv"] = b"bag,label,f\nq,1,2\n"
    assert len(fetch(url, home).data) == 1
    server.files["/x.csv"] = content
    assert len(fetch(url, home, sha256=hashlib.sha256(content).hexdigest()).data) == 5
    assert server.log == ["/x.csv", "/x.csv"]
    # What was unpacked from the older version goes with it.
    old, new = (zipped(**{"x.csv": data}) for data in (b"bag,label,f\nq,1,2\n", content))
    for packed, n_bags in ((old, 1), (new, 5)):
        server.files["/x.zip"] = packed
        digest = hashlib.sha256(packed).hexdigest()
        assert len(fetch(f"{server.url}/x.zip", home, sha256=digest).data) == n_bags


def test_a_checksum_that_differs(server, content, home):
    url = f"{server.url}/x.csv"
    server.files["/x.csv"] = content
    server.faults["/x.csv"] = ["corrupt"]
    good = hashlib.sha256(content).hexdigest()
    bad = hashlib.sha256(bytes([content[0] ^ 1]) + content[1:]).hexdigest()
    with pytest.raises(DownloadError) as caught:
        fetch(url, home, sha256=good, n_retries=3)
    assert str(caught.value) == (
        f"{url}: the SHA-256 checksum is {bad} but {good} was expected, and the file was removed; "
        "if the source has published a new version that you trust, pass its checksum as sha256=."
    )
    assert kept(home) == []
    assert len(server.log) == 1


def test_a_body_that_breaks_off(server, content, home):
    url = f"{server.url}/x.csv"
    server.files["/x.csv"] = content
    server.faults["/x.csv"] = ["truncate"]
    with pytest.raises(DownloadError) as caught:
        fetch(url, home, n_retries=2)
    (folder,) = (home / "fetched").iterdir()
    assert str(caught.value) == (
        f"{url}: the download broke off after {len(content) // 2} of {len(content)} bytes "
        f"(3 attempts); try again later, or download the file by hand to {folder / 'x.csv'}."
    )
    assert kept(home) == []
    assert len(server.log) == 3


def test_a_failure_that_passes(server, content, home):
    server.files["/x.csv"] = content
    server.faults["/x.csv"] = ["truncate", "busy", "nolength"]
    assert fetch(f"{server.url}/x.csv", home, n_retries=2).data.shape == (5, 2)
    assert len(server.log) == 3
    assert kept(home) == ["x.csv"]


def test_a_redirection_is_followed(server, content, home):
    server.files["/x.csv"] = server.files["/moved/x.csv"] = content
    server.faults["/x.csv"] = ["redirect"]
    assert fetch(f"{server.url}/x.csv", home).data.shape == (5, 2)


def test_an_http_error_is_not_repeated(server, home):
    url = f"{server.url}/gone.csv"
    with pytest.raises(DownloadError) as caught:
        fetch(url, home, n_retries=3)
    (folder,) = (home / "fetched").iterdir()
    assert str(caught.value) == (
        f"{url}: the server answered 404 Not Found; check the address, or download the file by "
        f"hand to {folder / 'gone.csv'}."
    )
    assert len(server.log) == 1
    server.faults["/gone.csv"] = ["busy"]
    with pytest.raises(DownloadError, match=r"the server answered 503 Service Unavailable \(2 att"):
        fetch(url, home, n_retries=1)
    assert kept(home) == []


def test_a_refused_connection(home, monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    with socket.socket() as closed:
        # Bound but not listening, so that nobody else takes the port meanwhile.
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/x.csv"
        with pytest.raises(DownloadError) as caught:
            fetch(url, home)
    (folder,) = (home / "fetched").iterdir()
    assert str(caught.value) == (
        f"{url}: there is no connection ([Errno {errno.ECONNREFUSED}] "
        f"{os.strerror(errno.ECONNREFUSED)}) (1 attempt); try again later, or download the file "
        f"by hand to {folder / 'x.csv'}."
    )
    assert kept(home) == []


def test_a_silent_server(server, content, home):
    server.files["/x.csv"] = content
    server.faults["/x.csv"] = ["hang"]
    with pytest.raises(
        DownloadError, match=r"the server was silent for 0\.2 seconds \(1 attempt\)"
    ):
        fetch(f"{server.url}/x.csv", home, timeout=0.2)
    assert kept(home) == []


@pytest.mark.parametrize("name", ["x.csv", "x.zip"])
def test_simultaneous_fetches_end_in_one_whole_file(server, content, home, name):
    server.files |= {"/x.csv": content, "/x.zip": zipped(**{"x.csv": content})}
    shapes, errors = [], []

    def work():
        try:
            shapes.append(fetch(f"{server.url}/{name}", home).data.shape)
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


def test_no_download_when_told_so(server, content, home):
    url = f"{server.url}/x.csv"
    with pytest.raises(
        FileNotFoundError, match=r"download_if_missing=False; allow the download, or "
    ):
        fetch(url, home, download_if_missing=False)
    assert server.log == []


def test_plain_http_needs_a_checksum_or_consent(server, content, home):
    url = f"{server.url}/x.csv"
    server.files["/x.csv"] = content
    with pytest.raises(DownloadError) as caught:
        fetch(url, home, allow_unverified=False)
    assert str(caught.value) == (
        f"{url}: what comes by plain http may have been changed on its way; use an https address, "
        "pass the checksum of the file as sha256=, or pass allow_unverified=True to take it as it "
        "is."
    )
    for fetcher in (fetch_musk, fetch_andrews):
        with pytest.raises(DownloadError, match="may have been changed on its way"):
            fetcher(url=url, data_home=home)
    assert server.log == []
    assert kept(home) == []
    digest = hashlib.sha256(content).hexdigest()
    assert fetch(url, home, sha256=digest, allow_unverified=False).data.shape == (5, 2)


def test_the_published_addresses_are_https():
    published = [fetchers._published_musk(version) for version in (1, 2)]
    addresses = {fetchers._published_andrews("trec1").url, *(each.url for each in published)}
    assert all(address.startswith("https://") for address in addresses)


def test_an_https_address_that_leads_to_http(home, monkeypatch, tmp_path):
    """The redirection is followed by requests, hence a transport that pretends to be https."""

    class Transport(HTTPAdapter):
        def send(self, request, **_):
            response = requests.Response()
            response.request, response.url = request, request.url
            secure = request.url.startswith("https:")
            response.status_code = 302 if secure else 200
            headers = {"Location": "http://example.org/x.csv"} if secure else {}
            response.headers.update(headers)
            response.raw = HTTPResponse(io.BytesIO(b"bag,f\nq,1\n"), headers, preload_content=False)
            return response

    session = requests.Session

    def patched():
        made = session()
        made.mount("https://", Transport())
        made.mount("http://", Transport())
        return made

    monkeypatch.setattr("requests.sessions.Session", patched)
    with pytest.raises(
        DownloadError, match=r"the server led on to http://example\.org/x\.csv, and"
    ):
        fetch("https://example.org/x.csv", home, allow_unverified=False)
    assert kept(home) == []
    assert len(fetch("https://example.org/x.csv", home).data) == 1


def test_a_body_is_kept_as_it_was_sent(server, content, home):
    """A server may declare a .tgz file to be an encoded tar file; its checksum is of the former."""
    packed = tarred(**{"x.csv": content})
    server.files["/x.tgz"] = packed
    server.faults["/x.tgz"] = ["encoded"]
    digest = hashlib.sha256(packed).hexdigest()
    assert fetch(f"{server.url}/x.tgz", home, sha256=digest).data.shape == (5, 2)
    (path,) = home.rglob("x.tgz")
    assert path.read_bytes() == packed


def test_nothing_is_printed(server, content, home, capsys):
    server.files["/x.csv"] = content
    fetch(f"{server.url}/x.csv", home)
    assert capsys.readouterr().out == ""


def test_an_interrupted_download_leaves_nothing(server, content, home, monkeypatch):
    server.files["/x.csv"] = content

    def interrupted(path):
        raise KeyboardInterrupt

    monkeypatch.setattr(download, "sha256_of", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fetch(f"{server.url}/x.csv", home)
    assert kept(home) == []


def test_an_archive_that_unpacks_to_too_much(tmp_path):
    archive = tmp_path / "x.zip"
    archive.write_bytes(zipped(**{"x.csv": bytes(3 << 20)}))
    with pytest.raises(BagFileError, match="unpacks to more than 1048576 bytes and was given up"):
        unpack.unpack(archive, None, (".csv",), limit=1 << 20)
    assert [path.name for path in tmp_path.iterdir()] == ["x.zip"]


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://example.org/x.csv"])
def test_only_http(home, url):
    with pytest.raises(DownloadError) as caught:
        fetch(url, home)
    assert str(caught.value) == (
        f"{url}: only http and https addresses are downloaded; read local files with load_bags."
    )


def test_an_address_without_a_file_name(home):
    with pytest.raises(DownloadError, match=r"does not end in a file name; pass filename=\.$"):
        fetch("http://127.0.0.1/", home)


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


def test_archives(server, content, home):
    server.files |= {
        "/one.zip": zipped(**{"a/readme.txt": b"hello", "a/x.csv": content}),
        "/two.tar.gz": tarred(**{"d/x.csv": content, "d/y.csv": b"bag,f\nq,1\n"}),
        "/x.csv.gz": gzip.compress(content),
        "/x.csv.Z": lzw(content),
        "/c45.zip": zipped(**{"m.data.Z": lzw(b"p,i,1,0.\nq,j,2,1.\n"),
                              "m.names": b"0,1.\nmol: p,q.\natom: i,j.\nwidth: continuous.\n"}),
    }  # fmt: skip
    for name, member in (("one.zip", None), ("two.tar.gz", "d/x.csv"), ("two.tar.gz", "x.csv"),
                         ("x.csv.gz", None), ("x.csv.Z", None)):  # fmt: skip
        assert fetch(f"{server.url}/{name}", home, member=member).data.shape == (5, 2)
    bunch = fetch(f"{server.url}/c45.zip", home)
    assert bunch.feature_names.tolist() == ["width"]
    assert bunch.bag_names.tolist() == ["p", "q"]
    with pytest.raises(BagFileError) as caught:
        fetch(f"{server.url}/two.tar.gz", home)
    assert str(caught.value).endswith(
        "two.tar.gz: the archive holds 2 files that fit; name one with member= (d/x.csv, d/y.csv)."
    )
    with pytest.raises(BagFileError, match=r"the archive holds no file 'z\.csv'; name one with "):
        fetch(f"{server.url}/two.tar.gz", home, member="z.csv")


@pytest.mark.parametrize("name", ["x.zip", "x.tar.gz"])
def test_no_path_in_an_archive_is_followed(server, content, home, tmp_path, name):
    pack = zipped if name == "x.zip" else tarred
    server.files[f"/{name}"] = pack(**{"../../../evil.csv": content, "../../../evil.names": b"x"})
    assert fetch(f"{server.url}/{name}", home).data.shape == (5, 2)
    assert {path.parent.parent for path in tmp_path.rglob("evil*")} == {home / "fetched"}


@pytest.mark.parametrize("name", ["x.zip", "x.tar.gz", "x.csv.gz", "x.csv.Z"])
def test_a_damaged_archive_is_removed(server, content, home, name):
    whole = {
        "x.zip": zipped(**{"x.csv": content}),
        "x.tar.gz": tarred(**{"x.csv": content}),
        "x.csv.gz": gzip.compress(content),
        "x.csv.Z": b"\x1f\x9d\x90\xff\xff\xff",
    }[name]
    server.files[f"/{name}"] = whole[: len(whole) // 2] if name != "x.csv.Z" else whole
    with pytest.raises(
        BagFileError, match=r": the archive cannot be read and was removed; fetch it again\.$"
    ):
        fetch(f"{server.url}/{name}", home)
    assert kept(home) == []


@pytest.mark.parametrize("widest", [10, 12, 16])
def test_lzw(widest):
    rng = np.random.default_rng(0)
    for data in (b"a", b"ababababa" * 50, rng.integers(0, 5, 30_000, dtype=np.uint8).tobytes(),
                 rng.integers(0, 256, 3_000, dtype=np.uint8).tobytes()):  # fmt: skip
        packed = lzw(data, widest)
        assert unlzw(packed) == data
        if shutil.which("gzip"):
            run = subprocess.run(["gzip", "-dc"], input=packed, capture_output=True, check=True)
            assert run.stdout == data
    with pytest.raises(ValueError, match="too large when unpacked"):
        unlzw(lzw(b"a" * 10_000, widest), limit=100)
    for broken, reason in ((b"PK\3\4", "not a .Z file"), (b"\x1f\x9d\x99aa", "damaged .Z file")):
        with pytest.raises(ValueError, match=reason):
            unlzw(broken)


def test_lzw_with_a_clear_code():
    # Codes 97, 98, 256 (clear), padding of the group of eight, then 99.
    bits = "".join(f"{code:09b}"[::-1] for code in (97, 98, 256, 0, 0, 0, 0, 0, 99))
    values = np.array([int(bit) for bit in bits], dtype=np.uint8)
    packed = b"\x1f\x9d\x90" + np.packbits(values, bitorder="little").tobytes()
    assert unlzw(packed) == b"abc"


def test_fetch_musk_as_the_archive_packs_it(server, data_dir, home):
    source = data_dir / "original" / "musk1.data"
    if not source.exists():
        pytest.skip("no real data: original/musk1.data is not in the data folder")
    prose = b"This is a description and no C4.5 file."
    server.files["/musk.zip"] = zipped(
        **{"clean1.data.Z": lzw(source.read_bytes()), "clean1.names": prose}
    )
    url = f"{server.url}/musk.zip"
    musk = fetch_musk(1, url=url, data_home=home, n_retries=0, allow_unverified=True)
    same = load_bags(source)
    assert_array_equal(musk.data.instances, same.data.instances)
    assert_array_equal(musk.target, same.target)
    assert_array_equal(musk.bag_names, same.bag_names)
    assert musk.feature_names.tolist() == same.feature_names.tolist()
    assert fetch_musk(1, url=url, data_home=home, return_X_y=True)[1].sum() == 47
    assert server.log == ["/musk.zip"]
    # One digit changed is noticed, whatever the checksum of the archive.
    other = source.read_bytes().replace(b"42,-198,-109", b"42,-198,-108")
    server.files["/other.zip"] = zipped(**{"clean1.data.Z": lzw(other)})
    with pytest.raises(BagFileError, match=r"the values differ from the published data set \(cont"):
        fetch_musk(1, url=f"{server.url}/other.zip", data_home=home, allow_unverified=True)
    assert len(
        fetch_musk(1, url=f"{server.url}/other.zip", data_home=home, verify_content=False).data
    )


def test_fetch_andrews_as_the_archive_packs_it(server, data_dir, home, monkeypatch):
    members = {}
    for name in ("musk1norm_matlab.mat", "trec_1_200x200_matlab.mat"):
        path = data_dir / "original" / name
        if not path.exists():
            pytest.skip(f"no real data: original/{name} is not in the data folder")
        members[f"MilData/{name}"] = path.read_bytes()
    server.files["/all.tgz"] = tarred(**members)
    url = f"{server.url}/all.tgz"
    musk = fetch_andrews("musk1norm", url=url, data_home=home, n_retries=0, allow_unverified=True)
    trec = fetch_andrews("trec1", url=url, data_home=home, n_retries=0, allow_unverified=True)
    assert server.log == ["/all.tgz"]
    assert (musk.data.shape, trec.data.shape) == ((92, 166), (400, 66552))
    assert (musk.target.sum(), trec.target.sum()) == (47, 200)
    # A file that is not the published one is not read at all, whatever it holds.
    members["MilData/musk1norm_matlab.mat"] += b"\0"
    server.files["/other.tgz"] = tarred(**members)
    read = []
    monkeypatch.setattr(fetchers, "load_bags", lambda *given, **options: read.append(given))
    with pytest.raises(BagFileError, match=r"the file differs from the published one \(SHA-256"):
        fetch_andrews(
            "musk1norm", url=f"{server.url}/other.tgz", data_home=home, allow_unverified=True
        )
    assert read == []
    with pytest.raises(
        ValueError, match=r"^name='sival' is unknown; choose one of elephant, fox, "
    ):
        fetch_andrews("sival")
    with pytest.raises(ValueError, match=r"^version=3 is unknown; choose 1 or 2\.$"):
        fetch_musk(3)


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
