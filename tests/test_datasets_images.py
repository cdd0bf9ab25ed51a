"""fetch_images: idx files, CIFAR's batches and OpenML, in every place and shape."""

import gzip
import io
import os
import pickle
import struct
from typing import ClassVar

import numpy as np
import pytest
from conftest import REAL, need
from PIL import Image
from sklearn.utils import Bunch

from sklearn_cleanse.datasets import _images, fetch_images
from sklearn_cleanse.datasets._catalogue import IMAGE_SETS

PIXEL_MEANS = {"mnist": (33.318, 33.791), "fashion_mnist": (72.940, 73.147)}
MNIST_TEST_COUNTS = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


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


class Python2Pickler(pickle._Pickler):
    """Write bytes as Python 2 wrote its strings, which is how CIFAR's batches were made."""

    dispatch: ClassVar = dict(pickle._Pickler.dispatch)

    def save_bytes(self, obj):
        self.write(pickle.BINSTRING + struct.pack("<i", len(obj)) + obj)

    dispatch[bytes] = save_bytes


def write_cifar(folder, change=None):
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True)
    names = [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]
    images, labels = [], []
    for name in names:
        batch = {
            b"data": rng.integers(0, 256, (3, 3072)).astype(np.uint8),
            b"labels": rng.integers(0, 10, 3).tolist(),
            b"batch_label": b"x",
        }
        images.append(batch[b"data"])
        labels += batch[b"labels"]
        batch.update(change or {})
        buffer = io.BytesIO()
        Python2Pickler(buffer, protocol=2).dump(batch)
        (folder / name).write_bytes(buffer.getvalue())
    return np.concatenate(images), np.array(labels)


@pytest.mark.parametrize("name", PIXEL_MEANS)
def test_the_real_image_files_have_the_published_figures(name):
    need(IMAGE_SETS[name].folder)
    bunch = fetch_images(name, data_home=REAL, download_if_missing=False)
    assert bunch.data.shape == (70_000, 784)
    assert bunch.n_train == 60_000
    train, test = bunch.data[:60_000], bunch.data[60_000:]
    assert (round(train.mean(), 3), round(test.mean(), 3)) == PIXEL_MEANS[name]
    counts = np.bincount(bunch.target[:60_000])
    assert tuple(counts) == IMAGE_SETS[name].train_counts
    test_counts = np.bincount(bunch.target[60_000:]).tolist()
    assert test_counts == (MNIST_TEST_COUNTS if name == "mnist" else [1000] * 10)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("folder", ["mnist", "MNIST", "MNIST/raw"])
def test_idx_files_are_found_packed_or_not(tmp_path, folder, packed):
    parts = write_idx(tmp_path / folder, packed=packed)
    bunch = fetch_images("MNIST", data_home=tmp_path, download_if_missing=False)
    assert bunch.n_train == 7
    both = np.concatenate([parts["train"][0], parts["t10k"][0]])
    np.testing.assert_array_equal(bunch.data, both.reshape(11, 784))
    assert bunch.data.dtype == np.uint8
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
    for name in ("kmnist", "fashion_mnist"):
        with pytest.raises(FileNotFoundError, match=r"put 'train-images-idx3-ubyte.gz', "):
            fetch_images(name, data_home=tmp_path / "mnist", download_if_missing=False)


IDX_DAMAGE = {
    "cut": (lambda raw: raw[:-5], "content is not the 5488 bytes"),
    "too long": (lambda raw: raw + b"x", "content is not the 5488 bytes"),
    "float": (lambda raw: raw[:2] + b"\x0d" + raw[3:], "no idx file"),
    "empty": (lambda raw: b"", "cannot read"),
    "gzip cut": (lambda raw: gzip.compress(raw)[:-20], "cannot read"),
    "gzip flipped": (lambda raw: gzip.compress(raw)[:-8] + bytes(8), "cannot read"),
    "fewer images": (lambda raw: idx(np.zeros((6, 28, 28))), "6 images but 7 labels"),
    "other shape": (lambda raw: idx(np.zeros((7, 32, 32))), "images are"),
    "web page": (lambda raw: b"<html>" * 99, "no idx file"),
}


@pytest.mark.parametrize("name", IDX_DAMAGE)
def test_damaged_idx_files_are_refused(tmp_path, name):
    change, message = IDX_DAMAGE[name]
    write_idx(tmp_path / "mnist", packed=False)
    path = tmp_path / "mnist" / "train-images-idx3-ubyte"
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(ValueError, match=message):
        fetch_images("mnist", data_home=tmp_path)


def test_labels_outside_the_classes_are_refused(tmp_path):
    write_idx(tmp_path / "mnist", packed=False)
    labels = np.array([0, 1, 2, 10, 4, 5, 6])
    (tmp_path / "mnist" / "train-labels-idx1-ubyte").write_bytes(idx(labels))
    with pytest.raises(ValueError, match="row 3 has the label 10"):
        fetch_images("mnist", data_home=tmp_path)


def test_cifar_batches_as_python_2_pickled_them(tmp_path):
    images, labels = write_cifar(tmp_path / "cifar-10-batches-py")
    bunch = fetch_images("CIFAR-10", data_home=tmp_path, download_if_missing=False)
    np.testing.assert_array_equal(bunch.data, images)
    np.testing.assert_array_equal(bunch.target, labels)
    assert bunch.n_train == 15
    X, _ = fetch_images(
        "cifar10", subset="test", as_images=True, data_home=tmp_path, return_X_y=True
    )
    np.testing.assert_array_equal(X[0, 1], images[15, 1024:2048].reshape(32, 32))  # green
    assert bunch.target_names[3] == "cat"


