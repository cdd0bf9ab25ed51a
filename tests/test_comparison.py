"""Facts about ranks and tests: textbook values, scipy's own tests, and the paper's figures."""

import numpy as np
import pytest
from scipy import stats

from sklearn_cleanse.comparison import (
    corrected_interval,
    critical_difference,
    friedman_from_ranks,
    friedman_test,
    holm,
    rank_methods,
    separation_note,
    win_tie_loss,
)

# The Friedman table of the CleanSE paper: average ranks of eight methods in 25 cases.
PAPER_RANKS = [3.56, 3.00, 3.16, 5.36, 6.24, 6.52, 7.08, 1.12]

# Demšar (2006), Table 6: AUC of C4.5 and its three variants on 14 data sets. The table prints 0.975
# twice in one row but ranks the two apart: one of them is 0.9751 here.
DEMSAR = np.array(
    [
        [0.763, 0.768, 0.771, 0.798],
        [0.599, 0.591, 0.590, 0.569],
        [0.954, 0.971, 0.968, 0.967],
        [0.628, 0.661, 0.654, 0.657],
        [0.882, 0.888, 0.886, 0.898],
        [0.936, 0.931, 0.916, 0.931],
        [0.661, 0.668, 0.609, 0.685],
        [0.583, 0.583, 0.563, 0.625],
        [0.775, 0.838, 0.866, 0.875],
        [1.000, 1.000, 1.000, 1.000],
        [0.940, 0.962, 0.965, 0.962],
        [0.619, 0.666, 0.614, 0.669],
        [0.972, 0.981, 0.9751, 0.975],
        [0.957, 0.978, 0.946, 0.970],
    ]
)


def test_paper_statistics():
    result = friedman_from_ranks(PAPER_RANKS, 25)
    # The paper prints 69.4. Its ranks, rounded and with slips (they sum to 36.04), give 69.49.
    assert result.f_statistic == pytest.approx(69.49, abs=0.005)
    assert result.critical_value == pytest.approx(2.06, abs=0.005)
    assert result.significant
    difference = critical_difference(8, 25, test="bonferroni-dunn")
    assert difference == pytest.approx(1.864, abs=5e-4)
    assert separation_note(8, 25, difference) == ""


def test_demsar_example():
    ranks = rank_methods(DEMSAR).mean(axis=0)
    np.testing.assert_allclose(ranks, [3.143, 2.000, 2.893, 1.964], atol=5e-4)
    result = friedman_from_ranks(ranks, 14)
    assert result.chi2 == pytest.approx(9.28, abs=0.01)
    assert result.f_statistic == pytest.approx(3.69, abs=0.01)
    assert result.critical_value == pytest.approx(2.85, abs=0.005)
    assert critical_difference(4, 14) == pytest.approx(1.25, abs=0.005)
    assert critical_difference(4, 14, test="bonferroni-dunn") == pytest.approx(1.16, abs=0.01)


@pytest.mark.parametrize(
    ("k", "nemenyi", "dunn"),
    [(2, 1.960, 1.960), (5, 2.728, 2.498), (8, 3.031, 2.690), (10, 3.164, 2.773)],
)
def test_tabulated_critical_values(k, nemenyi, dunn):
    unit = np.sqrt(k * (k + 1) / 6)
    assert critical_difference(k, 1) / unit == pytest.approx(nemenyi, abs=6e-4)
    found = critical_difference(k, 1, test="bonferroni-dunn") / unit
    assert found == pytest.approx(dunn, abs=1.1e-3)


def test_friedman_agrees_with_scipy_under_ties(rng):
    scores = rng.randint(0, 4, size=(12, 5)).astype(float)
    expected = stats.friedmanchisquare(*scores.T)
    result = friedman_test(scores)
    assert result.chi2 == pytest.approx(expected.statistic)
    assert result.chi2_p_value == pytest.approx(expected.pvalue)


def test_friedman_is_the_same_from_ranks_without_ties(rng):
    scores = rng.uniform(size=(9, 4))
    from_ranks = friedman_from_ranks(rank_methods(scores).mean(axis=0), 9)
    assert friedman_test(scores).f_statistic == pytest.approx(from_ranks.f_statistic)
    assert friedman_test(scores).p_value == pytest.approx(from_ranks.p_value)


def test_friedman_at_its_extremes():
    always = friedman_test([[0.3, 0.2, 0.1]] * 6)
    assert (always.f_statistic, always.p_value, always.significant) == (np.inf, 0, True)
    level = friedman_test(np.ones((6, 3)))
    assert (level.chi2, level.p_value, level.significant) == (0, 1, False)


def test_ranks_share_ties_and_sum_up(rng):
    ranks = rank_methods(rng.randint(0, 3, size=(20, 6)))
    np.testing.assert_allclose(ranks.sum(axis=1), 21)
    worst = rank_methods([[1.0, np.nan, np.nan]], missing="worst")
    np.testing.assert_allclose(worst, [[1, 2.5, 2.5]])


@pytest.mark.parametrize("n_datasets", [1, 2, 5])
def test_the_note_names_the_least_number_of_data_sets(n_datasets):
    def note(n):
        return separation_note(8, n, critical_difference(8, n))

    enough = int(note(n_datasets).split("use ")[1].split()[0])
    assert note(enough) == ""
    assert note(enough - 1) != ""


