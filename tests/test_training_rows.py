import numpy as np
import pytest
import scipy.sparse as sp
import torch
from skorch.callbacks import Callback

from sklearn_cleanse import CleanSEClassifier
from sklearn_cleanse._device import as_tensor
from sklearn_cleanse.base import content_rank
from sklearn_cleanse.candidates import candidate_counts
from sklearn_cleanse.datasets import make_partial_classification
from sklearn_cleanse.deep import _training_rows as _rows
from sklearn_cleanse.deep._training_rows import TrainingRows


@pytest.fixture
def candidates(rng):
    S = rng.uniform(size=(37, 5)) < 0.4
    S[np.arange(37), rng.randint(5, size=37)] = True
    return sp.csr_array(S)


@pytest.fixture
def rows(candidates, rng):
    X = rng.normal(size=(37, 3))
    return TrainingRows(X, candidates, None, "cpu", np.arange(37), scaling=torch.Tensor.float)


@pytest.mark.parametrize("index_rows", [2**14, 20, 1])
def test_batches_lay_out_the_candidates_of_their_rows(
    index_rows, rows, candidates, rng, monkeypatch
):
    monkeypatch.setattr(_rows, "INDEX_ROWS", index_rows)
    order = rng.permutation(37)
    seen = []
    for batch in rows.batches(order, [10, 10, 17], bounds=True):
        own = candidates[batch.rows.numpy()]
        np.testing.assert_array_equal(batch.candidates.numpy(), own.toarray())
        np.testing.assert_array_equal(
            batch.dense(rows.confidences[batch.entries]).numpy(),
            (own.toarray() / own.toarray().sum(axis=1, keepdims=True)).astype(np.float32),
        )
        lower, upper = candidate_counts(own)
        np.testing.assert_array_equal(batch.bounds.numpy(), [lower, upper])
        assert batch.max_count == upper.max()
        seen += batch.rows.tolist()
    assert seen == order.tolist()


def test_what_is_written_through_a_batch_is_read_by_row(rows, candidates):
    order = np.arange(37)[::-1].copy()
    for batch in rows.batches(order, [8, 8, 21]):
        values = batch.rows.float()[:, None] + torch.arange(5) / 8  # says its row and its class
        rows.set_confidences(batch, values)
    expected = candidates.toarray() * (np.arange(37)[:, None] + np.arange(5) / 8)
    np.testing.assert_array_equal(rows.confidence_matrix(np.arange(37)).toarray(), expected)
    some = np.array([30, 2, 2])
    np.testing.assert_array_equal(rows.confidence_matrix(some).toarray(), expected[some])
    assert rows.confidence_matrix(some).nnz == candidates[some].nnz  # also where one is zero


def test_confidences_begin_as_even_odds_or_as_given(rows, candidates, rng):
    counts = candidates.sum(axis=1)
    np.testing.assert_array_equal(rows.confidences, np.float32(1 / np.repeat(counts, counts)))
    given = rng.uniform(size=candidates.nnz).astype(np.float32)
    own = TrainingRows(
        np.zeros((37, 3)), candidates, None, "cpu", np.arange(37), torch.Tensor.float, None, given
    )
    np.testing.assert_array_equal(own.confidences, given)
    assert not np.shares_memory(own.confidences.numpy(), given)  # training writes them


def test_blocks_are_the_given_rows_in_the_given_order(rows, candidates, monkeypatch):
    monkeypatch.setattr(_rows, "BLOCK_VALUES", 1)  # blocks of 64 rows, never fewer
    order = np.concatenate([np.arange(37)[::-1], np.arange(37)])
    first, second = rows.blocks(5, 3, rows=order)
    assert [first.shape[0], second.shape[0]] == [64, 10]
    assert [*first.rows.tolist(), *second.rows.tolist()] == order.tolist()
    own = np.vstack([first.candidates.numpy(), second.candidates.numpy()])
    np.testing.assert_array_equal(own, candidates[order].toarray())


def test_an_epoch_visits_every_row_once(rows):
    batches = list(rows.epoch(12, np.random.RandomState(0), rows.confidences, 0))
    assert [batch.shape[0] for batch in batches] == rows.batch_sizes(12)
    visited = torch.cat([batch.rows for batch in batches])
    assert sorted(visited.tolist()) == list(range(37))
    again = torch.cat(
        [b.rows for b in rows.epoch(12, np.random.RandomState(0), rows.confidences, 0)]
    )
    assert torch.equal(visited, again)
    assert all(batch.bounds is None for batch in batches)
    counted = list(rows.epoch(12, np.random.RandomState(0), rows.confidences, 1))
    assert all(batch.bounds.shape == (2, 5) for batch in counted)
    assert all(batch.counts_for == 1 for batch in counted)


