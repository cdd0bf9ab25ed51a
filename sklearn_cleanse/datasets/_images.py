"""Image benchmarks without candidates: idx files, or OpenML."""

import gzip
import math
import os
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import fetch_openml
from sklearn.utils import Bunch

from ._catalogue import Record, find_record, names_of, plain
from ._fetch import data_folder, find_file

_IDX_PARTS = {"train": "train", "test": "t10k"}
_Part = tuple[np.ndarray, np.ndarray]  # images and labels


def fetch_images(
    name: str,
    *,
    subset: str = "all",
    as_images: bool = False,
    data_home: str | os.PathLike[str] | None = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
) -> Any:
    """Return an image benchmark, for `make_candidates` to add candidates to.

    The sets are "mnist", "fashion_mnist", "kuzushiji_mnist" and "cifar10". The first three are read
    from idx files in ``data_home``, in a folder named after the set: ``train-images-idx3-ubyte.gz``
    and its three companions (packed or not; also in torchvision's ``MNIST/raw``). If they are
    missing, and for "cifar10", `sklearn.datasets.fetch_openml` downloads the set.

    Parameters
    ----------
    name : str
        The set's name; case, spaces and punctuation do not matter.
    subset : {"all", "train", "test"}, default="all"
        The rows to return; all are the training rows followed by the test rows.
    as_images : bool, default=False
        Whether the images keep their shape: (28, 28), or (3, 32, 32) for CIFAR-10, channels
        first. Otherwise each is a flat row.
    data_home : str or path-like, default=None
        The folder with the data. If None, the environment variable SKLEARN_CLEANSE_DATA names it,
        and if that is not set, it is scikit-learn's data home, usually ``~/scikit_learn_data``.
    download_if_missing : bool, default=True
        Whether to download missing files from OpenML. If False, missing files raise an error.
    return_X_y : bool, default=False
        Whether to return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        With these entries, or, if ``return_X_y`` is True, the first two as a tuple:

        data : ndarray of shape (n_samples, n_pixels) or (n_samples, \\*image_shape), dtype uint8
            Pixels, 0 to 255.
        target : ndarray of shape (n_samples,)
            True labels, 0 to 9.
        target_names : ndarray of str of shape (10,)
            What the labels mean.
        n_train : int
            How many of the rows returned are training rows; they come first.
        DESCR : str
            What the data are, and their terms of use.

    Raises
    ------
    ValueError
        If the name is unknown, or a file is damaged.
    FileNotFoundError
        If files are missing and ``download_if_missing`` is False.
    OSError
        If the download from OpenML fails.

    Examples
    --------
    ``X, y = fetch_images("mnist", return_X_y=True)`` and ``S = make_candidates(y)`` make a
    benchmark.

    >>> from sklearn_cleanse.datasets import fetch_images
    >>> fetch_images("fashion mist")
    Traceback (most recent call last):
    ...
    ValueError: `name` must be one of 'mnist', ... Did you mean 'fashion_mnist'?
    """
    key, record = find_record(name, "images")
    if subset not in ("all", "train", "test"):
        raise ValueError(f'`subset` must be "all", "train" or "test", got {subset!r}.')
    home = data_folder(data_home)
    wanted = ["train", "test"] if subset == "all" else [subset]
    # Only folders of the set's name are searched, as all sets share file names.
    inside = sorted(home.iterdir()) if home.is_dir() else []
    own = [folder for folder in (home, *inside) if plain(folder.name) in names_of(key, record)]
    folders = [place for folder in own for place in (folder, folder / "raw")]
    found = [_read_idx_pair(folders, record, part) for part in wanted]
    parts = [part for part in found if part is not None]
    if len(parts) < len(wanted):
        remedy = (
            "Put train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, t10k-images-idx3-ubyte.gz "
            f"and t10k-labels-idx1-ubyte.gz into {str(home / record['folder'])!r}."
        )
        if not download_if_missing:
            raise FileNotFoundError(f"{record['title']} is missing in {str(home)!r}. {remedy}")
        parts = _openml_parts(record, home, wanted, remedy)
    data = np.concatenate([images for images, _ in parts])
    bunch = Bunch(
        data=data.reshape(len(data), *(record["image_shape"] if as_images else (-1,))),
        target=np.concatenate([labels for _, labels in parts]),
        target_names=np.array(record["target_names"]),
        n_train=len(parts[0][1]) if wanted[0] == "train" else 0,
        DESCR="{title}\n\nPaper: {citation}\n\nTerms of use: {terms}\n".format(**record),
    )
    return (bunch.data, bunch.target) if return_X_y else bunch


def _read_idx_pair(folders: list[Path], record: Record, part: str) -> _Part | None:
    """Return one part's images and labels; None if a file is missing."""
    names = [plain(f"{_IDX_PARTS[part]}-{what}-ubyte") for what in ("images-idx3", "labels-idx1")]
    images, labels = (find_file(folders, {name, f"{name}gz"}) for name in names)
    if images is None or labels is None:
        return None
    return _check_part(_read_idx(images), _read_idx(labels), record, repr(str(images)))


def _check_part(images: np.ndarray, labels: np.ndarray, record: Record, where: str) -> _Part:
    shape = (len(images), *record["image_shape"])
    if images.shape != shape:
        raise ValueError(f"Images of {where} must have shape {shape}, got {images.shape}.")
    if labels.shape != shape[:1]:
        raise ValueError(f"{where} must have an image per label, got {len(images)}, {len(labels)}.")
    for row in np.flatnonzero((labels < 0) | (labels >= len(record["target_names"])))[:1]:
        raise ValueError(f"Labels of {where} must be 0 to 9, got {labels[row]} in row {row}.")
    return images, labels.astype(np.int64)


def _read_idx(path: Path) -> np.ndarray:
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            zeros, kind, n_dims = struct.unpack(">HBB", file.read(4))
            if zeros or kind != 8 or not 1 <= n_dims <= 3:
                raise ValueError("the header is not that of an idx file of bytes")
            shape = struct.unpack(f">{n_dims}I", file.read(4 * n_dims))
            size = math.prod(shape)
            values = file.read(min(size, 2**31))
            if len(values) != size or file.read(1):
                raise ValueError(f"the content is not the {size} bytes that the header declares")
    except (EOFError, gzip.BadGzipFile, zlib.error, struct.error, MemoryError, ValueError) as error:
        raise ValueError(f"Cannot read {str(path)!r}: {error}. Replace the file.") from error
    return np.frombuffer(values, np.uint8).reshape(shape)


def _openml_parts(record: Record, home: Path, wanted: list[str], remedy: str) -> list[_Part]:
    name, n_train = record["openml"], sum(record["train_counts"])
    try:
        fetched = fetch_openml(name, version=1, as_frame=False, data_home=str(home))
    except (OSError, ValueError) as error:
        raise OSError(f"OpenML did not deliver {name!r}: {error}. {remedy}") from error
    images = np.asarray(fetched.data).astype(np.uint8).reshape(-1, *record["image_shape"])
    labels = np.asarray(fetched.target).astype(np.int64)
    images, labels = _check_part(images, labels, record, f"OpenML's {name}")
    if np.bincount(labels[:n_train]).tolist() != record["train_counts"]:
        raise ValueError(f"The first {n_train} rows of OpenML's {name} must be the training rows.")
    parts = {"train": slice(None, n_train), "test": slice(n_train, None)}
    return [(images[parts[part]], labels[parts[part]]) for part in wanted]
