"""fetch_pll and fetch_images: names, places, figures of the real files, downloads on loopback."""

import contextlib
import gzip
import hashlib
import http.server
import os
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from conftest import REAL, need
from sklearn.model_selection import KFold
from sklearn.utils import Bunch

from sklearn_cleanse.datasets import (
    _fetch,
    _images,
    describe_candidates,
    fetch_images,
    fetch_pll,
    read_mat,
)
from sklearn_cleanse.datasets._catalogue import read_catalogue

PLL_SETS, IMAGE_SETS = read_catalogue()["pll"], read_catalogue()["images"]

# Samples, features, classes, mean candidates, clean rows, clean rows and rows of fold 0's training
# part, published mean and clean rate, largest set, classes never true, duplicates.
TABLE = {
    "lost": (1122, 108, 16, 2.2317, 67, 56, 897, "2.23", "6.24%", 3, (14, 15), 0),
    "birdsong": (4998, 38, 13, 2.1755, 1632, 1328, 3998, "2.18", "33.22%", 4, (), 0),
    "msrcv2": (1758, 48, 23, 3.1564, 140, 106, 1406, "3.16", "7.54%", 7, (), 5),
}


@pytest.mark.data
@pytest.mark.parametrize("name", TABLE)
def test_the_table_of_characteristics_comes_back(name):
    n, d, m, mean, clean, fold_clean, fold_n, paper_mean, rate, largest, never, twice = TABLE[name]
    path = need("pll", PLL_SETS[name]["filename"])
    bunch = fetch_pll(name, data_home=REAL, download_if_missing=False)
    whole = describe_candidates(bunch)
    assert (whole.n_samples, whole.n_features, whole.n_classes) == (n, d, m)
    assert [n, d, m] == PLL_SETS[name]["shape"]
    assert (round(whole.mean_candidates, 4), whole.n_clean) == (mean, clean)
    assert (whole.max_candidates, whole.never_true) == (largest, never)
    assert (whole.n_duplicates, whole.noise_rate) == (twice, 0)
    train, _ = bunch.cv[0]
    fold = describe_candidates(bunch.candidates[train], bunch.target[train])
    assert (fold.n_clean, fold.n_samples) == (fold_clean, fold_n)
    assert (f"{whole.mean_candidates:.2f}", f"{fold.clean_rate:.2%}") == (paper_mean, rate)
    assert whole.name == PLL_SETS[name]["title"]
    stored = scipy.io.loadmat(path)
    np.testing.assert_array_equal(bunch.data, stored["data"])
    np.testing.assert_array_equal(bunch.candidates, stored["partial_target"].toarray().T)
    np.testing.assert_array_equal(bunch.target, stored["target"].toarray().argmax(axis=0))


@pytest.mark.data
@pytest.mark.parametrize("name", ["lost", "msrcv2"])
def test_the_stored_folds_are_those_of_seed_zero(name):
    filename = PLL_SETS[name]["filename"]
    need("pll", filename)
    five = read_mat(need("pll", "folds5", filename))
    splits = KFold(5, shuffle=True, random_state=0).split(five.data)
    for (train, test), (train_, test_) in zip(five.cv, splits, strict=True):
        np.testing.assert_array_equal(train, train_)
        np.testing.assert_array_equal(test, test_)
    plain = fetch_pll(name, data_home=REAL)
    np.testing.assert_array_equal(five.candidates, plain.candidates)


@pytest.fixture
def small(monkeypatch, tmp_path):
    """A small stand-in for Soccer Player, known by its git blob id, and its file's content."""
    rng = np.random.default_rng(0)
    Y = np.eye(4)[rng.integers(0, 4, 30)]
    S = np.maximum(Y, rng.random((30, 4)) < 0.3)
    labels = {"partial_target": sp.csc_matrix(S.T), "target": sp.csc_matrix(Y.T)}
    source = tmp_path / "source.mat"
    scipy.io.savemat(source, {"data": rng.normal(size=(30, 6)), **labels})
    content = source.read_bytes()
    source.unlink()
    blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    record = PLL_SETS["soccer_player"] | {"git_blob": blob}
    monkeypatch.setitem(PLL_SETS, "soccer_player", record)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return content


