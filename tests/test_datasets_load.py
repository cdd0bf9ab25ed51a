"""fetch_pll: names, places, the real files' figures, and downloads from a loopback server."""

import contextlib
import errno
import hashlib
import http.server
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from conftest import REAL, need
from sklearn.model_selection import KFold

from sklearn_cleanse import datasets
from sklearn_cleanse.datasets import _pll as pll_module
from sklearn_cleanse.datasets import describe, fetch_pll, read_mat
from sklearn_cleanse.datasets._catalogue import IMAGE_SETS, PLL_SETS
from sklearn_cleanse.datasets._fetch import digest_of

HERE = Path(__file__).resolve().parent

# The rows of data/README.md's table and of the paper's: samples, features, classes, mean
# candidates, clean rows, clean rows and rows of fold 0's training part, published mean and rate,
# largest set, classes never true, duplicates.
TABLE = {
    "lost": (1122, 108, 16, 2.2317, 67, 56, 897, "2.23", "6.24%", 3, (14, 15), 0),
    "birdsong": (4998, 38, 13, 2.1755, 1632, 1328, 3998, "2.18", "33.22%", 4, (), 0),
    "msrcv2": (1758, 48, 23, 3.1564, 140, 106, 1406, "3.16", "7.54%", 7, (), 5),
}


@pytest.mark.parametrize("name", TABLE)
def test_the_table_of_characteristics_comes_back(name):
    n, d, m, mean, clean, fold_clean, fold_n, paper_mean, rate, largest, never, twice = TABLE[name]
    need("pll", PLL_SETS[name].filename)
    bunch = fetch_pll(name, data_home=REAL, download_if_missing=False)
    whole = describe(bunch)
    assert (whole.n_samples, whole.n_features, whole.n_classes) == (n, d, m)
    assert round(whole.mean_candidates, 4) == mean
    assert whole.n_clean == clean
    assert whole.max_candidates == largest
    assert whole.never_true == never
    assert whole.n_duplicates == twice
    assert whole.noise_rate == 0
    train, _ = bunch.cv[0]
    fold = describe(bunch.candidates[train], bunch.target[train], X=bunch.data[train])
    assert (fold.n_clean, fold.n_samples) == (fold_clean, fold_n)
    assert f"{whole.mean_candidates:.2f}" == paper_mean
    assert f"{fold.clean_rate:.2%}" == rate
    assert rate in str(fold).split()
    assert f"{n:,}" in str(whole).split()
    assert str(whole).splitlines()[2].startswith(PLL_SETS[name].title)


@pytest.mark.parametrize("name", TABLE)
def test_the_real_files_are_the_catalogue_s(name):
    path = need("pll", PLL_SETS[name].filename)
    assert digest_of(path, "sha256") == PLL_SETS[name].digest
    stored = scipy.io.loadmat(path)
    X, S, y = fetch_pll(name, data_home=REAL, return_X_S_y=True)
    np.testing.assert_array_equal(X, stored["data"])
    np.testing.assert_array_equal(S, stored["partial_target"].toarray().T)
    np.testing.assert_array_equal(y, stored["target"].toarray().argmax(axis=0))


@pytest.mark.parametrize("name", ["lost", "msrcv2"])
def test_the_stored_folds_are_those_of_seed_zero(name):
    filename = PLL_SETS[name].filename
    need("pll", filename)
    five = read_mat(need("pll", "folds5", filename))
    splits = KFold(5, shuffle=True, random_state=0).split(five.data)
    for (train, test), (train_, test_) in zip(five.cv, splits, strict=True):
        np.testing.assert_array_equal(train, train_)
        np.testing.assert_array_equal(test, test_)
    plain = fetch_pll(name, data_home=REAL)
    np.testing.assert_array_equal(five.candidates, plain.candidates)
    np.testing.assert_array_equal(five.target, plain.target)
    np.testing.assert_array_equal(five.cv[0][0], plain.cv[0][0])


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
    record = replace(PLL_SETS["soccer_player"], shape=(30, 6, 4), digest="git:" + blob)
    monkeypatch.setitem(pll_module.PLL_SETS, "soccer_player", record)
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
    home = tmp_path / "home"
    with server(small) as (url, asked):
        monkeypatch.setenv("SKLEARN_CLEANSE_MIRROR", url)
        first = fetch_pll("Soccer Player", data_home=home)
        second = fetch_pll("soccer-player", data_home=home)
    repo, commit, path = PLL_SETS["soccer_player"].sources[0]
    assert asked == [f"/{repo}/{commit}/{path}"]
    assert len(commit) == 40
    assert first.data.shape == (30, 6)
    np.testing.assert_array_equal(first.candidates, second.candidates)
    assert files_in(home) == ["pll/Soccer Player.mat"]
    assert (home / "pll" / "Soccer Player.mat").read_bytes() == small


