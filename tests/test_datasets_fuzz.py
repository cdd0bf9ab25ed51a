"""A few thousand damaged files: each is read, or refused by a ValueError, and by nothing else."""

import pickle

import fuzz
import numpy as np
import pytest
from test_datasets_mat import LEVELS, D, M, N, layouts, save

from sklearn_cleanse.datasets import read_mat
from sklearn_cleanse.datasets._images import _load_batch


@pytest.mark.parametrize("level", LEVELS)
def test_damaged_mat_files_raise_nothing_but_value_error(tmp_path, level):
    rng = np.random.default_rng(0)
    Y = np.eye(M)[rng.integers(0, M, N)]
    S = np.maximum(Y, rng.random((N, M)) < 0.3)
    X = rng.normal(size=(N, D))
    variables = layouts(X, S, Y).values()
    originals = [save(tmp_path / "a.mat", v, level).read_bytes() for v in variables]
    messages = []
    for i in range(2000):
        (tmp_path / "b.mat").write_bytes(fuzz.mutate(originals[i % len(originals)], rng))
        try:
            bunch = read_mat(tmp_path / "b.mat")
        except ValueError as error:
            messages.append(str(error))
            continue
        if level == "5, compressed":  # the only kind with checksums: no wrong value gets through
            np.testing.assert_array_equal(bunch.data, X)
    assert len(messages) > 500
    assert all(message.startswith("cannot read ") for message in messages)


@pytest.mark.parametrize("target", ["mat5-packed", "idx", "batch"])
def test_other_damaged_files_raise_nothing_but_value_error(target):
    make, _ = fuzz.TARGETS[target]
    for seed in range(500):
        fuzz.try_one(target, make(np.random.default_rng(seed)))


def test_what_once_broke_does_not_break_again():
    """Each input in ``tests/corpus``, which ``python -m tests.fuzz`` adds to."""
    for path in sorted(fuzz.CORPUS.glob("*.hex")):
        fuzz.try_one(path.name.split(".")[0], bytes.fromhex(path.read_text()))


def test_a_batch_cannot_name_anything_but_arrays():
    for harmful in (eval, print, np.load, pickle.loads, np.lib.format.open_memmap):
        with pytest.raises(ValueError, match="asks for"):
            _load_batch(pickle.dumps({"data": harmful}))