def test_holm_is_monotone_and_leaves_nan_out():
    adjusted = holm([0.001, np.nan, 0.04, 0.03, 0.8])
    np.testing.assert_allclose(adjusted, [0.004, np.nan, 0.09, 0.09, 0.8])
    np.testing.assert_array_equal(holm([0.9, 0.8]), [1, 1])


def test_the_interval_without_test_rows_is_the_ordinary_one(rng):
    values = rng.normal(size=12)
    expected = stats.t.interval(0.9, 11, values.mean(), stats.sem(values))
    assert corrected_interval(values, confidence=0.9) == pytest.approx(expected)


def test_the_interval_of_nadeau_and_bengio_by_hand():
    # Mean 2, variance 2.5; 10 folds: variance times 1/5 + 1/9; t(0.975, 4) = 2.776.
    low, high = corrected_interval([0, 1, 2, 3, 4], 0.1)
    reach = 2.776 * np.sqrt(2.5 * (1 / 5 + 1 / 9))
    assert (low, high) == pytest.approx((2 - reach, 2 + reach), abs=1e-3)


def test_the_interval_covers_splits_that_share_training_rows():
    rng = np.random.default_rng(0)
    # Two constant predictors of normal data: the true difference of their losses is 0.
    covered = np.zeros(2)
    for _ in range(300):
        x, differences = rng.normal(size=60), []
        for _ in range(10):
            test = rng.permutation(60) < 12
            center = x[~test].mean()
            differences.append(np.mean((x[test] - center) ** 2 - (x[test] + center) ** 2))
        for i, fraction in enumerate((0.0, 0.2)):
            low, high = corrected_interval(differences, fraction)
            covered[i] += low <= 0 <= high
    assert covered[0] / 300 < 0.9 < covered[1] / 300


def test_win_tie_loss_agrees_with_the_paired_t_test(rng):
    scores = rng.uniform(size=(6, 2, 10))
    scores[:3, 0] += 0.6
    scores[3, 1] += 0.6
    expected = [0, 0, 0]
    for ours, theirs in scores:
        test = stats.ttest_rel(ours, theirs)
        expected[1 if test.pvalue >= 0.05 else 0 if test.statistic > 0 else 2] += 1
    np.testing.assert_array_equal(win_tie_loss(scores), [[0, 0, 0], expected])
    np.testing.assert_array_equal(win_tie_loss(scores, control=-1)[0], expected[::-1])


def test_overlapping_training_rows_give_fewer_wins(rng):
    scores = rng.normal(size=(40, 2, 10))
    scores[:, 0] += 0.8
    assert win_tie_loss(scores, test_fraction=0.1)[1, 0] < win_tie_loss(scores)[1, 0]


def test_win_tie_loss_leaves_missing_trials_out():
    scores = np.array(
        [[[0.9, 0.8, np.nan], [0.5, 0.45, 0.1]], [[0.9, np.nan, 1], [0.1, 0.2, np.nan]]]
    )
    assert win_tie_loss(scores)[1].sum() == 1  # the second data set has one common trial only
    constant = np.stack([np.full((1, 5), 0.7), np.full((1, 5), 0.6)], axis=1)
    np.testing.assert_array_equal(win_tie_loss(constant)[1], [1, 0, 0])
    np.testing.assert_array_equal(win_tie_loss(constant[:, [0, 0]])[1], [0, 1, 0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rank_methods([0.1, 0.2]), r"data sets × methods, got shape \(2,\)"),
        (lambda: rank_methods([[0.1, np.nan]]), "got nan in row 0, column 1. Leave the row out"),
        (lambda: rank_methods([[0.1, 0.2]], missing="x"), "`missing` must be .* got 'x'"),
        (lambda: friedman_from_ranks([1.0, 1.0, 1.0], 10), "must average ranks 1 to 3"),
        (lambda: friedman_from_ranks([3, 3, 0], 9), "must average ranks 1 to 3"),
        (lambda: friedman_from_ranks([1, 4, 1], 9), "must average ranks 1 to 3"),
        (lambda: friedman_from_ranks([[1, 2]], 9), "must average ranks"),
        (lambda: friedman_test([[0.1, 0.2, 0.3]]), "at least two data sets, got 1"),
        (lambda: friedman_test([[0.1, 0.2]] * 3), "at least three columns, got 2"),
        (lambda: friedman_test([[0.1, 0.2, 0.3]] * 3, alpha=0), "`alpha` must lie .* got 0"),
        (lambda: critical_difference(1, 5), "`n_methods` must be at least 2, got 1"),
        (lambda: critical_difference(3, 5, test="t"), "`test` must be one of .* got 't'"),
        (lambda: critical_difference(3, 5, alpha=2), "`alpha` must lie .* got 2"),
        (lambda: win_tie_loss([[0.1, 0.2]]), r"three dimensions, got shape \(1, 2\)"),
        (lambda: corrected_interval([1, 2], 2), "`test_fraction` must lie .* got 2"),
        (lambda: corrected_interval([1, 2], confidence=95), "`confidence` must lie .* got 95"),
        (lambda: corrected_interval([1]), "at least two finite numbers"),
        (lambda: corrected_interval([1, np.nan]), "at least two finite numbers"),
        (lambda: corrected_interval([[1, 2]]), "at least two finite numbers"),
        (lambda: holm([[0.1, 0.2], [0.3, 0.4]]), "`p_values` must be 1-D"),
        (lambda: holm([0.1, 7]), "between 0 and 1"),
    ],
)
def test_bad_input_raises(call, message):
    with pytest.raises(ValueError, match=message):
        call()
