"""Every form of candidates is read into the same record; the messages have a table of their own."""

import datetime
import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning
from test_candidates_messages import BIG, MATRIX, replaced

from sklearn_cleanse.candidates import (
    Candidates,
    candidate_softmax,
    check_candidates,
    check_index,
    check_memory,
    estimate_proportions,
)
from sklearn_cleanse.candidates._labels import check_classes, label_array, order_labels

FORMATS = ["csr", "csc", "coo", "lil", "dok", "dia", "bsr"]


class PolarsLike:
    """A frame that is not of pandas: names, a shape and values."""

    columns = ["cat", "dog", "emu"]  # noqa: RUF012
    shape = MATRIX.shape

    def __array__(self, dtype=None, copy=None):
        return np.asarray(MATRIX, dtype=dtype)


DENSE = [MATRIX.astype(t) for t in (int, float, ">f8", np.float16, np.longdouble, object)]
SPARSE = [sp.csr_array(MATRIX).asformat(form) for form in FORMATS]
FOREIGN = [replaced("csr", data=np.ones(5, t)) for t in (">f8", ">i4", np.float16, object)]
OTHERS = [np.asfortranarray(MATRIX.astype(bool)), MATRIX.tolist(), check_candidates(MATRIX)]


@pytest.mark.parametrize(
    "y",
    [*DENSE, *OTHERS, *SPARSE, *FOREIGN, sp.csr_matrix(MATRIX * 1.0), sp.csc_array(MATRIX > 0)],
    ids=lambda y: type(y).__name__ + str(getattr(y, "dtype", "")),
)
def test_every_matrix_form_gives_the_same_record(y):
    found = check_candidates(y)
    assert found.classes.tolist() == [0, 1, 2]
    assert found.mask.dtype == bool
    assert found.mask.flags.c_contiguous
    np.testing.assert_array_equal(found.mask, MATRIX)
    np.testing.assert_array_equal(
        found.prior, np.float32([[0.5, 0.5, 0], [0, 1, 0], [0.5, 0, 0.5]])
    )
    assert found.prior.dtype == np.float32
    assert not found.has_prior
    assert found.index is None


FRAME = pd.DataFrame(MATRIX, columns=["cat", "dog", "emu"], index=[7, 8, 9])


DTYPES = [int, bool, float, "boolean", "Int64", "Sparse[int]", {"cat": bool, "dog": float}]


@pytest.mark.parametrize("y", [*map(FRAME.astype, DTYPES), pa.table(FRAME), PolarsLike()])
def test_columns_of_a_frame_are_the_classes(y):
    found = check_candidates(y)
    assert found.classes.tolist() == ["cat", "dog", "emu"]
    np.testing.assert_array_equal(found.mask, MATRIX)
    assert isinstance(y, PolarsLike) or found.index.tolist() == [7, 8, 9]


@pytest.mark.parametrize("kind", [set, frozenset, list, tuple, np.array, pd.Series])
@pytest.mark.parametrize("labels", [("cat", "dog", "emu"), (3, 5, 9)])
def test_collections_of_labels(kind, labels):
    a, b, c = labels
    rows = [kind([a, b]), kind([b]), kind([a, c])]
    for y in (rows, pd.Series(rows, index=[7, 8, 9])):
        found = check_candidates(y)
        assert found.classes.tolist() == list(labels)
        np.testing.assert_array_equal(found.mask, MATRIX)
    assert found.index.tolist() == [7, 8, 9]


@pytest.mark.parametrize("unit", ["D", "ns"])
def test_sets_of_dates_are_read_again(unit):
    a, b, c = labels = np.arange(3).astype(f"M8[{unit}]")
    found = check_candidates([{a, b}, {b}, {a, c}])
    np.testing.assert_array_equal(found.classes, labels)
    for record in (found, check_candidates([{a, b}, {b}, {a, c}], classes=found.classes)):
        np.testing.assert_array_equal(record.mask, MATRIX)


