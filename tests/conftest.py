import os
from pathlib import Path

# Before scipy is imported: scikit-learn's array API checks are skipped without it.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

import numpy as np
import pytest
import sklearn
import torch

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


def make_blobs(n_samples=120, n_classes=3, flip=0.4, seed=0):
    rng = np.random.RandomState(seed)
    y = np.arange(n_samples) % n_classes
    centres = 4 * np.eye(n_classes, 4)
    X = centres[y] + rng.normal(size=(n_samples, 4))
    S = rng.uniform(size=(n_samples, n_classes)) < flip
    S[np.arange(n_samples), y] = True
    return X, S.astype(int), y


def real_data_folder():
    """Where the field's data sets are, if they are anywhere: beside the checkout, or named."""
    beside = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("SKLEARN_CLEANSE_DATA", beside))
    return folder if folder.is_dir() else None
