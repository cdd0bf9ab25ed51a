"""The data of the experiments: name in, training and test rows out, the same ones for every method.

How rows are split, exactly:

- ``lost``, ``wine`` (real data and small ones): 90/10 by
  ``ShuffleSplit(1, test_size=0.1, random_state=seed)``.
- ``lost:fold0`` (the paper's split): fold 0 of ``KFold(5, shuffle=True, random_state=0)``, whatever
  the seed.
- ``segment:bag``, ``segment:bag:imbalanced`` (controlled): with "imbalanced", first
  ``long_tail_rows(y, 10, random_state=seed)``; then 90/10 as above, and of the training rows the
  first 2000 at most.
- Image sets: their own training and test part. Of the training part, the first ``train_size`` rows
  of ``RandomState(seed).permutation(n)``, or all in their order if ``train_size`` is None.

Candidates of sets that come without any are drawn by ``make_candidates(..., random_state=seed)``.
Those of an image set's or a controlled set's test rows, which only the label-free measures use, are
drawn apart, with ``seed + 1_000_000``.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.model_selection import KFold, ShuffleSplit

REAL = ("lost", "birdsong", "msrcv2", "soccer_player", "yahoo_news")
IMAGES = ("mnist", "kmnist", "fashion_mnist", "cifar10")

#: Sets that come with scikit-learn: the loader, and the rows at most.
SMALL = {
    "iris": ("load_iris", None),
    "wine": ("load_wine", None),
    "cancer": ("load_breast_cancer", 300),
    "digits": ("load_digits", 400),
}

#: Ordinary classification data, as ``dev/<name>.npz`` (X and y) in the data folder.
DEV = ("led7digit", "movement_libras", "satimage", "segment", "vehicle", "vowel")

#: Controlled experiments: sets, kinds of candidates, and class sizes.
CONTROLLED = (*DEV, "digits", "iris", "wine")
KINDS = ("flip", "uniform", "confusable", "instance", "bag", "dictionary")
BALANCES = ("balanced", "imbalanced")
FORMS = [(kind, balance) for kind in KINDS for balance in BALANCES]
CONTROLLED_ROWS = 2000
IMBALANCE = 10

DATASETS = (*REAL, *IMAGES, *SMALL, "digits_images", *DEV)


class Trial(NamedTuple):
    """The rows of one trial. True labels score; no estimator gets to see them."""

    X_train: np.ndarray
    S_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    S_test: np.ndarray
    y_test: np.ndarray


class AbsentData(Exception):
    """The data set is not on this machine."""


def controlled_name(dataset: str, kind: str, balance: str) -> str:
    """Return the name of a controlled experiment's data."""
    return f"{dataset}:{kind}" + ":imbalanced" * (balance == "imbalanced")


def controlled_parts(name: str) -> tuple[str, str, str] | None:
    """Return set, kind of candidates and balance of a controlled experiment; None for others."""
    dataset, kind, balance = [*name.split(":"), "balanced", ""][:3]
    known = dataset in CONTROLLED and kind in KINDS and balance in BALANCES
    return (dataset, kind, balance) if known else None


def load_trial(name, seed, *, train_size=None, data_home=None, download=False) -> Trial:
    """Load a data set and split it by a seed."""
    where = {"data_home": data_home, "download": download}
    if name in IMAGES or name == "digits_images":
        return _image_trial(*_load_images(name, **where), seed, train_size)
    controlled = controlled_parts(name)
    if controlled:
        dataset, kind, balance = controlled
        X, _, y = _load_rows(dataset, cut=False, **where)
        return _controlled_trial(X, y, kind, balance, seed, train_size)
    X, S, y = _load_rows(name.removesuffix(":fold0"), **where)
    if S is None:
        S = _candidates(y, "flip", seed)
    splitter = KFold(5, shuffle=True, random_state=0) if name.endswith(":fold0") else _split(seed)
    train, test = next(splitter.split(X))
    train = train[:train_size]
    return Trial(X[train], S[train], y[train], X[test], S[test], y[test])


def _split(seed):
    return ShuffleSplit(1, test_size=0.1, random_state=seed)


