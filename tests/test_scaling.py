"""Scaling inside the model agrees with scikit-learn's, in float64, missing values included."""

import numpy as np
import pytest
import torch
from sklearn.preprocessing import MinMaxScaler, QuantileTransformer, StandardScaler

from sklearn_cleanse import scaling
from sklearn_cleanse.scaling import SCALINGS, fit_scaling
from sklearn_cleanse.votes import choose_scaling


@pytest.fixture
def X(rng):
    return rng.gamma(2.0, size=(200, 4)) * [1e-4, 1.0, 1e3, 1e6] - [0.0, 5.0, 0.0, 1e6]


def scaled(X, kind, on=None):
    return fit_scaling(X, kind)(torch.from_numpy(X if on is None else on)).numpy()


@pytest.mark.parametrize(
    ("kind", "scaler"), [("standard", StandardScaler()), ("minmax", MinMaxScaler())]
)
def test_standard_and_minmax_are_those_of_scikit_learn(X, kind, scaler):
    np.testing.assert_allclose(scaled(X, kind), scaler.fit_transform(X), atol=1e-12)


def test_ranks_are_those_of_scikit_learn_within_three_deviations(X):
    transformer = QuantileTransformer(n_quantiles=200, output_distribution="normal")
    expected = transformer.fit_transform(X).clip(-3, 3)
    np.testing.assert_allclose(scaled(X, "rank"), expected, atol=1e-3)
    new = np.vstack([X.min(axis=0) - 1e9, X.max(axis=0) + 1e9])
    np.testing.assert_allclose(scaled(X, "rank", on=new), [[-3.0] * 4, [3.0] * 4], atol=1e-2)


def test_tied_values_share_the_middle_of_their_ranks():
    X = np.array([[0.0], [0.0], [0.0], [1.0], [2.0]])
    assert scaled(X, "rank")[:3].ravel() == pytest.approx([-0.6745] * 3, abs=1e-3)  # first quartile


def test_a_common_factor_keeps_relative_scale(X):
    spread = scaled(X, "common").std(axis=0)
    np.testing.assert_allclose(spread / spread[3], X.std(axis=0) / X[:, 3].std())


def test_square_roots_keep_the_sign():
    X = np.array([[-4.0], [0.0], [9.0], [1.0]])
    roots = np.array([[-2.0], [0.0], [3.0], [1.0]])
    np.testing.assert_allclose(scaled(X, "sqrt"), StandardScaler().fit_transform(roots))


@pytest.mark.parametrize("kind", SCALINGS)
def test_constant_features_stay_constant_and_finite(kind):
    X = np.column_stack([np.full(50, 1e9 + 0.1), np.linspace(0, 1, 50)])
    out = scaled(X, kind)
    assert np.isfinite(out).all()
    assert np.ptp(out[:, 0]) == 0


@pytest.mark.parametrize("kind", [*SCALINGS, None])
def test_images_are_scaled_by_channel(kind, rng):
    X = rng.uniform(size=(10, 3, 4, 4)).astype(np.float32) * [[[[1]], [[50]], [[255]]]]
    out = scaled(X, kind)
    assert out.shape == X.shape
    if kind in ("standard", "rank"):
        np.testing.assert_allclose(out.mean(axis=(0, 2, 3)), 0, atol=1e-12)
        np.testing.assert_allclose(out.std(axis=(0, 2, 3)), 1)


@pytest.mark.parametrize("kind", [*SCALINGS, None])
@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.int16])
def test_the_same_numbers_in_another_type_are_scaled_alike(kind, dtype, rng):
    X = rng.randint(200, size=(60, 3)).astype(dtype)
    same = X.astype(np.float64)
    np.testing.assert_array_equal(scaled(X, kind), scaled(same, kind))
    assert scaled(X, kind).dtype == np.float64


@pytest.mark.parametrize("kind", ["standard", "minmax", "common", "rank"])
def test_seconds_since_1970_keep_their_differences(kind):
    seconds = 1.7e9 + np.arange(100)[:, None]
    shifted = scaled(seconds - 1.7e9, kind)
    np.testing.assert_allclose(scaled(seconds, kind), shifted, atol=1e-6)


@pytest.mark.parametrize("kind", [*SCALINGS, None])
def test_missing_values_are_means_with_an_indicator(kind, rng):
    X = rng.normal(size=(20, 3)).astype(np.float32)
    X[:, 1], X[3, 2] = np.nan, np.nan
    fitted = fit_scaling(X, kind)
    mean = np.nanmean(X[:, 2].astype(np.float64))
    out = fitted(torch.tensor([[np.nan, 9.0, np.nan], [0.5, np.nan, mean]], dtype=torch.float64))
    assert fitted.n_indicators == 1
    assert (out[:, 1] == 0).all()  # without any value in training
    assert out[0, 2] == out[1, 2]
    assert out[:, 3].tolist() == [1, 0]
    assert out.isfinite().all()


@pytest.mark.parametrize("kind", [*SCALINGS, None])
def test_features_in_blocks_are_scaled_as_at_once(X, kind, monkeypatch):
    expected = scaled(X, kind)
    monkeypatch.setattr(scaling, "_BLOCK_VALUES", 200)
    np.testing.assert_allclose(scaled(X, kind), expected, rtol=1e-12, atol=1e-12)


def test_each_kind_of_data_gets_the_scaling_it_needs(rng):
    y = rng.randint(4, size=400)
    signal = 3 * np.eye(4)[y] + rng.normal(size=(400, 4))
    nuisance = rng.normal(size=(400, 200))
    S = np.eye(4, dtype=bool)[y]
    S[np.arange(400), rng.randint(4, size=400)] = True
    # Useful columns large, useless ones small: relative scale is information.
    assert choose_scaling(np.hstack([100 * signal, nuisance]), S) == "common"
    # The other way round it misleads.
    assert choose_scaling(np.hstack([signal, 100 * nuisance]), S) != "common"
    # A few gigantic outliers spoil everything but ranks.
    assert choose_scaling(np.hstack([signal, nuisance]) ** 15, S) == "rank"


def test_an_unknown_scaling_is_rejected_by_name(X):
    with pytest.raises(ValueError, match=r"`kind` must be one of standard, .*, got 'zscore'"):
        fit_scaling(X, "zscore")
