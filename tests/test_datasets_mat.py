"""read_mat: every layout in every form, damaged files, and figures of the real ones."""

import os
import pickle
from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from sklearn.model_selection import KFold

from sklearn_cleanse.datasets import read_mat

N, D, M = 12, 3, 5


def make_toy():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D)).round(3)
    y = rng.integers(0, M - 1, N)  # the last class is never true, the next to last hardly ever
    Y = np.eye(M)[y]
    S = np.maximum(Y, rng.random((N, M)) < 0.3)
    S[:, M - 1] = 0  # and never a candidate
    return X, S, Y, y


toy = pytest.fixture(make_toy)


def cells(values, column=False):
    out = np.empty((len(values), 1) if column else (1, len(values)), dtype=object)
    for i, value in enumerate(values):
        out.ravel()[i] = value
    return out


def folds(n=N):
    return [(train, test) for train, test in KFold(3, shuffle=True, random_state=0).split(range(n))]


def layouts(X, S, Y):
    """The variables of each layout in the field, all holding the same data."""
    palm = {"data": X, "partial_target": S.T, "target": Y.T}
    masks = [np.isin(np.arange(N), train).astype(np.uint8)[:, None] for train, _ in folds()]
    return {
        "palm": palm,
        "palm, labels not transposed": {"data": X, "partial_target": S, "target": Y},
        "palm, data transposed": {"data": X.T, "partial_target": S.T, "target": Y.T},
        "five-fold": {
            "features": X,
            "p_labels": S,
            "logitlabels": Y,
            "tr": cells([train[None, :] + 1 for train, _ in folds()]),
            "te": cells([test[None, :] + 1 for _, test in folds()]),
        },
        "online": {"X": X, "Y_P": S, "Y": Y},
        "pre-split": {
            "train_data": X[:8],
            "train_p_target": S[:8].T,
            "train_target": Y[:8].T,
            "test_data": X[8:],
            "test_target": Y[8:].T,
        },
        "struct": {"Lost": palm},
        "mask": {
            **palm,
            "tr_idx": cells(masks, column=True),
            "te_idx": cells([1 - mask for mask in masks], column=True),
        },
    }


def convert(variables, change):
    return {
        key: convert(value, change)
        if isinstance(value, dict)
        else value
        if value.dtype == object
        else change(value)
        for key, value in variables.items()
    }


FORMS = {
    "float": lambda v: v,
    "sparse labels": lambda v: sp.csc_matrix(v) if set(np.unique(v)) <= {0, 1} else v,
    "uint8 labels": lambda v: v.astype(np.uint8) if set(np.unique(v)) <= {0, 1} else v,
    "logical labels": lambda v: v.astype(bool) if set(np.unique(v)) <= {0, 1} else v,
    "sparse data": lambda v: v if set(np.unique(v)) <= {0, 1} else sp.csc_matrix(v),
}


def save_v73(path, variables):
    """Write what MATLAB's -v7.3 writes: HDF5, dimensions reversed, references for cells."""

    def put(group, name, value):
        if isinstance(value, dict):
            sub = group.create_group(name)
            sub.attrs["MATLAB_class"] = np.bytes_("struct")
            for key, inner in value.items():
                put(sub, key, inner)
        elif sp.issparse(value):
            value = sp.csc_array(value)
            sub = group.create_group(name)
            sub.attrs["MATLAB_sparse"] = np.uint64(value.shape[0])
            sub.attrs["MATLAB_class"] = np.bytes_("double")
            for key, inner in (("data", value.data), ("ir", value.indices), ("jc", value.indptr)):
                sub[key] = inner if key == "data" else inner.astype(np.uint64)
        elif value.dtype == object:
            refs = np.empty(value.shape[::-1], dtype=h5py.ref_dtype)
            for i, inner in enumerate(value.ravel()):
                place = group.file.require_group("#refs#").create_dataset(
                    f"{name}{i}", data=inner.T
                )
                refs.ravel()[i] = place.ref
            made = group.create_dataset(name, data=refs, dtype=h5py.ref_dtype)
            made.attrs["MATLAB_class"] = np.bytes_("cell")
        else:
            kind = "logical" if value.dtype == bool else "double"
            value = value.astype(np.uint8) if value.dtype == bool else value
            group.create_dataset(name, data=value.T).attrs["MATLAB_class"] = np.bytes_(kind)

    with h5py.File(path, "w", userblock_size=512) as file:
        for name, value in variables.items():
            put(file, name, value)
    with open(path, "r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file".ljust(124) + b"\0\2IM")


def save(path, variables, level="5"):
    if level == "7.3":
        save_v73(path, variables)
    else:
        scipy.io.savemat(path, variables, do_compression=level == "5, compressed")
    return path