@contextlib.contextmanager
def server(content, *, cut=None, slow=0.0, status=200, only=""):
    """Serve ``content`` on loopback; note the paths asked for."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(unquote(self.path))
            self.send_response(status if only in self.path else 404)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if only in self.path:
                self.wfile.write(content[: len(content) // 2])
                time.sleep(slow)
                self.wfile.write(content[len(content) // 2 : cut])

        def log_message(self, *args):
            pass

    asked = []
    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{httpd.server_port}", asked
    finally:
        httpd.shutdown()
        thread.join()
        httpd.server_close()


def files_in(folder):
    return sorted(str(p.relative_to(folder)) for p in Path(folder).rglob("*") if p.is_file())


def test_a_missing_set_is_downloaded_once_and_verified(small, tmp_path, monkeypatch):
    with server(small) as (url, asked):
        monkeypatch.setenv("SKLEARN_CLEANSE_MIRROR", url)
        first = fetch_pll("Soccer Player", data_home=tmp_path)
        second = fetch_pll("soccer-player", data_home=tmp_path)
    assert asked == [PLL_SETS["soccer_player"]["urls"][0].partition(".com")[2]]
    assert first.data.shape == (30, 6)
    np.testing.assert_array_equal(first.candidates, second.candidates)
    assert files_in(tmp_path) == ["pll/Soccer Player.mat"]
    frame, S, y = fetch_pll("soccer", data_home=tmp_path, return_X_S_y=True, as_frame=True)
    assert (frame.shape, S.shape, y.name) == ((30, 6), (30, 4), "target")


@pytest.mark.parametrize("how", ["flipped", "cut", "emptied"])
def test_a_file_damaged_after_its_download_raises(small, tmp_path, how):
    path = tmp_path / "pll" / "Soccer Player.mat"
    path.parent.mkdir()
    flipped = bytearray(small)
    flipped[len(small) // 2] ^= 1
    path.write_bytes({"flipped": flipped, "cut": small[:-100], "emptied": b""}[how])
    with pytest.raises(ValueError, match=r"git_blob must be .* got .*Remove the file") as caught:
        fetch_pll("soccer_player", data_home=tmp_path)
    assert repr(str(path)) in str(caught.value)


def test_the_traces_of_a_killed_download_are_removed(small, tmp_path):
    code = "import sys; from sklearn_cleanse.datasets import fetch_pll; "
    code += "fetch_pll('soccer_player', data_home=sys.argv[1])"
    with server(small, slow=3.0) as (url, asked):
        env = {**os.environ, "SKLEARN_CLEANSE_MIRROR": url}
        process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], env=env)
        while not asked:
            time.sleep(0.05)
        process.kill()
        process.wait()
    (left,) = (tmp_path / "pll").iterdir()
    (tmp_path / "pll" / "soccer.mat").write_bytes(small)
    fetch_pll("soccer_player", data_home=tmp_path)
    assert left.is_dir()  # it might be another process's, still at work
    for path in (*left.iterdir(), left):
        os.utime(path, (0, time.time() - 3600))
    fetch_pll("soccer_player", data_home=tmp_path)
    assert files_in(tmp_path) == ["pll/soccer.mat"]
    assert not left.exists()


def test_the_second_source_serves_where_the_first_fails(small, tmp_path, monkeypatch):
    with server(small, only="pruirui") as (url, asked):
        monkeypatch.setenv("SKLEARN_CLEANSE_MIRROR", url)
        fetch_pll("soccer_player", data_home=tmp_path)
    assert [path.split("/")[1] for path in asked] == ["mathefuchs", "pruirui"]


FAILURES = {
    "wrong digest": ({"extra": b"x"}, "git_blob must be"),
    "web page": ({"page": b"<html>sorry</html>"}, "git_blob must be"),
    "cut connection": ({"cut": -100}, "Soccer Player"),
    "server error": ({"status": 500}, "500"),
    "too long": ({"extra": bytes(2**20)}, "sends more than 1000000 bytes"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failed_download_leaves_no_file_behind(small, tmp_path, monkeypatch, name):
    how, message = FAILURES[name]
    how = dict(how)
    content = how.pop("page", small + how.pop("extra", b""))
    monkeypatch.setattr(_fetch, "_MAX_BYTES", 10**6)
    with server(content, **how) as (url, _):
        monkeypatch.setenv("SKLEARN_CLEANSE_MIRROR", url)
        with pytest.raises(OSError, match=message) as caught:
            fetch_pll("soccer_player", data_home=tmp_path)
    monkeypatch.setenv("SKLEARN_CLEANSE_MIRROR", "http://127.0.0.1:9")  # not served
    for error, options in ((OSError, {}), (FileNotFoundError, {"download_if_missing": False})):
        with pytest.raises(error) as offline:
            fetch_pll("soccer_player", data_home=tmp_path, **options)
        for text in (str(caught.value), str(offline.value)):  # what to put where
            assert f"Put the file 'Soccer Player.mat' into {str(tmp_path / 'pll')!r}" in text
    assert files_in(tmp_path) == []


def test_a_folder_that_cannot_be_written_is_named(small, tmp_path):
    (tmp_path / "pll").write_text("")
    with pytest.raises(OSError, match=r"Cannot write to .*Pass another `data_home`"):
        fetch_pll("soccer_player", data_home=tmp_path)


def test_data_home_is_the_argument_then_ours_then_scikit_learn_s(small, tmp_path, monkeypatch):
    places = [tmp_path / name for name in ("argument", "ours", "sklearn")]
    monkeypatch.setenv("SKLEARN_CLEANSE_DATA", str(places[1]))
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(places[2]))
    for place in places:
        place.mkdir()
        (place / "soccer.mat").write_bytes(small)  # any of its names, at the top too
    found = [fetch_pll("soccer player", data_home=places[0]).filename]
    found.append(fetch_pll("soccer player").filename)
    monkeypatch.delenv("SKLEARN_CLEANSE_DATA")
    found.append(fetch_pll("soccer player").filename)
    assert [Path(name).parent for name in found] == places


@pytest.mark.parametrize("name", ["LOST", "Bird Song", "MSRC-v2", "Yahoo! News", "yahoo"])
def test_names_are_forgiving(name, tmp_path):
    with pytest.raises(FileNotFoundError, match="Put the file"):
        fetch_pll(name, data_home=tmp_path, download_if_missing=False)
    assert list(tmp_path.iterdir()) == []


WRONG = {
    "lots": "got 'lots'. Did you mean 'lost'?",
    "yaho news": "Did you mean 'yahoo_news'?",
    "qqq": "one of 'lost', 'birdsong', 'msrcv2', 'soccer_player', 'yahoo_news', got 'qqq'.",
    "FG-NET": "got 'FG-NET'.",  # without a digest it cannot be checked
    7: "got 7.",
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_names_raise_and_suggest_the_right_one(name):
    with pytest.raises(ValueError, match="`name` must be") as caught:
        fetch_pll(name)
    assert str(caught.value).endswith(WRONG[name])


def test_a_missing_extra_is_named(tmp_path, monkeypatch):
    (tmp_path / "a.mat").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(600))
    for missing in ("pooch", "h5py"):
        monkeypatch.setitem(sys.modules, missing, None)
    for call in (
        lambda: fetch_pll("lost", data_home=tmp_path),
        lambda: read_mat(tmp_path / "a.mat"),
    ):
        with pytest.raises(ImportError, match=r'pip install "sklearn-cleanse\[data\]"'):
            call()


# -- images -------------------------------------------------------------------------------------

PIXEL_MEANS = {"mnist": (33.318, 33.791), "fashion_mnist": (72.940, 73.147)}
TEST_COUNTS = {"mnist": [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]}


@pytest.mark.data
@pytest.mark.parametrize("name", PIXEL_MEANS)
def test_the_real_image_files_have_the_published_figures(name):
    need(IMAGE_SETS[name]["folder"])
    bunch = fetch_images(name, data_home=REAL, download_if_missing=False)
    assert (bunch.data.shape, bunch.data.dtype, bunch.n_train) == ((70_000, 784), np.uint8, 60_000)
    train, test = bunch.data[:60_000], bunch.data[60_000:]
    assert (round(train.mean(), 3), round(test.mean(), 3)) == PIXEL_MEANS[name]
    counts = np.bincount(bunch.target[:60_000]).tolist()
    assert counts == IMAGE_SETS[name]["train_counts"]
    test_counts = np.bincount(bunch.target[60_000:]).tolist()
    assert test_counts == TEST_COUNTS.get(name, [1000] * 10)


def idx(array):
    array = np.asarray(array, dtype=np.uint8)
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def write_idx(folder, seed=0, packed=True):
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    parts = {}
    for part, n in (("train", 7), ("t10k", 4)):
        images, labels = rng.integers(0, 256, (n, 28, 28)), rng.integers(0, 10, n)
        for name, array in (("images-idx3", images), ("labels-idx1", labels)):
            content = gzip.compress(idx(array)) if packed else idx(array)
            (folder / f"{part}-{name}-ubyte{'.gz' if packed else ''}").write_bytes(content)
        parts[part] = images, labels
    return parts


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("folder", ["mnist", "MNIST", "MNIST/raw"])
def test_idx_files_are_found_packed_or_not(tmp_path, folder, packed):
    parts = write_idx(tmp_path / folder, packed=packed)
    bunch = fetch_images("MNIST", data_home=tmp_path, download_if_missing=False)
    assert bunch.n_train == 7
    both = np.concatenate([parts["train"][0], parts["t10k"][0]])
    np.testing.assert_array_equal(bunch.data, both.reshape(11, 784))
    X, y = fetch_images("mnist", subset="test", as_images=True, data_home=tmp_path, return_X_y=True)
    np.testing.assert_array_equal(X, parts["t10k"][0])
    np.testing.assert_array_equal(y, parts["t10k"][1])
    assert "Terms of use" in bunch.DESCR


def test_sets_whose_files_have_the_same_names_are_not_mixed_up(tmp_path):
    write_idx(tmp_path / "mnist")
    fashion = write_idx(tmp_path / "FashionMNIST" / "raw", seed=1)
    X, _ = fetch_images("fashion mnist", subset="train", data_home=tmp_path, return_X_y=True)
    np.testing.assert_array_equal(X, fashion["train"][0].reshape(7, 784))
    inside, _ = fetch_images("mnist", data_home=tmp_path / "mnist", return_X_y=True)
    assert inside.shape == (11, 784)  # data_home may be the set's own folder
    for name in ("kmnist", "fashion_mnist", "cifar10"):
        with pytest.raises(FileNotFoundError, match="is missing in"):
            fetch_images(name, data_home=tmp_path / "mnist", download_if_missing=False)
    with pytest.raises(ValueError, match=r"`subset` must be .*, got 'valid'"):
        fetch_images("mnist", subset="valid", data_home=tmp_path)


IDX_DAMAGE = {
    "cut": (lambda raw: raw[:-5], "content is not the 5488 bytes"),
    "too long": (lambda raw: raw + b"x", "content is not the 5488 bytes"),
    "float": (lambda raw: raw[:2] + b"\x0d" + raw[3:], "header is not that of an idx file"),
    "packed": (gzip.compress, "Cannot read"),
    "fewer images": (lambda raw: idx(np.zeros((6, 28, 28))), "image per label, got 6, 7"),
    "other shape": (lambda raw: idx(np.zeros((7, 32, 32))), r"shape \(7, 28, 28\), got \(7, 32"),
    "packed, cut": (lambda raw: gzip.compress(raw)[:-20], "Replace the file"),
    "packed, flipped": (lambda raw: gzip.compress(raw)[:-8] + bytes(8), "Replace the file"),
    "a label of 10": (idx([0, 1, 2, 10, 4, 5, 6]), "must be 0 to 9, got 10 in row 3"),
}


@pytest.mark.parametrize("name", IDX_DAMAGE)
def test_damaged_idx_files_raise(tmp_path, name):
    change, message = IDX_DAMAGE[name]
    write_idx(tmp_path / "mnist", packed=False)
    path = tmp_path / "mnist" / "train-images-idx3-ubyte"
    if name.startswith("packed, "):
        path.with_suffix(".gz").write_bytes(change(path.read_bytes()))
        path.unlink()
    elif callable(change):
        path.write_bytes(change(path.read_bytes()))
    else:
        path.with_name("train-labels-idx1-ubyte").write_bytes(change)
    with pytest.raises(ValueError, match=message):
        fetch_images("mnist", data_home=tmp_path)


@pytest.mark.parametrize("name", IMAGE_SETS)
def test_openml_serves_where_files_are_missing(tmp_path, monkeypatch, name):
    record = IMAGE_SETS[name]
    n_train, n_pixels = sum(record["train_counts"]), np.prod(record["image_shape"])
    labels = np.concatenate([np.repeat(np.arange(10), record["train_counts"]), [3, 4]])
    pixels = np.broadcast_to(labels[:, None].astype(np.uint8), (n_train + 2, n_pixels))
    asked = []

    def fetch(openml_name, **options):
        asked.append((openml_name, options["version"], options["data_home"]))
        return Bunch(data=pixels, target=labels.astype(str).astype(object))

    monkeypatch.setattr(_images, "fetch_openml", fetch)
    X, y = fetch_images(name, subset="test", data_home=tmp_path, return_X_y=True, as_images=True)
    assert asked == [(record["openml"], 1, str(tmp_path))]
    assert X.shape == (2, *record["image_shape"])
    assert y.tolist() == [3, 4]
    labels[[0, -1]] = labels[[-1, 0]]  # rows in another order: the parts would be wrong
    with pytest.raises(ValueError, match="must be the training rows"):
        fetch_images(name, subset="test", data_home=tmp_path)
