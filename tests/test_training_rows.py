import numpy as np
import pytest
import scipy.sparse as sp
import torch

from sklearn_cleanse.candidates import candidate_counts
from sklearn_cleanse.deep import _training_rows as _rows
from sklearn_cleanse.deep._net import _Epoch
from sklearn_cleanse.deep._training_rows import TrainingRows, as_tensor, content_rank


@pytest.fixture
def candidates(rng):
    S = rng.uniform(size=(37, 5)) < 0.4
    S[np.arange(37), rng.randint(5, size=37)] = True
    return sp.csr_array(S)


@pytest.fixture
def rows(candidates, rng):
    return TrainingRows(rng.normal(size=(37, 3)), candidates, None, "cpu", np.arange(37))


@pytest.mark.parametrize("at_once", [2**14, 20, 1])
def test_batches_lay_out_the_candidates_of_their_rows(at_once, rows, candidates, rng, monkeypatch):
    monkeypatch.setattr(_rows, "ROWS_AT_ONCE", at_once)
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
    for batch in rows.blocks(8):
        values = torch.arange(8.0).repeat_interleave(5)[: batch.shape[0] * 5].view(batch.shape)
        rows.confidences[batch.entries] = values.flatten()[batch.cells]
    expected = candidates.toarray() * (np.arange(37) % 8)[:, None]
    np.testing.assert_array_equal(rows.confidence_matrix().toarray(), expected)


@pytest.mark.parametrize(
    ("n_rows", "batch_size", "sizes"),
    [(37, 10, [10, 10, 10, 7]), (37, 12, [12, 12, 13]), (37, 36, [37]), (37, 100, [37])],
)
def test_no_batch_of_one_row_is_left(rows, n_rows, batch_size, sizes):
    assert _Epoch(rows, batch_size, np.random.RandomState(0), False).sizes == sizes


def test_the_order_of_contents_does_not_depend_on_the_order_of_rows(rng):
    X = rng.randint(3, size=(200, 2)).astype(float)  # many equal rows
    S = sp.csr_array(rng.uniform(size=(200, 4)) < 0.5)
    shuffle = rng.permutation(200)
    first, second = (np.argsort(content_rank(*rows)) for rows in ((X, S), (X[shuffle], S[shuffle])))
    np.testing.assert_array_equal(X[first], X[shuffle][second])
    np.testing.assert_array_equal(S[first].toarray(), S[shuffle][second].toarray())


def test_a_large_data_set_has_a_pool_of_clean_rows_and_a_sample(rows, monkeypatch):
    monkeypatch.setattr(_rows, "MOST_PAIRS", 12 * len(rows))
    monkeypatch.setattr(_rows, "FEWEST_VOTERS", 2)
    rows.choose_pool(np.random.RandomState(0))
    clean = np.flatnonzero(rows.counts == 1)
    assert len(rows.pool) == 12
    assert np.isin(rows.pool, clean).sum() >= min(6, len(clean))
    position = rows.pool_position.numpy()
    assert (position[rows.pool] == np.arange(12)).all()
    assert (np.delete(position, rows.pool) == -1).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8])
def test_features_are_used_without_a_copy(dtype, tmp_path):
    path = tmp_path / "X.dat"
    np.ones((10, 3), dtype=dtype).tofile(path)
    X = np.memmap(path, dtype=dtype, mode="r", shape=(10, 3))
    tensor = as_tensor(X, "cpu")
    assert tensor.data_ptr() == X.ctypes.data
    assert tensor.dtype == torch.from_numpy(np.empty(0, dtype)).dtype


def test_scaled_features_are_kept_only_while_they_are_small(rows, monkeypatch):
    double = lambda X: 2 * X.float()  # noqa: E731
    rows.scale(double)
    kept = rows.inputs(torch.tensor([3, 1]))
    monkeypatch.setattr(_rows, "MOST_SCALED_VALUES", 1)
    rows.scale(double)
    assert rows.scaled is None
    torch.testing.assert_close(rows.inputs(torch.tensor([3, 1])), kept)
