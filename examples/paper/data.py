"""The data of the experiments: name in, training and test rows out, the same rows for each method.

Names and splits:

- ``lost``: 90/10 by ``ShuffleSplit(1, test_size=0.1, random_state=seed)``.
- ``lost:fold0``, the paper's split: fold 0 of ``KFold(5, shuffle=True, random_state=0)``.
- ``birdsong:80/20``: 80/20, features scaled to 0 to 1 on the training rows.
- ``segment:bag:long-tailed``, controlled: ``long_tail_rows(y, 10, random_state=seed)`` if
  long-tailed; 90/10 as above; the first 2,000 training rows at most; then candidates of the
  training rows by ``make_candidates(y, "bag", flip_proba=0.3, X=X, random_state=seed)``.
- ``lexicon``: generated words and their tags, by `make_lexicon`; 90/10.
- ``mnist``: the set's own training and test part, uniform candidates. With ``train_size``, the
  first rows of ``RandomState(seed).permutation(n)``. Of Kuzushiji-MNIST only 10,000 images are
  used: 8,000 of that permutation train, the others test.
"""

import gzip
import importlib
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.model_selection import KFold, ShuffleSplit
from sklearn.preprocessing import MinMaxScaler

REAL = ("lost", "birdsong", "msrcv2", "soccer_player", "yahoo_news")
#: Sets of the paper whose files were not available.
ABSENT = ("soccer_player", "yahoo_news")
MNISTS = ("mnist", "kmnist", "fashion_mnist")
IMAGES = (*MNISTS, "cifar10")
DEV = ("led7digit", "movement_libras", "satimage", "segment", "vehicle", "vowel")
CONTROLLED = (*DEV, "digits")
BUNDLED = ("digits", "iris", "wine")
SOURCES = ("uniform", "flip", "class-dependent", "instance-dependent", "bag", "lexicon")
BALANCES = ("balanced", "long-tailed")
DATASETS = (*REAL, *IMAGES, *DEV, *BUNDLED, "lexicon")
CONTROLLED_ROWS = 2000
IMBALANCE = 10

_SET_NAMES = {"lost": "Lost", "birdsong": "BirdSong", "msrcv2": "MSRCv2", "mnist": "MNIST"}
_SET_NAMES |= {"soccer_player": "Soccer Player", "yahoo_news": "Yahoo! News"}
_SET_NAMES |= {"kmnist": "Kuzushiji-MNIST", "fashion_mnist": "Fashion-MNIST", "cifar10": "CIFAR-10"}


class Trial(NamedTuple):
    """The rows of one trial. True labels score; no estimator sees them."""

    X_train: np.ndarray
    S_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


class AbsentData(Exception):
    """The data set is not on this machine."""


def set_name(dataset: str) -> str:
    """Return the name of a data set as tables print it."""
    base = dataset.partition(":")[0]
    return _SET_NAMES.get(base, base)


def load_trial(name, seed, *, train_size=None, data_home=None, download=False) -> Trial:
    """Load a data set and split it by a seed."""
    base, *form = name.split(":")
    if base in IMAGES:
        return _image_trial(*load_images(base, data_home, download), seed, train_size)
    if base == "lexicon":
        return _lexicon_trial(seed)
    if len(form) == 2 and form[0] in SOURCES and form[1] in BALANCES:
        X, _, y = load_rows(base, data_home, download)
        return _controlled_trial(X, y, *form, seed, train_size)
    split = "".join(form) if form in (["fold0"], ["80/20"]) else ""
    X, S, y = load_rows(base if split else name, data_home, download)
    fifths = KFold(5, shuffle=True, random_state=0)
    splitter = fifths if split == "fold0" else _split(seed, 0.2 if split else 0.1)
    train, test = next(splitter.split(X))
    train = train[:train_size]
    X = MinMaxScaler().fit(X[train]).transform(X) if split == "80/20" else X
    return Trial(X[train], S[train], y[train], X[test], y[test])


def _split(seed, test_size=0.1):
    return ShuffleSplit(1, test_size=test_size, random_state=seed)


