import os
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
NOT_HERE = "needs a data set that is not here"


def need(*parts):
    """Return a path within the real data; a test that needs it and has it not is counted below."""
    path = REAL.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"{NOT_HERE}: {path}")
    return path


def pytest_terminal_summary(terminalreporter, config):
    skipped = terminalreporter.stats.get("skipped", ())
    count = sum(NOT_HERE in str(report.longrepr) for report in skipped)
    if count:
        needing = "1 test needs" if count == 1 else f"{count} tests need"
        terminalreporter.write_line(f"{needing} data sets that are not here: {REAL}", yellow=True)
    if config.option.markexpr == "not slow":
        files = Path(__file__).parent.glob("test_*.py")
        texts = [path.read_text(encoding="utf-8") for path in files]
        count = sum(text.count("@pytest.mark.slow") for text in texts)
        terminalreporter.write_line(f"{count} slow test functions were left out: nox -s slow")
