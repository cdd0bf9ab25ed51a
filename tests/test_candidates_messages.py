"""Bad candidates raise with the parameter, the value, the row and a remedy: one table."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from sklearn_cleanse.candidates import check_candidates

MATRIX = np.array([[1, 1, 0], [0, 1, 0], [1, 0, 1]])
BIG = 2**53 + 1  # the first integer that float64 cannot hold
SETS = r"pass a list of sets such as \[{'cat', 'dog'}, {'cat'}\]"
ANNOTATORS = r"column holds the labels of one annotator, pass S = .*candidates_from_annotations"
THRESHOLD = r"positive weights for all labels of all rows. Pass S = weights > 0.1"


def replaced(form, **parts):
    """MATRIX in a sparse format, with some of its arrays replaced unseen by scipy."""
    matrix = sp.csr_array(MATRIX).asformat(form)
    for name, value in parts.items():
        setattr(matrix, name, value)
    return matrix


def edited(form, name, position, value):
    array = np.array(getattr(sp.csr_array(MATRIX).asformat(form), name), copy=True)
    array[position] = value
    return replaced(form, **{name: array})


def lists(change):
    matrix = sp.lil_array(MATRIX)
    matrix.rows[0] = change
    return matrix


def keys(row, column):
    matrix = sp.dok_array(MATRIX)
    matrix._dict[(row, column)] = 1
    return matrix


def frame(values, columns):
    return pd.DataFrame(values, columns=columns)


def with_value(value):
    matrix = MATRIX.astype(float)
    matrix[2, 1] = value
    return matrix


ZEROS = np.array([[1, 1], [0, 0], [0, 0]])
PAIRS = pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)])

BAD = {
    # values of a matrix
    "above": (with_value(1.5), r"Candidates must lie between 0 and 1, got 1.5 in row 2, column 1"),
    "scores": (with_value(1.5), r"For scores, pass S = scores > 0.1. For label names, " + SETS),
    "minus": (with_value(-1).astype(int), r"got -1 in row 2, column 1"),
    "two": (with_value(2).astype(int), r"got 2 in row 2, column 1.*" + ANNOTATORS),
    "NaN": (with_value(np.nan), r"got nan in row 2, column 1. Write 1 for a candidate and 0 for"),
    "infinity": (with_value(np.inf), r"got inf in row 2, column 1"),
    "huge": (np.array([[1, 10**400], [0, 1]], dtype=object), r"got 10+ in row 0, column 1"),
    "sparse NaN": (sp.csr_array(with_value(np.nan)), r"got nan in row 2, column 1"),
    "sparse 2": (sp.coo_array(with_value(2)), r"got 2.0 in row 2, column 1"),
    "sparse twice": (sp.coo_array((np.ones(3), ([0, 0, 1], [1, 1, 0]))), r"got 2.0 in row 0"),
    "frame": (frame(with_value(3), list("abc")), r"got 3.0 in row 2, column 1.*" + ANNOTATORS),
    "None": (frame({"a": [1, None], "b": [0, 1]}, ["a", "b"]), r"got nan in row 1, column 0"),
    "NA": (frame({"a": [1, pd.NA], "b": [0, 1]}, ["a", "b"]), r"got <NA> in row 1, column 0"),
    "nullable": (frame([[1, 1], [0, pd.NA]], ["a", "b"]).astype("Int64"), r"got <NA> in row 1"),
    "text": (np.array([["cat", "dog"]] * 2), r"got 'cat' in row 0, column 0.*" + ANNOTATORS),
    "digits": (np.array([["1", "0"], ["0", "1"]]), r"got '1' in row 0, column 0"),
    "digits in lists": (MATRIX.astype(str).tolist(), r"numbers, got \['1', '1', '0'\] in row 0"),
    "words in lists": ([("True", "False"), ("False", "True")], r"np.array\(y\) == 'True'"),
    "objects": (np.array([["cat", "dog"]] * 2, dtype=object), r"got 'cat' in row 0, column 0"),
    "dates": (frame({"a": pd.to_datetime(["2020"] * 2), "b": 1}, ["a", "b"]), r"got Timestamp"),
    "complex": (np.ones((2, 2)) * 1j, r"got 1j in row 0, column 0"),
    "sparse complex": (sp.csr_array(np.ones((2, 2)) * 1j), r"got 1j in row 0, column 0"),
    "no zero": (np.full((3, 3), 0.2), THRESHOLD),
    "no zero, list": ([[0.7, 0.3], [0.2, 0.8]], THRESHOLD),
    # rows and columns
    "no candidate": (ZEROS, r"Every row must have a candidate, got none in row 1 \(2 in all\)."),
    "no candidate, sparse": (sp.csr_array(ZEROS), r"none in row 1"),
    "no candidate, weights": (ZEROS * 0.5, r"none in row 1"),
    "no candidate, sets": ([{"a", "b"}, set()], r"none in row 1 \(1 in all\)"),
    "ragged": ([[1, 0, 1], [1, 0]], r"equally long, got 2 values in row 1 and 3 in row 0"),
    "one class": (["a", "a"], r"at least two classes, got 1"),
    "one sparse column": (sp.csr_array(np.ones((3, 1))), r"at least two classes, got 1"),
    "no class": (np.ones((3, 0)), r"at least two classes, got 0"),
    "no row": (np.ones((0, 3)), r"`y` must have at least one row, got an empty one \(0 sample"),
    "empty": ([], r"at least one row"),
    "3-D": (np.ones((2, 2, 2)), r"1 or 2 dimensions, got 3: \(2, 2, 2\)"),
    "0-D": (np.array(3), r"1 or 2 dimensions, got 0"),
    "same names": (frame(MATRIX, ["a", "b", "a"]), r"must be distinct.*, got 'a' in column 2"),
    "missing name": (frame(MATRIX, ["a", np.nan, "b"]), r"not missing, got nan in column 1"),
    "MultiIndex": (frame(MATRIX, PAIRS), r"Columns of `y` must be a 1-D list.*, got MultiIndex"),
    "masked": (np.ma.array(MATRIX), r"`y` must not be masked. Pass y.filled\(0\)"),
    "masked weights": (np.ma.array(MATRIX * 0.5), r"must not be masked"),
    "masked row": ([np.ma.array([1, 0]), np.ones(2)], r"masked_array.* in row 0"),
    "masked label": ([1, np.ma.masked], r"got masked \(MaskedConstant\) in row 1"),
    # sparse matrices that scipy's compiled code may crash on
    "too far": (edited("csr", "indices", 1, 3), r"Sparse candidates must be well-formed.*< 3"),
    "one-based": (
        sp.csr_array((np.ones(3), np.array([1, 4, 2]), np.array([0, 1, 2, 3])), (3, 4)),
        r"must be < 4. Build it .* that count from zero: subtract 1 if yours count from one",
    ),
    "negative": (edited("csr", "indices", 2, -1), r"must be >= 0"),
    "falling": (edited("csr", "indptr", 1, 5), r"indptr falls"),
    "falling far": (edited("csr", "indptr", 1, -(2**31)), r"indptr falls"),
    "not integers": (replaced("csr", indptr=np.array([0, np.nan, 3, 5])), r"not integers"),
    "falling to 0": (replaced("csr", indptr=np.array([0, 5, 5, 0])), r"indptr falls"),
    "late": (edited("csr", "indptr", 0, 1), r"should start with 0"),
    "beyond": (edited("csr", "indptr", 3, 99), r"index pointer should be less"),
    "short": (replaced("csr", indptr=np.array([0, 5])), r"index pointer size 2 should be 4"),
    "few values": (replaced("csr", data=np.ones(3)), r"should have the same size"),
    "csc": (edited("csc", "indices", 0, 4), r"must be < 3"),
    "bsr": (edited("bsr", "indices", 0, 9), r"must be < 3"),
    "coo": (replaced("coo", coords=(np.arange(3), np.array([0, 1, 3]))), r"well-formed"),
    "coo row": (replaced("coo", coords=(np.arange(5), np.zeros(5, int))), r"index 4 exceeds"),
    "coo negative": (replaced("coo", coords=(np.arange(5) - 1, np.zeros(5, int))), r"well-formed"),
    "lil": (lists([0, 4]), r"well-formed"),
    "lil lengths": (lists([0, 1, 2]), r"well-formed"),
    "lil None": (lists(None), r"well-formed"),
    "dok": (keys(1, 4), r"well-formed"),
    "dia": (replaced("dia", data=np.ones((99, 3))), r"well-formed"),
    "sparse text": (replaced("csr", data=np.array(list("abcde"), dtype=object)), r"well-formed"),
    "sparse vector": (sp.coo_array(np.array([1, 0, 1])), r"shape \(3,\) instead of two dim"),
    # what has no row per sample
    "str": ("cat", r"`y` must be a candidate matrix, a list of label sets, or .*got str 'cat'"),
    "bytes": (b"cat", r"got bytes b'cat'. Pass a list in the order of the rows of X"),
    "int": (7, r"got int 7"),
    "None instead": (None, r"requires y to be passed, but the target y is None"),
    "dict": ({"a": [1, 0], "b": [0, 1]}, r"got dict {'a'.*Pass a list in the order of the rows"),
    "set": ({"a", "b"}, r"got set {.*Pass a list"),
    # labels and collections of them
    "missing": ([{"a", None}, {"b"}], r"got None in row 0. Leave missing labels out"),
    "missing label": (["a", None, "b"], r"got None in row 1.*; mark all classes if none is known"),
    "NaN label": (np.array([1.0, np.nan, 2.0]), r"got nan in row 1"),
    "NA label": (pd.Series(["a", pd.NA, "b"], dtype="string"), r"in row 1"),
    "NaT label": (np.array(["2020", "NaT"], dtype="M8[ns]"), r"in row 1"),
    "list in list": ([{"a"}, [["b"]]], r"Labels must be hashable.*, got \['b'\] in row 1"),
    "list in some": ([[1, [2]], [3, 4]], r"got \[2\] in row 0"),
    "lone label": ([{"a"}, "b"], r"got 'b' \(str\) in row 1. Write each row as a set, such as"),
    "lone set": (["b", {"a"}], r"got {'a'} \(set\) in row 1"),
    "dict rows": ([{"a": 1}, {"b": 1}], r"got {'a': 1} \(dict\) in row 0"),
    "object rows": (np.array([{"a"}, {"b": 1}], dtype=object), r"\(dict\) in row 1"),
    "generator": ([(label for label in "ab")], r"\(generator\) in row 0. Write each row as a set"),
    "range": ([range(2), range(3)], r"got range\(0, 2\) \(range\) in row 0"),
    "types": ([{"b"}, {"a", 1}], r"comparable.*got .*in row \d and .* in row 1. Use strings"),
    "types, list": (["a", "b", 1], r"'a' \(str\) in row 0 and 1 \(int\) in row 2"),
    "types, array": (np.array([1, "a"], dtype=object), r"1 \(int\) in row 0 and 'a' \(str\) in r"),
    "types, bytes": ([b"a", "a"], r"b'a' \(bytes\) in row 0 and 'a' \(str\) in row 1"),
    "unordered": ([{frozenset("a")}, {frozenset("b")}], r"comparable.*, got frozenset"),
    "tuples": ([{("a", 1)}, {(1, "a")}], r"got \('a', 1\) \(tuple\) in row 0"),
    "merging": ([{BIG, 0.5}, {BIG - 1}], rf"one array, got {BIG} \(int\) in row 0, which would"),
    "merging unsigned": ([{np.uint64(2**63 + 1), np.int64(-1)}, {3}], rf"got {2**63 + 1} \(int\)"),
    "merging list": ([-1, 2**63 + 1, 2**63], rf"got {2**63 + 1} \(int\) in row 1"),
    "merging Series": (pd.Series([1, BIG, 2.0], dtype=object), rf"got {BIG} \(int\) in row 1"),
    "NUL": (["a\0", "a"], r"got 'a\\x00' \(str\) in row 0, which would become 'a'.*without NUL"),
    "NUL, set": ([{b"b"}, {b"a\0"}], r"got b'a\\x00' \(bytes\) in row 1"),
    "numbers": ([0.5, 0.7, 0.1], r"Unknown label type: continuous"),
}  # fmt: skip


@pytest.mark.parametrize(("y", "message"), BAD.values(), ids=BAD)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
@pytest.mark.filterwarnings("ignore:Warning. converting a masked element to nan")  # numpy's
def test_bad_candidates(y, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        check_candidates(y)


ANIMALS = np.array(["cat", "dog", "emu"])


@pytest.mark.parametrize(
    ("y", "keywords", "message"),
    [
        (MATRIX, {"n_samples": 4}, r"`y` must have as many rows as X, 4, got 3"),
        ([{"cat"}, {"fox"}], {"classes": ANIMALS}, r"'cat', 'dog', 'emu', got 'fox' in row 1"),
        (["cat", "fox"], {"classes": ANIMALS}, r"got 'fox' in row 1. Leave it out, or add it to"),
        ([{BIG - 1}, {BIG}], {"classes": [float(BIG - 1), 0.5]}, rf"got {BIG} in row 1"),
        ([{"a\0"}], {"classes": ["a", "b"]}, r"got 'a\\x00' in row 0"),
        (np.ones((2, 4)), {"classes": ANIMALS}, r"3 classes seen in fit.*got 4 columns"),
        (frame(MATRIX, ["dog", "cat", "emu"]), {"classes": ANIMALS}, r"got 3 .*'dog' in column 0"),
        (MATRIX, {"classes": ["a", "b", "a"]}, r"`classes` must be distinct.*'a' in column 2"),
        (MATRIX, {"classes": ["a", None, "b"]}, r"not missing, got None in column 1"),
        (MATRIX, {"classes": {"a", "b", "c"}}, r"`classes` must be a 1-D list.*, got {"),
        (MATRIX, {"classes": "abc"}, r"1-D list, one label per class, got 'abc'"),
        (MATRIX, {"classes": np.array([["a", "b", "c"]])}, r"1-D list.*got array\("),
        (MATRIX, {"classes": ["a", "b", 1]}, r"Labels must fit into one array, got 1 \(int\)"),
    ],
)
def test_candidates_that_do_not_match(y, keywords, message):
    with pytest.raises(ValueError, match=message):
        check_candidates(y, **keywords)
