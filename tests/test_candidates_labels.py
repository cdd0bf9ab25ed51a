"""Labels stay what they are: nothing merges or multiplies on the way to a column."""

import datetime
import enum

import numpy as np
import pandas as pd
import pytest

from sklearn_cleanse import PLCGRClassifier
from sklearn_cleanse.candidates import check_candidates
from sklearn_cleanse.candidates._labels import join_classes
from sklearn_cleanse.datasets import candidates_from_votes
from sklearn_cleanse.metrics import (
    approximated_accuracy,
    candidate_report,
    covering_rate,
    truth_scorer,
)

BIG = 2**53 + 1  # the first integer that float64 cannot hold


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (
            [{frozenset("a"), frozenset("b")}, {frozenset("c")}, {frozenset("b")}],
            r"labels cannot be ordered: the label frozenset.* of row \d and the label frozenset",
        ),
        ([{("a", 1)}, {(1, "a")}], r"labels cannot be ordered: the label \('a', 1\) \(tuple\)"),
        (
            [{BIG, 0.5}, {BIG - 1}],
            rf"the label {BIG} \(int\) of row 0 would become",
        ),
        (
            [{2**63 + 1, -1}, {2**63}],
            r"the label 9223372036854775809 \(int\) of row 0 would become",
        ),
        ([{np.uint64(2**63 + 1), np.int64(-1)}, {3}], r"the label 9223372036854775809 \(int\)"),
        ([-1, 2**63 + 1, 2**63], r"the label 9223372036854775809 \(int\) of row 1 would become"),
        ([BIG, BIG - 1, 0.0], rf"the label {BIG} \(int\) of row 0"),
        (np.array([BIG, BIG - 1, 0.0], dtype=object), rf"the label {BIG} \(int\) of row 0"),
        (pd.Series([1, BIG, 2.0], dtype=object), rf"the label {BIG} \(int\) of row 1"),
        ([[2**63 + 1], [-1]], r"the label 9223372036854775809 \(int\) of row 0"),
        ([2**64, 1], r"row 0 of y is 18446744073709551616 \(int\); labels are strings or integers"),
        (["a\0", "a"], r"the label 'a\\x00' \(str\) of row 0 would become 'a'.* remove the NUL"),
        ([{"a\0", "b"}, {"a"}], r"the label 'a\\x00' \(str\) of row 0 would become 'a'"),
        (np.array(["b", "a\0"], dtype=object), r"the label 'a\\x00' \(str\) of row 1"),
        ([{b"a\0"}, {b"a"}], r"the label b'a\\x00' \(bytes\) of row 0"),
        ({"first": "a", "second": "b"}, r"y is a dict, .* such as list\(y.values\(\)\)"),
        ({"a": [1, 0], "b": [0, 1]}, r"y is a dict"),
        ({"a", "b"}, r"y is a set, which has no row per sample"),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
def test_labels_that_would_merge_or_multiply_are_refused(y, message):
    with pytest.raises(ValueError, match=message):
        check_candidates(y)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (
            pd.DataFrame({"a": [1, 0], "b": [1, pd.NA]}, dtype="Int64"),
            r"row 1, column 1 of the candidate matrix is NaN; write 1",
        ),
        (
            pd.DataFrame({"a": [True, False], "b": [True, pd.NA]}, dtype="boolean"),
            r"row 1, column 1 of the candidate matrix is NaN",
        ),
        (
            ["a", "b", 1],
            r"different types .* 'a' \(str\) of row 0 and the label 1 \(int\) of row 2",
        ),
        (np.array([1, "a"], dtype=object), r"the label 'a' \(str\) of row 1 .* 1 \(int\) of row 0"),
        ([True, "a"], r"the label 'a' \(str\) of row 1 and the label True \(bool\) of row 0"),
        ([b"a", "a"], r"the label 'a' \(str\) of row 1 and the label b'a' \(bytes\) of row 0"),
        (np.array([1, 2, object()], dtype=object), r"row 2 of y is <object.* sets of one"),
        ([datetime.date(2020, 1, 1), "a"], r"row 0 of y is datetime.date\(2020, 1, 1\) \(date\)"),
        ([{"a": 1}, {"b": 1}], r"row 0 of y is of type dict; write its labels as a set"),
        ([{"a"}, {"b": 1}], r"row 1 of y is of type dict"),
        (
            [(label for label in "ab")],
            r"row 0 of y is of type generator; write its labels as a set",
        ),
        ([{"a"}, map(str, [1])], r"row 1 of y is of type map"),
        ([range(2), range(3)], r"row 0 of y is of type range"),
        (np.array([{"a"}, {"b": 1}], dtype=object), r"row 1 of y is of type dict"),
        ([[1, [2]], [3, 4]], r"y is ragged: some entry holds several values; give every row one"),
    ],
)
def test_odd_rows_are_refused_by_row_value_and_remedy(y, message):
    with pytest.raises(ValueError, match=message):
        check_candidates(y)


@pytest.mark.parametrize(
    ("y_pred", "message"),
    [
        ({"x": "a", "y": "b"}, r"y_pred is \{'x': .*; expected a list of labels, one per sample"),
        ("ab", r"y_pred is 'ab'; expected a list of labels"),
        (None, r"y_pred is None; expected a list"),
        ([{"a"}, {"b"}], r"row 0 of y_pred is \{'a'\}; expected a single label"),
        (np.eye(2), r"y_pred has shape \(2, 2\); expected one label per sample"),
        (["a\0", "b"], r"the label 'a\\x00' \(str\) would become 'a'"),
        (["a", 1], r"labels of different types"),
    ],
)
def test_odd_predictions_are_refused(y_pred, message):
    with pytest.raises(ValueError, match=message):
        covering_rate([{"a"}, {"b"}], y_pred)