def write_png_cifar(folder):
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True)
    images = rng.integers(0, 256, (6, 2, 1024, 3)).astype(np.uint8)
    names = [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]
    for name, part in zip(names, images, strict=True):
        Image.fromarray(part).save(folder / f"{name}.png")
    (folder / "train_lables.json").write_text("[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]")
    (folder / "test_lables.json").write_text("[3, 8]")
    return images.reshape(12, 32, 32, 3)


def test_cifar_as_png_and_json(tmp_path):
    pixels = write_png_cifar(tmp_path / "cifar10")
    bunch = fetch_images("cifar10", as_images=True, data_home=tmp_path, download_if_missing=False)
    np.testing.assert_array_equal(bunch.data, pixels.transpose(0, 3, 1, 2))  # channels first
    assert bunch.target.tolist() == [*range(10), 3, 8]
    assert bunch.n_train == 10


PNG_DAMAGE = {
    "cut": ("test_batch.png", lambda raw: raw[: len(raw) // 2], "replace the file"),
    "a text": ("test_batch.png", lambda raw: b"hello", "cannot identify"),
    "labels cut": ("test_lables.json", lambda raw: raw[:-1], "replace the file"),
    "labels nested": ("test_lables.json", lambda raw: b"[[3], [8]]", "not integers"),
    "labels deep": ("test_lables.json", lambda raw: b"[" * 100_000, "replace the file"),
    "few labels": ("test_lables.json", lambda raw: b"[3]", "2 images but 1 labels"),
    "label 10": ("test_lables.json", lambda raw: b"[3, 10]", "row 1 has the label 10"),
}


@pytest.mark.parametrize("name", PNG_DAMAGE)
def test_damaged_png_and_json_files_are_refused(tmp_path, name):
    write_png_cifar(tmp_path / "cifar10")
    filename, change, message = PNG_DAMAGE[name]
    path = tmp_path / "cifar10" / filename
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(ValueError, match=message):
        fetch_images("cifar10", data_home=tmp_path)


class Bomb:
    def __reduce__(self):
        return os.system, ("touch boom",)


def nested(depth):
    labels = [1, 1]
    for _ in range(depth):
        labels = [labels, labels]
    return labels


CIFAR_DAMAGE = {
    "code": ({b"extra": Bomb()}, "asks for .*system"),
    "no data": ({b"data": b"hello"}, "not a matrix of bytes"),
    "floats": ({b"data": np.zeros((3, 3072))}, "not a matrix of bytes"),
    "narrow": ({b"data": np.zeros((3, 10), np.uint8)}, "10 values, expected 3072"),
    "labels": ({b"labels": [b"a"] * 3}, "not integers"),
    "nested labels": ({b"labels": nested(40)}, "not integers"),  # 2**40 of them, if unfolded
    "label 10": ({b"labels": [0, 10, 1]}, "row 1 has the label 10"),
    "few labels": ({b"labels": [0]}, "3 images but 1 labels"),
}


@pytest.mark.parametrize("name", CIFAR_DAMAGE)
def test_damaged_batches_are_refused_and_nothing_is_executed(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    change, message = CIFAR_DAMAGE[name]
    write_cifar(tmp_path / "cifar10", change)
    with pytest.raises(ValueError, match=message):
        fetch_images("cifar10", data_home=tmp_path)
    assert os.listdir(tmp_path) == ["cifar10"]


def test_truncated_batches_are_refused(tmp_path):
    write_cifar(tmp_path / "cifar10")
    path = tmp_path / "cifar10" / "data_batch_3"
    raw = path.read_bytes()
    for size in range(0, len(raw) - 1, 97):
        path.write_bytes(raw[:size])
        with pytest.raises(ValueError, match="data_batch_3"):
            fetch_images("cifar10", data_home=tmp_path)


@pytest.mark.parametrize("name", IMAGE_SETS)
def test_openml_serves_where_files_are_missing(tmp_path, monkeypatch, name):
    record = IMAGE_SETS[name]
    n_train = sum(record.train_counts)
    labels = np.repeat(np.arange(10), record.train_counts)
    labels = np.concatenate([labels, [3, 4]])
    pixels = np.zeros((n_train + 2, 1), np.uint8) + labels[:, None].astype(np.uint8)
    pixels = np.broadcast_to(pixels, (n_train + 2, np.prod(record.image_shape)))
    asked = []

    def fetch(openml_name, **options):
        asked.append((openml_name, options["version"], options["data_home"]))
        return Bunch(data=pixels, target=labels.astype(str).astype(object))

    monkeypatch.setattr(_images, "fetch_openml", fetch)
    X, y = fetch_images(name, subset="test", data_home=tmp_path, return_X_y=True, as_images=True)
    assert asked == [(record.openml, 1, str(tmp_path))]
    assert X.shape == (2, *record.image_shape)
    assert y.tolist() == [3, 4]
    labels[[0, -1]] = labels[[-1, 0]]  # rows in another order: the parts would be wrong
    with pytest.raises(ValueError, match="are not the training rows"):
        fetch_images(name, subset="test", data_home=tmp_path)


def test_openml_out_of_reach_says_what_to_do(tmp_path, monkeypatch):
    def fetch(*args, **options):
        raise OSError("no route to host")

    monkeypatch.setattr(_images, "fetch_openml", fetch)
    with pytest.raises(OSError, match=r"no route to host.*Put the set's files into"):
        fetch_images("kmnist", data_home=tmp_path)


def test_wrong_subsets_are_named(tmp_path):
    with pytest.raises(ValueError, match="subset is 'valid'"):
        fetch_images("mnist", subset="valid", data_home=tmp_path)