def test_equally_long_lists_of_integers_are_a_matrix():
    assert check_candidates([[1, 0], [0, 1]]).classes.tolist() == [0, 1]
    assert check_candidates([{"1", "0"}, {"0", "1"}]).classes.tolist() == ["0", "1"]
    with pytest.raises(ValueError, match=r"got 3 in row 0, column 0.* pass a list of sets"):
        check_candidates([[3, 5], [5, 9]])


ONE_EACH = [["b", "a", "b"], np.array([7, 3, 7]), np.array([1.0, 0.0]), pd.Index(["b", "a"])]


@pytest.mark.parametrize("y", [*ONE_EACH, pd.Series([True, False]), pd.Categorical(["b", "a"])])
def test_labels_are_candidate_sets_of_one(y):
    found = check_candidates(y)
    assert found.is_clean.all()
    np.testing.assert_array_equal(found.classes[found.mask.argmax(axis=1)], np.asarray(y))


def test_a_column_of_labels_is_taken_as_labels_with_a_warning():
    for y in (np.array([[4], [5]]), [[4], [5]], pd.DataFrame({"label": [4, 5]})):
        with pytest.warns(DataConversionWarning, match="column-vector"):
            assert check_candidates(y).classes.tolist() == [4, 5]


def test_odd_but_legal_candidates():
    assert check_candidates([["cat", "cat"], ["dog"]]).is_clean.all()
    assert check_candidates(np.array([[1, 0, 0], [1, 1, 0]])).mask.shape == (2, 3)
    assert check_candidates(np.ones((4, 3))).mask.all()


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        ([{BIG}, {BIG - 1}, {BIG, -BIG}], [-BIG, BIG - 1, BIG]),
        ([BIG, BIG - 1, -BIG], [-BIG, BIG - 1, BIG]),
        (np.array([BIG, BIG - 1], dtype=object), [BIG - 1, BIG]),
        ([2**64 - 1, 2**64 - 2], [2**64 - 2, 2**64 - 1]),
        ([{2**64}, {-1}], [-1, 2**64]),
        ([2**64, 1], [1, 2**64]),
        ([{1, 2.5}, {2}], [1, 2, 2.5]),
        ([{True}, {False}], [False, True]),
        ([{("a", 1), ("b", 2)}, {("b", 2)}], [("a", 1), ("b", 2)]),
        ([{frozenset("a")}, {frozenset("ab")}], [frozenset("a"), frozenset("ab")]),
        ([datetime.date(2020, 1, day) for day in (2, 1)], None),
        ([{"a\0b"}, {"a"}], ["a", "a\0b"]),
        ({"first": "a", "second": "b"}.values(), ["a", "b"]),
        ((label for label in "ab"), ["a", "b"]),
    ],
)
def test_labels_that_an_array_can_hold_come_back_as_they_were(y, expected):
    classes = check_candidates(y).classes.tolist()
    assert classes == (sorted(y) if expected is None else expected)


def test_strings_in_an_object_array_stay_objects():
    assert check_candidates(np.array(["b", "a"], dtype=object)).classes.dtype == object
    assert check_candidates(["b", "a"]).classes.dtype.kind == "U"
    assert order_labels(["b", "a", "b"])[1].tolist() == [1, 0, 1]
    assert label_array([("a", 1), ("b", 2)]).shape == (2,)
    assert check_classes(pd.Index(["b", "a"])).tolist() == ["b", "a"]


@pytest.mark.parametrize("form", [np.asarray, np.ndarray.tolist, pd.DataFrame, sp.csc_array])
def test_a_float_matrix_holds_prior_weights(form):
    weights = np.array([[0.6, 0.2, 0.0], [0.0, 1.0, 0.0], [0.3, 0.0, 0.3]])
    found = check_candidates(form(weights))
    np.testing.assert_array_equal(found.mask, weights > 0)
    np.testing.assert_allclose(found.prior, [[0.75, 0.25, 0], [0, 1, 0], [0.5, 0, 0.5]], rtol=1e-6)
    assert found.has_prior