class Animal(enum.IntEnum):
    CAT = 3
    DOG = 5


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        ([{BIG}, {BIG - 1}, {BIG, -BIG}], [-BIG, BIG - 1, BIG]),
        ([BIG, BIG - 1, -BIG], [-BIG, BIG - 1, BIG]),
        (np.array([BIG, BIG - 1], dtype=object), [BIG - 1, BIG]),
        ([2**64 - 1, 2**64 - 2], [2**64 - 2, 2**64 - 1]),
        ([{2**64}, {-1}], [-1, 2**64]),
        ([{1, 2.5}, {2}], [1, 2, 2.5]),
        ([{True}, {False}], [False, True]),
        ([{frozenset("a")}, {frozenset("ab")}], [frozenset("a"), frozenset("ab")]),
        ([{datetime.date(2020, 1, 2)}, {datetime.date(2020, 1, 1)}], None),
        ([{Animal.DOG}, {Animal.CAT}], [3, 5]),
        ([{"a\0b"}, {"a"}], ["a", "a\0b"]),
        ({"first": "a", "second": "b"}.values(), ["a", "b"]),
        ((label for label in "ab"), ["a", "b"]),
    ],
)
def test_labels_that_an_array_can_hold_come_back_as_they_were(y, expected):
    if expected is None:
        expected = sorted(label for row in y for label in row)
    classes, candidates = check_candidates(y)
    assert classes.tolist() == expected
    assert candidates.shape[1] == len(expected)


def test_known_classes_are_not_confused_with_similar_labels():
    with pytest.raises(ValueError, match=rf"row 1 has the label {BIG}, none of"):
        check_candidates([{BIG - 1}, {BIG}], classes=[float(BIG - 1), 0.5])
    with pytest.raises(ValueError, match=r"row 0 has the label 'a\\x00', none of"):
        check_candidates([{"a\0"}], classes=["a", "b"])


CALLS = {
    "check_candidates": lambda c: check_candidates([{"a"}, {"b"}], classes=c),
    "a matrix": lambda c: check_candidates(np.eye(3, dtype=int), classes=c),
    "votes": lambda c: candidates_from_votes([["a", "b"]], classes=c),
    "covering_rate": lambda c: covering_rate([{"a"}, {"b"}], ["a", "b"], classes=c),
    "proba": lambda c: approximated_accuracy([{"a"}, {"b"}], np.eye(3)[:2], classes=c),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_classes_are_named_once_and_in_order(call):
    with pytest.raises(ValueError, match=r"classes holds 'a' twice; name each class once"):
        call(["a", "b", "a"])
    with pytest.raises(ValueError, match=r"classes is \{.*\}; expected a list of labels"):
        call({"a", "b", "c"})
    with pytest.raises(ValueError, match=r"labels of different types"):
        call(["a", "b", 1])
    with pytest.raises(ValueError, match=r"classes has shape \(1, 3\)"):
        call(np.array([["a", "b", "c"]]))


def test_a_class_called_all_keeps_its_row():
    S, predicted = [{"all", "some"}, {"some"}, {"all"}], ["all", "some", "some"]
    report = candidate_report(S, predicted, output_dict=True)
    assert report["all"] == {"candidates": 2, "clean": 1, "predicted": 1, "covering": 1.0}
    assert report["(all)"]["candidates"] == 3
    assert list(report) == ["all", "some", "(all)"]
    assert len(candidate_report(S, predicted).splitlines()) == 4
    report = candidate_report([{"all"}, {"(all)"}], ["all", "all"], output_dict=True)
    assert list(report) == ["(all)", "all", "((all))"]


def test_tuples_are_labels_from_fit_to_score(blobs):
    X, S, y = blobs
    names = [("cat", 0), ("dog", 1), ("cat", 2)]
    sets = [{names[j] for j in np.flatnonzero(row)} for row in S]
    model = PLCGRClassifier().fit(X, sets)
    truth = [names[j] for j in y]
    assert model.classes_.tolist() == sorted(names)
    assert model.score(X, sets) > 0.9
    assert model.score(X, sets, truth=truth) > 0.9
    assert truth_scorer(model, X, sets, truth=truth) == model.score(X, sets, truth=truth)
    assert covering_rate(sets, truth) == covering_rate(S, y) == 1
    labels = model.disambiguate(X, sets)
    assert all(label in row for label, row in zip(labels, sets, strict=True))
    with pytest.raises(ValueError, match=r"row 0 of truth is \('cow', 3\), which is none of"):
        model.score(X, sets, truth=[("cow", 3), *truth[1:]])


def test_measures_read_a_generator_once():
    sets = [{"cat", "dog"}, {"cat"}]
    assert covering_rate((row for row in sets), ["dog", "dog"]) == 0.5


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([np.array([2, 0]), np.array([1], dtype=np.uint8)], np.array([0, 1, 2])),
        ([np.array(["b"]), np.array(["a", "ccc"])], np.array(["a", "b", "ccc"])),
        ([np.array(["b"], object), np.array(["a"])], np.array(["a", "b"], object)),
        ([np.array([BIG]), np.array([BIG - 1])], np.array([BIG - 1, BIG])),
    ],
)
def test_classes_of_several_parts_are_all_their_labels_in_order(parts, expected):
    joined = join_classes(parts)
    np.testing.assert_array_equal(joined, expected)
    assert joined.dtype == expected.dtype


def test_parts_whose_labels_differ_in_type_have_no_common_classes():
    with pytest.raises(ValueError, match="labels of different types cannot be ordered"):
        join_classes([np.array(["a"]), np.array([1])])