@pytest.mark.parametrize("how", ["flipped", "cut", "emptied"])
@pytest.mark.parametrize("name", ["soccer_player", "fg_net"])
def test_a_file_damaged_after_its_download_is_refused(small, tmp_path, monkeypatch, name, how):
    record = replace(PLL_SETS["fg_net"], shape=(30, 6, 4))
    monkeypatch.setitem(pll_module.PLL_SETS, "fg_net", record)  # no checksum is published
    path = tmp_path / "pll" / PLL_SETS[name].filename
    with server(small) as (url, asked):
        monkeypatch.setenv("SKLEARN_CLEANSE_MIRROR", url)
        fetch_pll(name, data_home=tmp_path)
        flipped = bytearray(small)
        flipped[len(small) // 2 if name == "soccer_player" else 130] ^= 1
        damaged = {"flipped": flipped, "cut": small[:-100], "emptied": b""}[how]
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"Remove this file") as caught:
            fetch_pll(name, data_home=tmp_path)
        assert repr(str(path)) in str(caught.value)
        assert len(asked) == 1
        path.unlink()
        assert fetch_pll(name, data_home=tmp_path).data.shape == (30, 6)


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
    assert len(asked) == 2
    assert asked[1].endswith("/Soccer Player.mat")


FAILURES = {
    "wrong checksum": ({"extra": b"x"}, "not the expected one"),
    "web page": ({"page": b"<html>sorry</html>"}, "not the expected one"),
    "cut connection": ({"cut": -100}, "Soccer Player"),
    "server error": ({"status": 500}, "500"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failed_download_leaves_nothing_behind(small, tmp_path, monkeypatch, name):
    how, message = FAILURES[name]
    how = dict(how)
    content = how.pop("page", small + how.pop("extra", b""))
    with server(content, **how) as (url, _):
        monkeypatch.setenv("SKLEARN_CLEANSE_MIRROR", url)
        with pytest.raises(OSError, match=message) as caught:
            fetch_pll("soccer_player", data_home=tmp_path)
    assert repr("Soccer Player.mat") in str(caught.value)  # what to put
    assert repr(str(tmp_path / "pll")) in str(caught.value)  # where
    assert files_in(tmp_path) == []
    with pytest.raises(FileNotFoundError):
        fetch_pll("soccer_player", data_home=tmp_path, download_if_missing=False)


def test_a_set_without_checksum_is_read_before_it_is_kept(small, tmp_path, monkeypatch):
    record = replace(PLL_SETS["fg_net"], shape=(30, 6, 5))
    monkeypatch.setitem(pll_module.PLL_SETS, "fg_net", record)
    with server(small) as (url, _):
        monkeypatch.setenv("SKLEARN_CLEANSE_MIRROR", url)
        with pytest.raises(OSError, match=r"not FG-NET.*\(30, 6, 4\), expected \(30, 6, 5\)"):
            fetch_pll("fg_net", data_home=tmp_path)
    assert files_in(tmp_path) == []


def test_offline_says_what_to_put_where(small, tmp_path, monkeypatch):
    monkeypatch.setenv("SKLEARN_CLEANSE_MIRROR", "http://127.0.0.1:9")  # nobody listens there
    with pytest.raises(OSError, match=r"put the file 'Soccer Player.mat' into"):
        fetch_pll("soccer_player", data_home=tmp_path)
    assert files_in(tmp_path) == []


READ_ONLY = ["read-only file system", "a file in the way"]
READ_ONLY += ["no permission"] if os.geteuid() else []  # root may write anywhere


@pytest.mark.parametrize("why", READ_ONLY)
def test_a_cache_that_cannot_be_written_is_named(small, tmp_path, monkeypatch, why):
    home = tmp_path / "home"
    home.mkdir()
    if why == "no permission":
        home.chmod(0o500)
    elif why == "a file in the way":
        (home / "pll").write_text("")
    else:

        def refuse(*args, **kwargs):
            raise OSError(errno.EROFS, "Read-only file system")

        monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    with server(small) as (url, asked):
        monkeypatch.setenv("SKLEARN_CLEANSE_MIRROR", url)
        with pytest.raises(OSError, match=r"cannot write to .*pass another data_home"):
            fetch_pll("soccer_player", data_home=home)
    assert asked == []


def test_two_processes_at_once_both_succeed(small, tmp_path):
    home = tmp_path / "home"
    code = """if True:
        import sys
        from dataclasses import replace
        from sklearn_cleanse.datasets import _pll
        old = _pll.PLL_SETS["soccer_player"]
        new = replace(old, shape=(30, 6, 4), digest=sys.argv[2])
        _pll.PLL_SETS["soccer_player"] = new
        X, S, y = _pll.fetch_pll("soccer_player", data_home=sys.argv[1], return_X_S_y=True)
        sys.exit(X.shape != (30, 6))
    """
    digest = pll_module.PLL_SETS["soccer_player"].digest
    with server(small, slow=1.0) as (url, asked):
        env = {**os.environ, "SKLEARN_CLEANSE_MIRROR": url}
        command = [sys.executable, "-c", code, str(home), digest]
        running = [subprocess.Popen(command, env=env) for _ in range(2)]
        assert [process.wait(60) for process in running] == [0, 0]
    assert 1 <= len(asked) <= 2
    assert files_in(home) == ["pll/Soccer Player.mat"]


def test_data_home_is_the_argument_then_ours_then_scikit_learn_s(small, tmp_path, monkeypatch):
    places = [tmp_path / name for name in ("argument", "ours", "sklearn")]
    monkeypatch.setenv("SKLEARN_CLEANSE_DATA", str(places[1]))
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(places[2]))
    for place in places:
        place.mkdir()
        (place / "soccer.mat").write_bytes(small)  # any of its names, at the top too
    found = [Path(fetch_pll("soccer player", data_home=places[0]).filename).parent]
    found.append(Path(fetch_pll("soccer player").filename).parent)
    monkeypatch.delenv("SKLEARN_CLEANSE_DATA")
    found.append(Path(fetch_pll("soccer player").filename).parent)
    assert found == places


def test_another_set_under_the_name_is_refused(small, tmp_path):
    (tmp_path / "Lost.mat").write_bytes(small)
    with pytest.raises(ValueError, match=r"is not Lost.*sha256:.*Remove this file"):
        fetch_pll("lost", data_home=tmp_path)


@pytest.mark.parametrize("name", ["LOST", "Bird Song", "MSRC-v2", "Yahoo! News", "yahoo", "FG-NET"])
def test_names_are_forgiving(name, tmp_path):
    with pytest.raises(FileNotFoundError, match="put the file"):
        fetch_pll(name, data_home=tmp_path, download_if_missing=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "meant"), [("lots", "lost"), ("socer", "soccer_player"), ("yaho news", "yahoo_news")]
)
def test_wrong_names_are_answered_by_the_right_one(name, meant):
    with pytest.raises(ValueError, match=f"did you mean '{meant}'"):
        fetch_pll(name)


