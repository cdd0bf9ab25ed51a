"""Sparse candidates are checked fully before scipy's compiled code, which may crash, sees them."""

import numpy as np
import pytest
import scipy.sparse as sp

from sklearn_cleanse import DPCLSClassifier, PLCGRClassifier
from sklearn_cleanse.candidates import check_candidates, estimate_proportions
from sklearn_cleanse.metrics import disambiguation_accuracy

S = np.array([[1, 1, 0, 0], [0, 1, 0, 1], [1, 0, 1, 0], [0, 0, 0, 1]])
FORMATS = ["csr", "csc", "coo", "lil", "dok", "dia", "bsr"]


def changed(form="csr", **parts):
    """S in a sparse format, with some of its arrays replaced afterwards, unseen by scipy."""
    matrix = sp.csr_array(S).asformat(form)
    for name, value in parts.items():
        setattr(matrix, name, value)
    return matrix


def edited(form, name, position, value):
    matrix = sp.csr_array(S).asformat(form)
    array = getattr(matrix, name).copy()
    array[position] = value
    setattr(matrix, name, array)
    return matrix


def lists(row, column):
    matrix = sp.lil_array(S)
    matrix.rows[row] = [*matrix.rows[row][:-1], column]
    return matrix


def keys(row, column):
    matrix = sp.dok_array(S)
    matrix._dict[(row, column)] = 1
    return matrix


def coordinates(rows, columns):
    matrix = sp.coo_array((np.ones(2), (np.array([0, 1]), np.array([0, 1]))), shape=(2, 3))
    matrix.coords = (np.array(rows), np.array(columns))
    return matrix


FAULTS = {
    "one too far": (lambda: edited("csr", "indices", 1, 4), r"row 0 of .* column 4, .* 0 to 3"),
    "one-based": (
        lambda: sp.csr_array((np.ones(3), np.array([1, 4, 2]), np.array([0, 1, 2, 3])), (3, 4)),
        r"row 1 of the sparse matrix y has an entry in column 4, .* subtract 1 if your classes",
    ),
    "far away": (lambda: edited("csr", "indices", 0, 2**30), r"column 1073741824"),
    "negative": (lambda: edited("csr", "indices", 2, -1), r"row 1 of .* column -1"),
    "float": (lambda: changed(indices=np.ones(7)), r"column indices have dtype float64"),
    "falling": (lambda: edited("csr", "indptr", 1, 5), r"indptr falls from 5 to 4 at 1"),
    "late": (lambda: edited("csr", "indptr", 0, 1), r"5 integers, the first of them 0"),
    "beyond": (lambda: edited("csr", "indptr", 4, 99), r"ends at 99, but there are 7 entries"),
    "short": (lambda: changed(indptr=np.array([0, 7])), r"indptr must hold 5 integers"),
    "few values": (lambda: changed(data=np.ones(3)), r"ends at 7, but there are 3 entries"),
    "few indices": (lambda: changed(indices=np.zeros(3, int)), r"but there are 3 entries"),
    "csc": (lambda: edited("csc", "indices", 0, 4), r"entry in row 4, .* samples are numbered"),
    "csc negative": (lambda: edited("csc", "indices", 0, -7), r"entry in row -7"),
    "csc pointers": (lambda: edited("csc", "indptr", 1, 9), r"indptr falls from 9"),
    "bsr": (
        lambda: edited("bsr", "indices", 0, 9),
        r"the sparse matrix y has an entry in column \d+",
    ),
    "coo column": (lambda: coordinates([0, 1], [0, 3]), r"entry in column 3, .* 0 to 2"),
    "coo row": (lambda: coordinates([0, 2], [0, 1]), r"entry in row 2, .* 0 to 1"),
    "coo negative": (lambda: coordinates([0, -1], [0, 1]), r"entry in row -1"),
    "coo lengths": (lambda: coordinates([0], [0, 1]), r"differ in number"),
    "lil": (lambda: lists(2, 4), r"row 2 of .* column 4"),
    "lil lengths": (lambda: lists_without_value(), r"differ in length"),
    "dok": (lambda: keys(1, 4), r"entry in column 4"),
    "dok row": (lambda: keys(4, 0), r"entry in row 4"),
}


def lists_without_value():
    matrix = sp.lil_array(S)
    matrix.rows[0] = [0, 1, 2]
    return matrix


@pytest.mark.parametrize(("make", "message"), FAULTS.values(), ids=FAULTS)
def test_indices_that_point_outside_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        check_candidates(make())


@pytest.mark.parametrize("cls", [PLCGRClassifier, DPCLSClassifier])
def test_one_based_classes_do_not_reach_a_fit(cls):
    rng = np.random.default_rng(0)
    S = sp.csr_array((np.ones(30), rng.integers(1, 4, 30), np.arange(31)), shape=(30, 3))
    with pytest.raises(ValueError, match="numbered from one"):
        cls().fit(rng.normal(size=(30, 2)), S)


def test_other_doors_are_watched_as_well():
    with pytest.raises(ValueError, match=r"the sparse matrix candidates has an entry in column 4"):
        estimate_proportions(edited("csr", "indices", 1, 4))
    with pytest.raises(ValueError, match=r"the sparse matrix y_proba has an entry in column 4"):
        disambiguation_accuracy(S, edited("csr", "indices", 1, 4), [0, 1, 2, 3])


@pytest.mark.parametrize("form", FORMATS)
def test_every_sound_format_is_read(form):
    matrix = sp.csr_array(S).asformat(form)
    np.testing.assert_array_equal(check_candidates(matrix)[1].toarray(), S)
    empty = sp.csr_array((3, 4)).asformat(form)
    with pytest.raises(ValueError, match="row 0 has no candidate"):
        check_candidates(empty)


def test_entries_beyond_the_last_row_are_not_looked_at():
    matrix = changed(indices=np.append(sp.csr_array(S).indices, 99), data=np.ones(8))
    np.testing.assert_array_equal(check_candidates(matrix)[1].toarray(), S)


def test_blocks_are_read():
    blocks = sp.bsr_array(S, blocksize=(2, 2))
    np.testing.assert_array_equal(check_candidates(blocks)[1].toarray(), S)


def test_a_sparse_vector_is_refused():
    with pytest.raises(ValueError, match=r"shape \(3,\); expected two dimensions"):
        check_candidates(sp.coo_array(np.array([1, 0, 1])))
