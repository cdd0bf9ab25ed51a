"""One check of X for all estimators."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from sklearn_cleanse.features import check_features, row_keys


def read(X, **how):
    return check_features(BaseEstimator(), X, reset=True, **how)


@pytest.mark.parametrize(
    "dtype", [">f4", ">f8", np.longdouble, np.float16, np.int64, np.uint32, object]
)
def test_all_numbers_are_read_in_native_double_precision(dtype):
    X = np.array([[1, 2], [3, 1700]])
    found = read(X.astype(dtype))
    assert found.dtype in (np.float64, np.float32)
    assert found.dtype.isnative
    np.testing.assert_array_equal(found, X)
    times = np.array([[1_700_000_000_123_456], [1_700_000_000_123_457]], dtype=np.int64)
    assert np.diff(read(times), axis=0) == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8, np.int16, bool])
def test_what_can_be_used_is_not_copied(dtype):
    X = np.ones((3, 2), dtype=dtype)
    assert np.shares_memory(read(X), X)


MASKED = np.ma.masked_array([[1, 2], [3, 4]], mask=[[False, True], [False, False]])
NULLS = pd.DataFrame([[1, pd.NA], [3, 4]], columns=["a", "b"], dtype=object)
TEXT = getattr(np.dtypes, "StringDType", lambda: "O")()  # of NumPy 2
STRINGS = np.array([["1", "nan"], ["3", "4"]], dtype=TEXT)
SPARSE = pd.DataFrame([[1, np.nan], [3, 4.0]], dtype="Sparse[float]")
ARRAYS = [MASKED, MASKED.astype(object), list(MASKED), NULLS.to_numpy(), NULLS.to_numpy().tolist()]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("X", [*ARRAYS, NULLS, NULLS.astype("Int64"), SPARSE, STRINGS])
def test_missing_values_of_all_kinds_are_nan(X):
    np.testing.assert_array_equal(read(X), [[1, np.nan], [3, 4]])


def test_strides_are_those_that_torch_can_read():
    record = np.zeros(3, dtype=[("kind", "u1"), ("values", "f8", 2)])["values"]
    for X in (np.ones((3, 2))[::-1], pd.DataFrame(np.ones((3, 2), "f4"))[::-1], record):
        assert all(step >= 0 and step % 4 == 0 for step in read(X).strides)


class Frame(dict):
    """The little of a polars frame that matters here."""

    columns, __array__ = property(list), None


FRAME = pd.DataFrame({"size": [1.0, 2.0], "when": pd.to_datetime(["2020-01-01", None])})


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (FRAME, "dates in column 'when'"),
        (FRAME.assign(when=FRAME["when"] - FRAME["when"][0]), "dates in column 'when'"),
        (FRAME[["when"]].to_numpy(), "dates in column 0"),
        (FRAME.to_numpy().tolist(), "dates in column 1"),
        (FRAME.assign(when=pd.Period("2020")), "dates in column 'when'"),
        (FRAME.astype({"when": str}), "text or categories in column 'when'.*OneHotEncoder"),
        (FRAME.astype(str), "text or categories in column 'size', 'when'"),
        (FRAME.assign(when=pd.Categorical(["a", "b"])), "text or categories in column 'when'"),
        (np.array([["1", "x"], ["2", "3"]], dtype=object), "text or categories in column 1"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "unique columns, got 'a' twice"),
        (pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_product([["a"], [1, 2]])), "2 levels"),
        ([[1.0, -np.inf], [1.0, 2.0]], r"got -inf in row 0, column 1. Write NaN if"),
        ([[1.0], [1e101]], r"between ±1e\+100, got 1e\+101 in row 1, column 0. .*divide the"),
        ([[1, 2], [3, {}]], r"got {} \(dict\) in row 1, column 1. Write NaN"),
        ([[1, 2], [3, 10**400]], r"got 10+ \(int\) in row 1, column 1"),
        (pd.DataFrame({"a": [1, [1]]}), r"got \[1\] \(list\) in row 1, column 'a'"),
        (pd.DataFrame({"a": [1, pd.Interval(0, 1)]}), r"\(Interval\) in row 1, column 'a'"),
        (Frame(a=np.ones((2, 1))), r"got array.* \(ndarray\) in row 0, column 'a'"),
        (pd.DataFrame({"a": [1, 1j]}, dtype=object), r"got 1j \(complex\) in row 1, column 'a'"),
        (sp.csr_array(np.ones((1, 1)) * np.inf), "got inf in row 0, column 0"),
        (np.ones((2, 1, 0, 2)), r"must have pixels, got X of shape \(2, 1, 0, 2\)"),
        (np.array([["a", "b"]], dtype=TEXT), "categories in column 0, 1"),
        ([[0.0], [1e-101]], "vary by at least 1e-100, got 1e-101 in feature 0"),
        (np.full((2, 1, 2, 2), np.nan), "NaN in row 0"),
    ],
)
def test_bad_features_raise(X, message):
    with pytest.raises((ValueError, TypeError), match=message):
        read(X, allow_images=True)


@pytest.mark.parametrize("kind", [Frame, pa.table])
def test_frames_of_all_libraries_name_their_columns(kind):
    days, towns = np.array(["2020-01-01", "NaT"], dtype="M8[s]"), np.array(["Oslo", "Rome"])
    with pytest.raises(ValueError, match="dates in column 'day'"):
        read(kind({"size": np.ones(2), "day": days}))
    with pytest.raises(ValueError, match="column 'town'"):
        read(kind({"size": np.ones(2), "town": towns}))


def test_equal_rows_have_equal_keys():
    X = np.array([[0.0, np.nan], [-0.0, np.nan], [1.0, 0.0]])
    S = np.array([[True], [True], [True]])
    one, other, third = row_keys(X, S)
    assert one == other != third
    assert row_keys(X, np.array([[True], [False], [True]]))[0] != row_keys(X, ~S)[0]
