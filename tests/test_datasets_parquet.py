"""Parquet files in batches: what they hold is what `partial_fit` gets, and nothing is guessed."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import make_blobs

from sklearn_cleanse import PartialLabelClassifier
from sklearn_cleanse.candidates import check_candidates
from sklearn_cleanse.datasets import ParquetBatches

NAMES = ["ant", "bee", "cat"]


def table(X, S, labels=NAMES):
    sets = [[labels[j] for j in np.flatnonzero(row)] for row in S]
    columns = {f"x{j}": X[:, j] for j in range(X.shape[1])}
    return pa.table({**columns, "tags": sets})


@pytest.fixture
def path(tmp_path):
    X, S, _ = make_blobs()
    pq.write_table(table(X, S), tmp_path / "rows.parquet", row_group_size=50)
    return tmp_path / "rows.parquet"


@pytest.mark.parametrize("batch_size", [7, 50, 1000])
def test_batches_hold_all_rows_in_order(batch_size, path):
    X, S, _ = make_blobs()
    batches = ParquetBatches([path, path], "tags", NAMES, batch_size=batch_size)
    assert batches.n_samples == 2 * len(X)
    for _ in range(2):  # as often as wanted
        parts = list(batches)
        assert max(len(x) for x, _ in parts) <= batch_size
        rows = np.concatenate([x for x, _ in parts])
        assert rows.dtype == np.float32
        np.testing.assert_array_equal(rows, np.tile(X, (2, 1)).astype(np.float32))
        sets = np.concatenate([s.toarray() for _, s in parts])
        np.testing.assert_array_equal(sets, np.tile(S, (2, 1)))
        assert all(check_candidates(s)[1].shape == s.shape for _, s in parts)


def test_training_on_batches_is_training_on_their_rows(path):
    X, S, _ = make_blobs()
    params = {"hidden_layer_sizes": (5,), "random_state": 0}
    clf, expected = PartialLabelClassifier(**params), PartialLabelClassifier(**params)
    for x, s in ParquetBatches(path, "tags", NAMES, batch_size=60):
        clf.partial_fit(x, s, classes=NAMES)
    for rows in (slice(0, 60), slice(60, 120)):
        expected.partial_fit(X[rows].astype(np.float32), S[rows], classes=NAMES)
    np.testing.assert_array_equal(clf.predict_proba(X), expected.predict_proba(X))
    assert clf.classes_.tolist() == NAMES


def test_features_may_be_a_list_and_labels_numbers(tmp_path):
    X, S, y = make_blobs()
    lists = {"x": X.tolist(), "tags": [np.flatnonzero(row).tolist() for row in S], "y": y}
    pq.write_table(pa.table(lists), tmp_path / "a.parquet")
    [(x, s)] = ParquetBatches(tmp_path / "a.parquet", "tags", [0, 1, 2], features="x")
    np.testing.assert_array_equal(x, X.astype(np.float32))
    np.testing.assert_array_equal(s.toarray(), S)
    [(_, s)] = ParquetBatches(tmp_path / "a.parquet", "y", [2, 1, 0], features=["x"])
    np.testing.assert_array_equal(s.toarray().argmax(axis=1), 2 - y)  # in the order of classes


def test_a_label_named_twice_is_one_candidate(tmp_path):
    pq.write_table(pa.table({"x": [1.0], "tags": [["a", "a", "b"]]}), tmp_path / "a.parquet")
    [(_, s)] = ParquetBatches(tmp_path / "a.parquet", "tags", ["a", "b"])
    assert s.toarray().tolist() == [[True, True]]


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("tags", [["ant"], ["bee", "cow"], ["bee"]], "row 1: the candidate 'cow' is none"),
        ("tags", [["ant"], ["bee"], None], "row 2: there are no candidates"),
        ("x", [0.0, None, 1.0], "row 1: a feature is missing"),
        ("x", [[0.0], [1.0, 2.0], [1.0]], "features differ in number"),
    ],
)
def test_what_cannot_be_right_is_refused_by_its_row(column, values, message, tmp_path):
    columns = {"x": [0.0, 1.0, 2.0], "tags": [["ant"], ["bee"], ["cat"]], column: values}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=message):
        list(ParquetBatches(tmp_path / "a.parquet", "tags", NAMES, batch_size=3))


def test_a_column_that_is_not_there_is_named(path):
    with pytest.raises(ValueError, match="no column 'labels'; it has x0, x1"):
        ParquetBatches(path, "labels", NAMES)


def test_a_column_of_text_is_named(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"x": [0.5], "place": ["here"], "tags": [["ant"]]}), path)
    with pytest.raises(ValueError, match=r"row 0 or later: the column 'place' holds string.*name"):
        list(ParquetBatches(path, "tags", NAMES))
    ((X, _),) = ParquetBatches(path, "tags", NAMES, features=["x"])
    assert X.tolist() == [[0.5]]


def test_a_batch_has_rows(path):
    with pytest.raises(ValueError, match="batch_size is 0; a batch has one row or more"):
        ParquetBatches(path, "tags", NAMES, batch_size=0)
