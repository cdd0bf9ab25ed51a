"""The data of the experiments: name in, training and test rows out, the same ones for every method.

How rows are split, exactly:

- Real data and small ones: ``ShuffleSplit(1, test_size=0.1, random_state=seed)``.
- Image sets: their own training and test part. Of the training part, the first ``train_size`` rows
  of ``RandomState(seed).permutation(n)``, or all in their order if ``train_size`` is None.

Candidates of sets that come without any are drawn by ``make_candidates(..., random_state=seed)``
(those of an image set's test rows, for the label-free measures, with ``seed + 1_000_000``).
"""

from __future__ import annotations

import importlib
from typing import NamedTuple

import numpy as np
from sklearn.model_selection import ShuffleSplit

REAL = ("lost", "birdsong", "msrcv2", "soccer_player", "yahoo_news")
IMAGES = ("mnist", "kmnist", "fashion_mnist", "cifar10")

#: Sets that come with scikit-learn: the loader, and the rows at most.
SMALL = {
    "iris": ("load_iris", None),
    "wine": ("load_wine", None),
    "cancer": ("load_breast_cancer", 300),
    "digits": ("load_digits", 400),
}

#: Generated data of the shape of sets that cannot be distributed: samples, features, classes, the
#: clean rate, and the flip probability that gives the mean number of candidates.
SHAPES = {
    "soccer_shape": (17472, 279, 171, 0.3045, 0.0058),
    "yahoo_shape": (22991, 163, 219, 0.2899, 0.0024),
}

DATASETS = (*REAL, *IMAGES, *SMALL, *SHAPES, "digits_images")


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


def load_trial(name, seed, *, train_size=None, data_home=None, download=False) -> Trial:
    """Load a data set and split it by a seed."""
    if name in IMAGES or name == "digits_images":
        return _image_trial(name, seed, train_size, data_home, download)
    X, S, y = _load_rows(name, data_home, download)
    if S is None:
        S = _candidates(y, "flip", seed)
    train, test = next(ShuffleSplit(1, test_size=0.1, random_state=seed).split(X))
    if train_size is not None:
        train = train[:train_size]
    return Trial(X[train], S[train], y[train], X[test], S[test], y[test])


def check_present(name, *, data_home=None, download=False) -> None:
    """Raise `AbsentData` if a data set cannot be loaded here."""
    if name in IMAGES or name == "digits_images":
        _load_images(name, data_home, download)
    else:
        _load_rows(name, data_home, download)


def _candidates(y, kind, seed):
    from sklearn_cleanse.datasets import make_candidates

    return make_candidates(y, kind, flip_proba=0.3, random_state=seed)


def _load_rows(name, data_home, download):
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
        rows = np.random.RandomState(0).permutation(len(X))[:most]
        return X[rows], None, y[rows]
    if name in SHAPES:
        from sklearn_cleanse.datasets import make_partial_classification

        n, d, m, clean_rate, flip_proba = SHAPES[name]
        return make_partial_classification(
            n, d, m, clean_rate=clean_rate, flip_proba=flip_proba, random_state=0
        )
    if ":" in name:  # a user's own: a function that returns X, S, y, or X, y
        parts = import_object(name)()
        return parts if len(parts) == 3 else (parts[0], None, parts[1])
    raise SystemExit(
        f"data set {name!r} is not known; there are {', '.join(DATASETS)}, or name a function that "
        "returns X, S, y as module:function"
    )


def _load_images(name, data_home, download):
    if name == "digits_images":  # scikit-learn's own, in place of a set of 70,000
        from sklearn.datasets import load_digits

        X, y = load_digits(return_X_y=True)
        rows = np.random.RandomState(0).permutation(len(X))
        return X[rows].astype(np.uint8), y[rows], 1500
    from sklearn_cleanse.datasets import load_images

    try:
        bunch = load_images(
            name, as_images=name == "cifar10", data_home=data_home, download_if_missing=download
        )
    except OSError as error:
        raise AbsentData(str(error)) from error
    return bunch.data, bunch.target, bunch.n_train


def _image_trial(name, seed, train_size, data_home, download) -> Trial:
    X, y, n_train = _load_images(name, data_home, download)
    S_train = _candidates(y[:n_train], "uniform", seed)
    S_test = _candidates(y[n_train:], "uniform", seed + 1_000_000)
    rows = np.arange(n_train)
    if train_size is not None and train_size < n_train:
        rows = np.random.RandomState(seed).permutation(n_train)[:train_size]
    return Trial(X[rows], S_train[rows], y[rows], X[n_train:], S_test, y[n_train:])


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
