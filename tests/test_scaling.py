import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.preprocessing import MinMaxScaler, QuantileTransformer, StandardScaler

from sklearn_cleanse._rows import SparseRows
from sklearn_cleanse.candidates import check_candidates
from sklearn_cleanse.scaling import SCALINGS, fit_scaling
from sklearn_cleanse.votes import choose_scaling


@pytest.fixture
def X(rng):
    return rng.gamma(2.0, size=(200, 4)) * [1e-4, 1.0, 1e3, 1e6] - [0.0, 5.0, 0.0, 1e6]


def scaled(X, kind, on=None):
    return fit_scaling(X, kind)(torch.from_numpy(X if on is None else on)).numpy()


def test_standard_and_minmax_are_scikit_learns(X):
    np.testing.assert_allclose(scaled(X, "standard"), StandardScaler().fit_transform(X), atol=1e-5)
    np.testing.assert_allclose(scaled(X, "minmax"), MinMaxScaler().fit_transform(X), atol=1e-5)


def test_ranks_are_scikit_learns_within_three_deviations(X):
    transformer = QuantileTransformer(n_quantiles=200, output_distribution="normal")
    expected = transformer.fit_transform(X).clip(-3, 3)
    np.testing.assert_allclose(scaled(X, "rank"), expected, atol=1e-3)


def test_tied_values_share_the_middle_of_their_ranks():
    X = np.array([[0.0], [0.0], [0.0], [1.0], [2.0]])
    assert scaled(X, "rank")[:3].ravel() == pytest.approx([-0.6745] * 3, abs=1e-3)  # first quartile


def test_ranks_of_new_values_stay_within_three_deviations(X):
    new = np.vstack([X.min(axis=0) - 1e9, X.max(axis=0) + 1e9])
    np.testing.assert_allclose(scaled(X, "rank", on=new), [[-3.0] * 4, [3.0] * 4], atol=1e-2)


def test_a_common_factor_keeps_relative_scale(X):
    spread = scaled(X, "common").std(axis=0)
    np.testing.assert_allclose(spread / spread[3], X.std(axis=0) / X[:, 3].std(), rtol=1e-3)


def test_square_roots_keep_the_sign():
    X = np.array([[-4.0], [0.0], [9.0], [1.0]])
    roots = np.array([[-2.0], [0.0], [3.0], [1.0]])
    np.testing.assert_allclose(scaled(X, "sqrt"), StandardScaler().fit_transform(roots), atol=1e-6)


@pytest.mark.parametrize("kind", SCALINGS)
def test_constant_features_are_harmless(kind):
    X = np.column_stack([np.full(50, 1e9 + 0.1), np.linspace(0, 1, 50)])
    out = scaled(X, kind)
    assert np.isfinite(out).all()
    assert np.ptp(out[:, 0]) == 0


@pytest.mark.parametrize("kind", [*SCALINGS, None])
def test_images_are_scaled_by_channel(kind, rng):
    X = rng.uniform(size=(10, 3, 4, 4)).astype(np.float32) * [[[[1]], [[50]], [[255]]]]
    out = scaled(X, kind)
    assert out.shape == X.shape
    if kind == "standard":
        np.testing.assert_allclose(out.mean(axis=(0, 2, 3)), 0, atol=1e-5)
        np.testing.assert_allclose(out.std(axis=(0, 2, 3)), 1, atol=1e-5)


def test_each_kind_of_data_gets_the_scaling_it_needs(rng):
    y = rng.randint(4, size=400)
    signal = 3 * np.eye(4)[y] + rng.normal(size=(400, 4))
    nuisance = rng.normal(size=(400, 200))
    S = np.eye(4, dtype=int)[y]
    S[np.arange(400), rng.randint(4, size=400)] = 1
    _, candidates = check_candidates(S)
    # Useful columns large, useless ones small: relative scale is information.
    assert choose_scaling(np.hstack([100 * signal, nuisance]), candidates) == "common"
    # The other way round it misleads.
    assert choose_scaling(np.hstack([signal, 100 * nuisance]), candidates) != "common"
    # A few gigantic outliers spoil everything but ranks.
    wild = np.hstack([signal, nuisance]) ** 15
    assert choose_scaling(wild, candidates) == "rank"


@pytest.mark.parametrize("kind", [*SCALINGS, None])
@pytest.mark.parametrize("form", [np.asarray, lambda X: SparseRows(sp.csr_array(X))])
def test_a_feature_that_is_all_gaps_in_training_never_counts(kind, form):
    X = np.random.RandomState(0).normal(size=(20, 3)).astype(np.float32)
    X[:, 1], X[3, 2] = np.nan, np.nan
    scaling = fit_scaling(form(X), kind)
    new = torch.tensor([[0.5, 9.0, 0.1], [0.5, np.nan, 0.1]])
    scaled = scaling(new)
    assert scaling.gaps.tolist() == [2]
    assert (scaled[:, 1] == 0).all()
    torch.testing.assert_close(scaled[0], scaled[1], rtol=0, atol=0)