@pytest.mark.parametrize(
    ("count_every", "which"), [(1, [*range(8)]), (3, [0, 3, 6]), (4, [0, 4]), (9, [0])]
)
def test_counted_batches_stand_for_those_in_between(count_every, which, rows):
    batches = list(rows.epoch(5, np.random.RandomState(0), rows.confidences, count_every))
    assert [i for i, batch in enumerate(batches) if batch.bounds is not None] == which
    stand_for = [batch.counts_for for batch in batches if batch.bounds is not None]
    assert sum(stand_for) == pytest.approx(8)
    assert len(set(stand_for)) == 1


def test_the_batches_of_an_epoch_have_all_that_a_step_needs(candidates, rng, monkeypatch):
    monkeypatch.setattr(_rows, "INDEX_ROWS", 20)  # of more than one piece
    X, weight = rng.normal(size=(37, 3)), rng.uniform(size=37)
    rows = TrainingRows(
        X, candidates, weight, "cpu", np.arange(37), scaling=lambda X: 2 * X.float()
    )
    given = torch.from_numpy(rng.uniform(size=candidates.nnz))
    laid_out = sp.csr_array((given, candidates.indices, candidates.indptr)).toarray()
    for batch in rows.epoch(8, rng, given, 0):
        np.testing.assert_array_equal(batch.inputs, 2 * X[batch.rows].astype(np.float32))
        np.testing.assert_array_equal(batch.weights, laid_out[batch.rows])
        np.testing.assert_array_equal(batch.sample_weight, weight[batch.rows].astype(np.float32))


@pytest.mark.parametrize(
    ("batch_size", "sizes"), [(10, [10, 10, 10, 7]), (12, [12, 12, 13]), (36, [37]), (100, [37])]
)
def test_no_batch_of_one_row_is_left(rows, batch_size, sizes):
    assert rows.batch_sizes(batch_size) == sizes


def test_the_order_of_contents_does_not_depend_on_the_order_of_rows(rng):
    X = rng.randint(3, size=(200, 2)).astype(float)  # many equal rows
    S = sp.csr_array(rng.uniform(size=(200, 4)) < 0.5)
    shuffle = rng.permutation(200)
    first, second = (np.argsort(content_rank(*rows)) for rows in ((X, S), (X[shuffle], S[shuffle])))
    np.testing.assert_array_equal(X[first], X[shuffle][second])
    np.testing.assert_array_equal(S[first].toarray(), S[shuffle][second].toarray())


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8])
def test_features_are_used_without_a_copy(dtype, tmp_path):
    path = tmp_path / "X.dat"
    np.ones((10, 3), dtype=dtype).tofile(path)
    X = np.memmap(path, dtype=dtype, mode="r", shape=(10, 3))
    tensor = as_tensor(X, "cpu")
    assert tensor.data_ptr() == X.ctypes.data
    assert tensor.dtype == torch.from_numpy(np.empty(0, dtype)).dtype


@pytest.mark.parametrize("used", [None, np.array([5, 5, 9, *range(34)])])
def test_scaled_features_are_kept_only_while_they_are_small(used, candidates, rng, monkeypatch):
    X, calls = rng.normal(size=(37, 3)), []

    def double(X):
        calls.append(len(X))
        return 2 * X.float()

    def rows():
        return TrainingRows(X, candidates, None, "cpu", np.arange(37), double, used)

    asked = torch.tensor([3, 1])
    expected = 2 * X[asked if used is None else used[asked]].astype(np.float32)
    kept = rows()
    scaled_by_now = sum(calls)
    np.testing.assert_array_equal(kept.inputs(asked), expected)
    assert sum(calls) == scaled_by_now
    monkeypatch.setattr(_rows, "MAX_SCALED_VALUES", 1)
    not_kept = rows()
    scaled_by_now = sum(calls)
    np.testing.assert_array_equal(not_kept.inputs(asked), expected)
    assert sum(calls) == scaled_by_now + 2
    assert kept.input_shape == not_kept.input_shape == (3,)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("early_stopping", [False, True])
@pytest.mark.parametrize("weight", [None, np.arange(300) % 3, np.linspace(0.0, 1.0, 300)])
def test_a_fit_maps_features_from_a_file(weight, early_stopping, dtype, tmp_path):
    """Also where some rows are left out or repeated."""
    X, S, _ = make_partial_classification(300, 12, 3, random_state=0)
    X = X.astype(dtype)
    X.tofile(tmp_path / "X")
    mapped = np.memmap(tmp_path / "X", dtype=dtype, mode="r", shape=X.shape)
    where = []

    class Look(Callback):
        def on_train_begin(self, net, X=None, **kwargs):
            where.append(np.shares_memory(X.X.numpy(), mapped))

    clf = CleanSEClassifier(
        hidden_layer_sizes=(16,), max_epochs=2, early_stopping=early_stopping, callbacks=[Look()]
    )
    clf.fit(mapped, S, sample_weight=weight)
    assert where == [True]