@pytest.mark.parametrize("factor", [0.3, 1e-300, np.array([[0.2], [0.7], [1.0]])])
def test_even_weights_are_plain_candidates(factor):
    found, plain = check_candidates(MATRIX * factor), check_candidates(MATRIX)
    np.testing.assert_array_equal(found.prior, plain.prior)
    assert not found.has_prior


def test_tiny_weights_remain_candidates():
    found = check_candidates(np.array([[1e-300, 1.0, 0.0], [0.5, 0.5, 0.0]]))
    assert found.sizes.tolist() == [2, 2]
    assert 0 < found.prior[0, 0] < 1e-8


def test_rows_of_a_fitted_matrix_may_have_no_zero():
    assert check_candidates(np.tile([0.7, 0.3], (10, 1)), classes=["a", "b"]).has_prior


@pytest.mark.parametrize("y", [MATRIX, FRAME, FRAME * [0.5, 0.2, 0.1], [{("a", 1)}, {("b", 2)}]])
def test_a_frame_of_the_record_is_read_as_the_same_record(y):
    found = check_candidates(y)
    again = check_candidates(found.to_frame())
    assert again.classes.tolist() == found.classes.tolist()
    np.testing.assert_array_equal(again.mask, found.mask)
    np.testing.assert_allclose(again.prior, found.prior, rtol=1e-6)
    assert again.has_prior == found.has_prior


@pytest.mark.parametrize("rows", [slice(1, 3), [2, 1], np.array([False, True, True])])
def test_rows_of_a_record(rows):
    part = check_candidates(FRAME)[rows]
    assert isinstance(part, Candidates)
    assert len(part) == 2
    np.testing.assert_array_equal(part.mask, MATRIX[rows])
    assert part.index.tolist() == FRAME.index[rows].tolist()
    assert part.sizes.tolist() == MATRIX[rows].sum(axis=1).tolist()
    assert part.is_clean.tolist() == (part.sizes == 1).tolist()


def test_known_classes_are_matched():
    classes = np.array(["cat", "dog", "emu"])
    for y in ([{"emu"}, {"cat"}], ["emu", "cat"], np.eye(3)[[2, 0]]):
        assert check_candidates(y, classes=classes).mask.argmax(axis=1).tolist() == [2, 0]
    assert check_candidates(["emu"], classes=list(classes)).mask.shape == (1, 3)
    found = check_candidates(FRAME)
    assert check_candidates(found, classes=classes, n_samples=3) is found
    for change in ({"classes": ["cat", "emu", "dog"]}, {"n_samples": 4}):
        with pytest.raises(ValueError, match=r"must (be|have)"):
            check_candidates(found, **change)


def test_the_callers_data_are_left_alone():
    y = sp.csr_matrix((np.array([1, 0, 1]), np.array([2, 0, 1]), np.array([0, 2, 3])), shape=(2, 3))
    y.indices, y.data = np.append(y.indices, 99), np.append(y.data, 5)  # after the last row's end
    before = y.data.copy(), y.indices.copy(), y.indptr.copy()
    assert check_candidates(y).mask.tolist() == [[False, False, True], [False, True, False]]
    for name, array in zip(("data", "indices", "indptr"), before, strict=True):
        np.testing.assert_array_equal(getattr(y, name), array)
    dense = MATRIX.astype(bool)
    found = check_candidates(dense)
    dense[:] = False
    assert found.mask.any()


@pytest.mark.parametrize("labels", [["a", "b", "c"], [1.0, np.nan, 2.0], [(1, 1), (1, 2), (2, 1)]])
def test_row_labels_must_agree(labels):
    index = pd.Index(labels)
    X = pd.DataFrame({"size": [1.0, 2.0, 3.0]}, index=index)
    S = pd.DataFrame(MATRIX, index=index)
    order = [0, 2, 1]
    for y in (S, S[0], check_candidates(S), pa.table(S.rename(columns=str))):
        check_index(X, y)
        moved = y.iloc[order] if hasattr(y, "iloc") else getattr(y, "take", y.__getitem__)(order)
        with pytest.raises(ValueError, match=r"`w` must have.* row 1, .*w = w\.loc\[X.index\]\.$"):
            check_index(pa.table(X) if y is S else X, moved, name="w")
    with pytest.raises(ValueError, match=r"same order already, pass y\.set_axis\(X.index\)"):
        check_index(X, S.set_axis([5, 6, 7]))
    check_index(X, S.iloc[:2])  # the length has its own message
    check_index(X, MATRIX)
    check_index(X.to_numpy(), S.iloc[order])
    check_index(X, check_candidates(MATRIX))
    check_index(X, pa.table({"cat": [1, 0, 1]}))