def _controlled_trial(X, y, source, balance, seed, train_size) -> Trial:
    from sklearn_cleanse.datasets import long_tail_rows, make_candidates

    if balance == "long-tailed":
        rows = long_tail_rows(y, IMBALANCE, random_state=seed)
        X, y = X[rows], y[rows]
    train, test = next(_split(seed).split(X))
    train = train[: min(CONTROLLED_ROWS, train_size or CONTROLLED_ROWS)]
    options = {"flip_proba": 0.3, "X": X[train], "classes": np.unique(y), "random_state": seed}
    S = make_candidates(y[train], source, **options)
    return Trial(X[train], S, y[train], X[test], y[test])


def _lexicon_trial(seed) -> Trial:
    from sklearn_cleanse.datasets import make_lexicon

    X, S, y = make_lexicon(2000, random_state=seed)
    train, test = next(_split(seed).split(X))
    return Trial(X[train], S[train], y[train], X[test], y[test])


def _image_trial(X, y, n_train, seed, train_size) -> Trial:
    from sklearn_cleanse.datasets import make_candidates

    rows, test = np.arange(n_train), np.arange(n_train, len(X))
    if n_train == len(X):  # no test part of its own
        order = np.random.RandomState(seed).permutation(n_train)
        rows, test = order[: n_train * 4 // 5], order[n_train * 4 // 5 :]
    elif train_size is not None and train_size < n_train:
        rows = np.random.RandomState(seed).permutation(n_train)[:train_size]
    S = make_candidates(y[rows], "uniform", classes=np.arange(10), random_state=seed)
    return Trial(X[rows], S, y[rows], X[test], y[test])


def load_rows(name, data_home=None, download=False):
    """Return features, candidates (None if there are none) and true labels."""
    if name in REAL:
        from sklearn_cleanse.datasets import fetch_pll

        options = {"download_if_missing": download, "return_X_S_y": True}
        return _present(fetch_pll, name, data_home=data_home, **options)
    if name in BUNDLED:
        loaders = importlib.import_module("sklearn.datasets")
        X, y = getattr(loaders, f"load_{name}")(return_X_y=True)
        return X, None, y
    if name in DEV:
        with _present(np.load, _home(data_home) / "dev" / f"{name}.npz") as arrays:
            return arrays["X"].astype(float), None, np.unique(arrays["y"], return_inverse=True)[1]
    if ":" in name:  # a user's own: a function that returns X, S, y
        return import_object(name)()
    raise SystemExit(
        f"`--dataset` must be one of {', '.join(DATASETS)}, or module:function that returns "
        f"X, S, y; got {name!r}."
    )


def load_images(name, data_home=None, download=False):
    """Return images, true labels, and the number of training images."""
    if name == "cifar10":
        from cifar10 import load_cifar10

        return _present(load_cifar10, data_home)
    if name == "kmnist":
        paths = _home(data_home) / "kmnist-10k" / "t10k-{}-idx{}-ubyte.gz"
        parts = [str(paths).format(*part) for part in (("images", 3), ("labels", 1))]
        images, labels = (_present(gzip.open, path).read() for path in parts)
        X = np.frombuffer(images, np.uint8, offset=16).reshape(-1, 784)
        return X, np.frombuffer(labels, np.uint8, offset=8).astype(int), len(X)
    from sklearn_cleanse.datasets import fetch_images

    bunch = _present(fetch_images, name, data_home=data_home, download_if_missing=download)
    return bunch.data, bunch.target, bunch.n_train


def _home(data_home) -> Path:
    home = data_home or os.environ.get("SKLEARN_CLEANSE_DATA", "~/scikit_learn_data")
    return Path(home).expanduser()


def _present(load, *args, **options):
    """Load, or raise `AbsentData` where files are missing."""
    try:
        return load(*args, **options)
    except OSError as error:
        raise AbsentData(str(error)) from error


def import_object(path: str):
    """Import ``package.module.Name`` or ``module:name``, or exit with a remedy."""
    module, _, name = path.partition(":") if ":" in path else path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise SystemExit(
            f"{path!r} cannot be imported ({error}). Write package.module.Class or "
            "module:function, with the module in the current folder or on PYTHONPATH."
        ) from error