def _controlled_trial(X, y, kind, balance, seed, train_size) -> Trial:
    from sklearn_cleanse.datasets import long_tail_rows

    if balance == "imbalanced":
        rows = long_tail_rows(y, IMBALANCE, random_state=seed)
        X, y = X[rows], y[rows]
    train, test = next(_split(seed).split(X))
    train = train[: min(CONTROLLED_ROWS, train_size or CONTROLLED_ROWS)]
    known = {"X": X[train], "classes": np.unique(y)}
    S_train = _candidates(y[train], kind, seed, **known)
    S_test = _candidates(y[test], kind, seed + 1_000_000, **known | {"X": X[test]})
    return Trial(X[train], S_train, y[train], X[test], S_test, y[test])


def _image_trial(X, y, n_train, seed, train_size) -> Trial:
    S_train = _candidates(y[:n_train], "uniform", seed)
    S_test = _candidates(y[n_train:], "uniform", seed + 1_000_000)
    rows = np.arange(n_train)
    if train_size is not None and train_size < n_train:
        rows = np.random.RandomState(seed).permutation(n_train)[:train_size]
    return Trial(X[rows], S_train[rows], y[rows], X[n_train:], S_test, y[n_train:])


def check_present(name, **where) -> None:
    """Raise `AbsentData` if a data set cannot be loaded here."""
    if name in IMAGES or name == "digits_images":
        _load_images(name, **where)
    else:
        controlled = controlled_parts(name)
        _load_rows(controlled[0] if controlled else name.removesuffix(":fold0"), **where)


def _candidates(y, kind, seed, **known):
    from sklearn_cleanse.datasets import make_candidates

    return make_candidates(y, kind, flip_proba=0.3, random_state=seed, **known)


def _load_rows(name, *, data_home=None, download=False, cut=True):
    """Return features, candidates (None if there are none) and true labels."""
    if name in REAL:
        from sklearn_cleanse.datasets import load_pll

        try:
            return load_pll(
                name, data_home=data_home, download_if_missing=download, return_X_S_y=True
            )
        except OSError as error:
            raise AbsentData(str(error)) from error
    if name in SMALL:
        loader, most = SMALL[name]
        X, y = getattr(importlib.import_module("sklearn.datasets"), loader)(return_X_y=True)
        rows = np.random.RandomState(0).permutation(len(X))[: most if cut else None]
        return X[rows], None, y[rows]
    if name in DEV:
        home = data_home or os.environ.get("SKLEARN_CLEANSE_DATA", "~/scikit_learn_data")
        path = Path(home).expanduser() / "dev" / f"{name}.npz"
        if not path.exists():
            raise AbsentData(f"{path} is missing: an .npz file with X and y")
        with np.load(path) as arrays:
            return arrays["X"].astype(float), None, np.unique(arrays["y"], return_inverse=True)[1]
    if ":" in name:  # a user's own: a function that returns X, S, y, or X, y
        parts = import_object(name)()
        return parts if len(parts) == 3 else (parts[0], None, parts[1])
    raise SystemExit(
        f"data set {name!r} is not known; there are {', '.join(DATASETS)}, or name a function that "
        "returns X, S, y as module:function"
    )


def _load_images(name, *, data_home=None, download=False):
    """Return images, true labels, and the number of training images."""
    if name == "digits_images":  # scikit-learn's own, in place of a set of 70,000
        X, _, y = _load_rows("digits", cut=False)
        return X.astype(np.uint8), y, 1500
    from sklearn_cleanse.datasets import load_images

    try:
        bunch = load_images(
            name, as_images=name == "cifar10", data_home=data_home, download_if_missing=download
        )
    except OSError as error:
        raise AbsentData(str(error)) from error
    return bunch.data, bunch.target, bunch.n_train


def import_object(path: str):
    """Import ``package.module.Name`` or ``module:name``, or raise an ImportError with a remedy."""
    module, _, name = path.partition(":") if ":" in path else path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ImportError(
            f"{path!r} cannot be imported ({error}); write package.module.Class or "
            "module:function, with the module in the current folder or on PYTHONPATH"
        ) from error