LEVELS = ["5", "5, compressed", "7.3"]
NAMES = list(layouts(np.zeros((N, D)), np.zeros((N, M)), np.zeros((N, M))))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", NAMES)
def test_every_layout_in_every_form_holds_the_same_data(tmp_path, toy, name, form, level):
    X, S, Y, y = toy
    variables = convert(layouts(X, S, Y)[name], FORMS[form])
    bunch = read_mat(save(tmp_path / "a.mat", variables, level))
    data = bunch.data.toarray() if sp.issparse(bunch.data) else bunch.data
    np.testing.assert_array_equal(data, X)
    np.testing.assert_array_equal(bunch.target, y)
    expected = S.astype(bool)
    if name == "pre-split":  # test rows have no candidates but the truth
        expected = np.vstack([expected[:8], Y[8:].astype(bool)])
    np.testing.assert_array_equal(bunch.candidates, expected)
    assert bunch.candidates.dtype == bool
    assert len(bunch.target_names) == M  # the class that never occurs is still one
    assert len(bunch.feature_names) == D
    assert sp.issparse(bunch.data) == (form == "sparse data")
    if name in ("five-fold", "mask"):
        stored = folds()
    elif name == "pre-split":
        stored = [(np.arange(8), np.arange(8, N))]
    else:
        stored = None
    assert (bunch.cv is None) == (stored is None)
    for (train, test), (train_, test_) in zip(bunch.cv or [], stored or [], strict=True):
        np.testing.assert_array_equal(train, train_)
        np.testing.assert_array_equal(test, test_)


def test_outputs_on_request(tmp_path, toy):
    X, S, Y, y = toy
    path = save(tmp_path / "a.mat", layouts(X, S, Y)["palm"])
    _, S_, _ = read_mat(path, return_X_S_y=True, sparse_output=True)
    assert isinstance(S_, sp.csr_array)
    np.testing.assert_array_equal(S_.toarray(), S)
    framed = read_mat(path, as_frame=True)
    assert framed.frame.shape == (N, D + M + 1)
    assert framed.candidates.columns.tolist() == list(range(M))  # the labels that target holds
    assert framed.target.tolist() == y.tolist()
    assert read_mat(path).frame is None
    with pytest.raises(ValueError, match="`sparse_output` must be False"):
        read_mat(path, as_frame=True, sparse_output=True)


def test_truth_is_optional(tmp_path, toy):
    X, S, _, _ = toy
    path = save(tmp_path / "a.mat", {"data": X, "partial_target": S.T})
    assert read_mat(path).target is None
    assert read_mat(path, as_frame=True).frame.shape == (N, D + M)


def test_as_many_classes_as_samples_must_be_told_apart_by_the_caller(tmp_path):
    S = np.triu(np.ones((4, 4)))
    path = save(tmp_path / "a.mat", {"data": np.ones((4, 2)), "partial_target": S})
    with pytest.raises(ValueError, match=r"4 × 4.*class_axis=0"):
        read_mat(path)
    np.testing.assert_array_equal(read_mat(path, class_axis=1).candidates, S)
    np.testing.assert_array_equal(read_mat(path, class_axis=0).candidates, S.T)
    with pytest.raises(ValueError, match="`class_axis` must be 0, 1 or None, got 2"):
        read_mat(path, class_axis=2)


def test_the_reader_agrees_with_scipy(tmp_path):
    rng = np.random.default_rng(0)
    for dtype in ("f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", ">f8", ">i4"):
        X = (rng.random((7, 3)) * 100).astype(dtype)
        S = rng.random((2, 7)) < 0.5
        S[0] |= ~S.any(axis=0)
        path = save(tmp_path / "a.mat", {"data": X, "partial_target": S})
        np.testing.assert_array_equal(read_mat(path).data, scipy.io.loadmat(path)["data"])


