import os
import sys
from collections import Counter
from pathlib import Path

# Before scipy is imported: scikit-learn's array API checks are skipped without it.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

import numpy as np
import pytest
import sklearn
import torch
from sklearn.datasets import load_digits

from sklearn_cleanse.datasets import make_candidates

# Workers run side by side: more threads than cores would only slow each other down.
torch.set_num_threads(1)


@pytest.fixture
def rng():
    return np.random.RandomState(0)


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.fixture
def blobs():
    """Three well separated classes in four dimensions, with candidates: X, S, y."""
    return make_blobs()


@pytest.fixture(scope="session")
def digits():
    """Four hundred digits with candidates, and as many new ones: X, S, y, X_new, y_new."""
    X, y = load_digits(return_X_y=True)
    S = make_candidates(y, "flip", flip_proba=0.3, random_state=0)
    return X[:400], S[:400], y[:400], X[400:800], y[400:800]


def make_blobs(n_samples=120, n_classes=3, flip=0.4, seed=0):
    rng = np.random.RandomState(seed)
    y = np.arange(n_samples) % n_classes
    centres = 4 * np.eye(n_classes, 4)
    X = centres[y] + rng.normal(size=(n_samples, 4))
    S = rng.uniform(size=(n_samples, n_classes)) < flip
    S[np.arange(n_samples), y] = True
    return X, S.astype(int), y


# Where the field's data sets are, if anywhere: in the folder named, or beside the checkout.
REAL = Path(os.environ.get("SKLEARN_CLEANSE_DATA", Path(__file__).parents[2] / "shared" / "data"))


def need(*parts):
    """Return a path within the real data; a test that needs it and has it not is counted below."""
    path = REAL.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"needs a data set that is not here: {path}")
    return path


# What tests call, by functions or fixtures, and this platform lacks; they are marked `elsewhere`.
LACKING = {"chmod", "mkfifo", "symlink_to", "ranks"} if sys.platform == "win32" else set()
if np.finfo(np.longdouble).eps == np.finfo(float).eps:  # Windows and Macs
    LACKING |= {"longdouble", "pmf"}
LEFT_OUT = Counter()  # tests by their marks


def pytest_itemcollected(item):
    if LACKING & {*getattr(item, "function", need).__code__.co_names, *item.fixturenames}:
        item.add_marker("elsewhere")


def pytest_deselected(items):
    LEFT_OUT.update(mark.name for item in items for mark in item.iter_markers())


def pytest_sessionfinish(session):  # in a worker of pytest-xdist; all leave out the same tests
    getattr(session.config, "workeroutput", {})["left_out"] = dict(LEFT_OUT)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    dict.update(LEFT_OUT, getattr(node, "workeroutput", {}).get("left_out", {}))


def pytest_terminal_summary(terminalreporter):
    skipped = terminalreporter.stats.get("skipped", ())
    LEFT_OUT["data"] = sum("data" in report.keywords for report in skipped)
    for mark in filter(LEFT_OUT.get, ("slow", "elsewhere", "data")):  # `pytest --markers` explains
        terminalreporter.write_line(f"{LEFT_OUT[mark]} tests left out: {mark}", yellow=True)