def test_more_memory_than_the_limit_raises_before_it_is_taken():
    check_memory(8 * 2**30, "candidates", "")
    with pytest.raises(
        MemoryError, match=r"about 12\.1 GiB for votes, more than 8 GiB\. Use less\.$"
    ):
        check_memory(13e9, "votes", "Use less.")
    n = 200_000
    for y in (sp.eye_array(n, format="csr"), np.arange(n), [{i} for i in range(n)]):
        with pytest.raises(MemoryError, match=r"200000 rows .* 200000 classes.*`partial_fit`"):
            check_candidates(y)


def test_softmax_over_candidates(rng):
    log_proba = rng.normal(size=(50, 5))
    mask = rng.uniform(size=(50, 5)) < 0.5
    mask[:, 0] = True
    prior = rng.uniform(size=(50, 5))
    expected = np.exp(log_proba) * mask
    for weights in (None, prior):
        product = expected if weights is None else expected * weights
        product = product / product.sum(axis=1, keepdims=True)
        for shift in (0, -1e4, 1e4):  # beyond what a probability in float64 can be
            found = candidate_softmax(log_proba + shift, mask, weights)
            np.testing.assert_allclose(found, product, rtol=1e-9)
    assert found.dtype == np.float64
    assert (found[~mask] == 0).all()


def test_softmax_of_rows_without_probability_gives_the_prior():
    log_proba = np.array([[-np.inf, -np.inf, 0.0], [-np.inf, 0.0, 0.0]], dtype=np.float32)
    mask = np.array([[True, True, False], [True, True, False]])
    assert candidate_softmax(log_proba, mask).tolist() == [[0.5, 0.5, 0], [0, 1, 0]]
    prior = np.array([[0.75, 0.25, 0.0], [0.5, 0.5, 0.0]])
    assert candidate_softmax(log_proba, mask, prior).tolist() == [[0.75, 0.25, 0], [0, 1, 0]]


def test_proportions_are_the_maximum_likelihood():
    labels = np.repeat([0, 1, 2], [5, 3, 2])
    np.testing.assert_allclose(estimate_proportions(labels), [0.5, 0.3, 0.2])
    mask = np.random.default_rng(0).random((200, 4)) < [0.2, 0.4, 0.6, 0.0]
    mask[~mask.any(axis=1), 0] = True
    pi = estimate_proportions(mask)
    np.testing.assert_allclose(pi.sum(), 1)
    assert pi[3] == 0
    # the gradient of the likelihood is flat on the support and lower elsewhere
    gradient = (mask / (mask @ pi)[:, None]).mean(axis=0)
    np.testing.assert_allclose(gradient[pi > 1e-6], 1, atol=1e-4)
    assert (gradient <= 1 + 1e-4).all()
    for form in (check_candidates(mask), sp.csr_array(mask), mask.astype(float)):
        np.testing.assert_array_equal(estimate_proportions(form), pi)
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        estimate_proportions(mask, max_iter=2)


def test_large_data_in_about_a_second():
    rng = np.random.default_rng(0)
    mask = rng.random((100_000, 50)) < 0.1
    mask[:, 0] = True
    names = np.array([f"class {j:02d}" for j in range(50)])
    labels = rng.integers(0, 50, 300_000).tolist()
    for y in ([set(names[row].tolist()) for row in mask], mask * 0.5, pd.DataFrame(mask), labels):
        start = time.perf_counter()
        found = check_candidates(y)
        assert time.perf_counter() - start < 5  # takes 0.1 to 0.5 seconds
        np.testing.assert_array_equal(found.mask, np.eye(50)[labels] if y is labels else mask)