def damage(toy):
    """Variables that are wrong, and what the error must say."""
    X, S, Y, y = toy
    palm = {"data": X, "partial_target": S.T, "target": Y.T}
    out, two, none, half, empty = (v.copy() for v in (S, Y, Y, S, S))
    out[3, y[3]], out[3, (y[3] + 1) % M] = 0, 1
    two[4, (y[4] + 1) % M] = 1
    none[5] = 0
    half[6, 0] = 0.5
    empty[7] = 0
    ones, zero = [np.array([[1]])], [np.array([[0, 1]])]
    return {
        "wrong variables": ({"bar": S, "foo": X}, r"bar 12×5, foo 12×3.*Known: PALM: data"),
        "no variables": ({}, "no variables"),
        "text as data": ({**palm, "data": "hello"}, "data must be .*, is not a matrix"),
        "cells as labels": ({**palm, "partial_target": cells(ones)}, r"cell\(1\)"),
        "cube as data": ({**palm, "data": np.ones((2, 3, 4))}, "2×3×4"),
        "empty data": ({**palm, "data": np.empty((0, 3))}, "empty"),
        "complex data": ({**palm, "data": X + 1j}, "complex"),
        "wrong shapes": ({**palm, "data": X[:7]}, "no common number of samples"),
        "shapes differ": ({**palm, "target": Y.T[:3]}, "5×12, but target is 3×12"),
        "truth outside": ({**palm, "partial_target": out.T}, r"a candidate, got \d in row 3 "),
        "two truths": ({**palm, "target": two.T}, "one true label per sample, got 2 in row 4 "),
        "no truth": ({**palm, "target": none.T}, "one true label per sample, got 0 in row 5 "),
        "truth of 2": ({**palm, "target": 2 * Y.T}, r"target .* 0 and 1, got 2\.0 in row 0"),
        "half a label": ({**palm, "partial_target": half.T}, r"got 0\.5 in row 6, column 0"),
        "no candidate": ({**palm, "partial_target": empty.T}, "a candidate, got none in row 7"),
        "row 0 in a fold": (
            {**palm, "tr": cells(ones), "te": cells(zero)},
            "te .* got 0 in fold 0",
        ),
        "fold in itself": ({**palm, "tr": cells(ones), "te": cells(ones)}, "fold 0 has row 0 in"),
        "folds differ": ({**palm, "tr": cells(ones * 2), "te": cells(ones)}, "2 folds, but te 1"),
    }


DAMAGE_NAMES = list(damage((np.ones((N, D)), np.ones((N, M)), np.ones((N, M)), np.zeros(N, int))))


@pytest.mark.parametrize("level", ["5", "7.3"])
@pytest.mark.parametrize("name", DAMAGE_NAMES)
def test_wrong_content_raises_and_names_the_place(tmp_path, toy, name, level):
    variables, message = damage(toy)[name]
    if level == "7.3":
        variables = {k: np.array(list(v.encode())) if isinstance(v, str) else v
                     for k, v in variables.items()}  # fmt: skip
        message = {"text as data": "data must", "complex data": "not a matrix"}.get(name, message)
    with pytest.raises(ValueError, match=message) as caught:
        read_mat(save(tmp_path / "a.mat", variables, level))
    assert str(tmp_path / "a.mat") in str(caught.value)


def test_noise_is_allowed_on_request(tmp_path, toy):
    variables, _ = damage(toy)["truth outside"]
    bunch = read_mat(save(tmp_path / "a.mat", variables), allow_noise=True)
    assert not bunch.candidates[3, bunch.target[3]]


class Bomb:
    def __reduce__(self):
        return os.system, ("echo boom > boom",)


IMPOSTORS = {
    "web page": (b"\n<!DOCTYPE html><html>Not found</html>" * 9, "web page"),
    "pickle": (pickle.dumps(Bomb()), "pickle"),
    "lfs": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS"),
    "gzip": (b"\x1f\x8b" + bytes(200), "gzip"),
    "zip": (b"PK\3\4" + bytes(200), "zip"),
    "empty": (b"", "not a MATLAB file"),
    "header only": (b"MATLAB 5.0".ljust(124) + b"\0\1IM", "no variables"),
    "HDF5 header only": (b"\x89HDF\r\n\x1a\n" + bytes(300), "Cannot read"),
}


@pytest.mark.parametrize("name", IMPOSTORS)
def test_impostors_are_named_and_nothing_is_executed(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    content, message = IMPOSTORS[name]
    Path("a.mat").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_mat("a.mat")
    assert os.listdir() == ["a.mat"]


# Shape, classes: Soccer Player and Yahoo! News. Labels have two candidates a row.
LARGE = {"soccer": (17472, 279, 171), "yahoo": (22991, 163, 219)}


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("form", ["float", "sparse labels"])
@pytest.mark.parametrize("level", ["5", "5, compressed"])
def test_files_of_the_size_of_the_largest_sets_are_read_by_default(tmp_path, name, form, level):
    n, d, m = LARGE[name]
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, d)).round(2), rng.integers(0, m, n)
    Y = np.eye(m)[y]
    S = np.maximum(Y, np.eye(m)[(y + 1) % m])
    change = FORMS[form] if form == "sparse labels" else (lambda v: v)
    variables = {"data": X, "partial_target": change(S.T), "target": change(Y.T)}
    bunch = read_mat(save(tmp_path / "a.mat", variables, level))
    np.testing.assert_array_equal(bunch.data, X)
    np.testing.assert_array_equal(bunch.candidates, S)
    np.testing.assert_array_equal(bunch.target, y)