def test_names_of_no_set_list_all():
    for name in ("qqq", 7):
        with pytest.raises(ValueError, match="'lost', 'birdsong', 'msrcv2', 'soccer_player'"):
            fetch_pll(name)


def test_the_old_names_are_the_same_functions():
    assert datasets.load_pll is datasets.fetch_pll
    assert datasets.load_images is datasets.fetch_images


def test_terms_of_use_are_stated(small, tmp_path):
    (tmp_path / "soccer.mat").write_bytes(small)
    descr = fetch_pll("soccer", data_home=tmp_path).DESCR
    assert "Terms of use" in descr
    assert "academic purposes only" in descr
    assert all(record.terms and record.citation for record in PLL_SETS.values())
    assert all(record.terms and record.citation for record in IMAGE_SETS.values())


@pytest.mark.parametrize("missing", ["pooch", "h5py", "pandas"])
def test_a_missing_extra_is_named(small, tmp_path, monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    (tmp_path / "soccer.mat").write_bytes(small)
    (tmp_path / "a.mat").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(600))
    needing = {
        "pooch": lambda: fetch_pll("soccer", data_home=tmp_path / "elsewhere"),
        "h5py": lambda: read_mat(tmp_path / "a.mat"),
        "pandas": lambda: fetch_pll("soccer", data_home=tmp_path, as_frame=True),
    }
    with pytest.raises(ImportError, match=r'pip install "sklearn-cleanse\[data\]"'):
        needing[missing]()


def test_the_page_on_data_runs(tmp_path, monkeypatch):
    """Blocks marked ``python`` run as they stand; those marked ``py`` need files."""
    monkeypatch.chdir(tmp_path)
    page = (HERE.parent / "docs" / "data.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S)
    assert len(blocks) >= 5
    names = {}
    for block in blocks:
        exec(block, names)
    assert names["S"].shape == (500, 5)
