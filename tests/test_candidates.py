import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import DataConversionWarning

from sklearn_cleanse.candidates import candidate_counts, check_candidates, covers, is_clean

MATRIX = np.array([[1, 1, 0], [0, 1, 0], [1, 0, 1]])


@pytest.mark.parametrize(
    "y",
    [
        MATRIX,
        MATRIX.astype(bool),
        MATRIX.astype(float),
        MATRIX.astype(object),
        MATRIX.tolist(),
        sp.csr_matrix(MATRIX),
        sp.csc_array(MATRIX.astype(bool)),
        sp.coo_matrix(MATRIX.astype(float)),
        sp.lil_matrix(MATRIX),
    ],
    ids=lambda y: type(y).__name__ + str(getattr(y, "dtype", "")),
)
def test_every_matrix_form_reads_the_same(y):
    classes, candidates = check_candidates(y)
    assert candidates.dtype == bool
    assert classes.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(candidates.toarray(), MATRIX.astype(bool))


@pytest.mark.parametrize("dtype", [int, bool, float, "boolean", "Int64", "Sparse[int]"])
def test_columns_of_a_frame_are_the_classes(dtype):
    frame = pd.DataFrame(MATRIX, columns=["cat", "dog", "emu"]).astype(dtype)
    classes, candidates = check_candidates(frame)
    assert classes.tolist() == ["cat", "dog", "emu"]
    np.testing.assert_array_equal(candidates.toarray(), MATRIX.astype(bool))


@pytest.mark.parametrize("kind", [set, frozenset, list, tuple])
def test_collections_of_strings(kind):
    rows = [kind(["cat", "dog"]), kind(["dog"]), kind(["cat", "emu"])]
    classes, candidates = check_candidates(rows)
    assert classes.tolist() == ["cat", "dog", "emu"]
    np.testing.assert_array_equal(candidates.toarray(), MATRIX.astype(bool))
    np.testing.assert_array_equal(check_candidates(pd.Series(rows))[1].toarray(), MATRIX)


def test_collections_of_numbers():
    classes, candidates = check_candidates([{3, 5}, {5}, {3, 9}])
    assert classes.tolist() == [3, 5, 9]
    np.testing.assert_array_equal(candidates.toarray(), MATRIX.astype(bool))
    np.testing.assert_array_equal(check_candidates([[3, 5], [5], [3, 9]])[1].toarray(), MATRIX)


def test_tuples_may_be_labels():
    classes, candidates = check_candidates([{("a", 1), ("b", 2)}, {("b", 2)}])
    assert classes.tolist() == [("a", 1), ("b", 2)]
    np.testing.assert_array_equal(candidates.toarray(), [[1, 1], [0, 1]])


def test_a_label_named_twice_is_one_candidate():
    _, candidates = check_candidates([["cat", "cat"], ["dog"]])
    assert is_clean(candidates).all()


@pytest.mark.parametrize(
    "y", [["b", "a", "b"], np.array([7, 3, 7]), pd.Series([True, False, True])]
)
def test_labels_are_candidate_sets_of_one(y):
    classes, candidates = check_candidates(y)
    assert is_clean(candidates).all()
    np.testing.assert_array_equal(classes[candidates.indices], np.asarray(y))


def test_columns_never_marked_are_still_classes():
    classes, candidates = check_candidates(np.array([[1, 0, 0], [1, 1, 0]]))
    assert len(classes) == candidates.shape[1] == 3


def test_all_ones_rows_are_legal():
    assert check_candidates(np.ones((4, 3)))[1].nnz == 12


def test_the_callers_sparse_matrix_is_left_alone():
    y = sp.csr_matrix((np.array([1, 0, 1]), np.array([2, 0, 1]), np.array([0, 2, 3])), shape=(2, 3))
    before = y.copy()
    check_candidates(y)
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(y, name), getattr(before, name))


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.array([[1, 1], [0, 0], [0, 0]]), r"row 1 has no candidate label \(2 such"),
        (sp.csr_array(np.array([[1, 1], [0, 0]])), r"row 1 has no candidate"),
        ([{"a", "b"}, set()], r"row 1 has no candidate"),
        (np.array([[1, 0], [1, 2]]), r"row 1, column 1 .* is 2; only 0 and 1"),
        (sp.csr_array(np.array([[1, 0], [1, -1]])), r"row 1, column 1 .* is -1; only 0 and 1"),
        (np.array([[1, 0.5], [1, 0]]), r"row 0, column 1 .* is 0.5; only 0 and 1"),
        (np.array([[1, 0], [np.nan, 1]]), r"row 1, column 0 .* is NaN"),
        (sp.csr_array(np.array([[1, 0], [np.nan, 1]])), r"row 1, column 0 .* is NaN"),
        (pd.DataFrame({"a": [1, None], "b": [0, 1]}), r"row 1, column 0 .* is NaN"),
        (np.array([["cat", "dog"], ["cat", "emu"]]), r"holds 'cat'; it may hold only 0 and 1"),
        ([[1, 0, 1], [1, 0]], r"ragged: row 1 has 2 entries where row 0 has 3"),
        (np.ones((3, 1)), r"only one class"),
        (["a", "a"], r"only one class"),
        (np.ones((0, 3)), r"empty"),
        ([], r"empty"),
        ([{"a"}, [["b"]]], r"row 1 holds the label \['b'\], which is unhashable"),
        ([{"a", 1}, {"b"}], r"different types"),
        ([{"a", None}, {"b"}], r"row 0 holds a missing label"),
        (["a", None, "b"], r"row 1: the label is missing"),
        (np.array([1.0, np.nan, 2.0]), r"row 1: the label is missing"),
        ([{"a"}, "b"], r"row 1 of y is 'b', not a collection"),
        (np.ones((2, 2, 2)), r"3 dimensions"),
        (np.ones((2, 2)) * 1j, r"holds 1j"),
        (sp.csr_array(np.ones((2, 2)) * 1j), r"dtype complex128"),
        (np.array([["1", "0"], ["0", "1"]]), r"row 0 of the candidate matrix holds '1'"),
        (pd.DataFrame({"a": [1, pd.NA], "b": [0, 1]}), r"row 1, column 0 .* is NaN"),
        ([{"a", pd.NA}, {"b"}], r"row 0 holds a missing label"),
        (pd.Series(["a", pd.NA, "b"], dtype="string"), r"row 1: the label is missing"),
        (pd.DataFrame([[1, 0], [0, 1]], columns=["a", "a"]), r"two columns .* 'a'"),
        ("cat", r"y is 'cat'"),
        (7, r"y is 7"),
        (None, r"y is None"),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
def test_bad_candidates_are_refused_by_row_and_remedy(y, message):
    with pytest.raises(ValueError, match=message):
        check_candidates(y)


def test_wrong_row_count_is_refused():
    with pytest.raises(ValueError, match=r"X has 4 rows but y has 3"):
        check_candidates(MATRIX, n_samples=4)


def test_a_column_of_labels_is_taken_as_labels_with_a_warning():
    with pytest.warns(DataConversionWarning, match="column-vector"):
        classes, _ = check_candidates(np.array([[4], [5]]))
    assert classes.tolist() == [4, 5]


def test_known_classes_are_matched():
    classes = np.array(["cat", "dog", "emu"])
    _, candidates = check_candidates([{"emu"}, {"cat"}], classes=classes)
    np.testing.assert_array_equal(candidates.toarray(), [[0, 0, 1], [1, 0, 0]])
    _, candidates = check_candidates(["emu"], classes=classes)
    np.testing.assert_array_equal(candidates.toarray(), [[0, 0, 1]])


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([{"cat"}, {"fox"}], r"row 1 has the label 'fox'"),
        (np.ones((2, 4)), r"has 4 columns, but the classes seen in fit are 3: 'cat', 'dog', 'emu'"),
        (pd.DataFrame(MATRIX, columns=["dog", "cat", "emu"]), r"column 0 .* 'dog', but class 0"),
    ],
)
def test_unknown_classes_are_refused(y, message):
    with pytest.raises(ValueError, match=message):
        check_candidates(y, classes=np.array(["cat", "dog", "emu"]))


def test_counts_bound_the_truth(rng):
    y = rng.randint(4, size=200)
    S = rng.uniform(size=(200, 4)) < 0.3
    S[np.arange(200), y] = True
    lower, upper = candidate_counts(check_candidates(S)[1])
    counts = np.bincount(y, minlength=4)
    assert (lower <= counts).all()
    assert (counts <= upper).all()


def test_covers_looks_up_each_rows_own_set():
    _, candidates = check_candidates(MATRIX)
    assert covers(candidates, np.array([0, 0, 2])).tolist() == [True, False, True]
