"""Facts about ranks and tests: textbook values, scipy's own tests, and the paper's figures."""

import numpy as np
import pytest
from scipy import stats

from sklearn_cleanse.comparison import (
    critical_difference,
    friedman_from_ranks,
    friedman_test,
    holm,
    rank_methods,
    separation_note,
    wilcoxon_holm,
    win_tie_loss,
)
from sklearn_cleanse.plots import CriticalDifferenceDisplay

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
    assert result.note == ""
    assert critical_difference(8, 25, test="bonferroni-dunn") == pytest.approx(1.864, abs=5e-4)


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
    from_scores, from_ranks = (
        friedman_test(scores),
        friedman_from_ranks(rank_methods(scores).mean(axis=0), 9),
    )
    assert from_scores.f_statistic == pytest.approx(from_ranks.f_statistic)


def test_friedman_at_its_extremes():
    always = friedman_test([[0.3, 0.2, 0.1]] * 6)
    assert always.f_statistic == np.inf
    assert always.p_value == 0
    level = friedman_test(np.ones((6, 3)))
    assert level.chi2 == 0
    assert not level.significant


def test_ranks_share_ties_and_sum_up(rng):
    ranks = rank_methods(rng.randint(0, 3, size=(20, 6)))
    np.testing.assert_allclose(ranks.sum(axis=1), 21)
    np.testing.assert_allclose(
        rank_methods([[1.0, np.nan, np.nan]], missing="worst"), [[1, 2.5, 2.5]]
    )


def test_small_numbers_of_data_sets_are_named():
    assert "4.17 of 7 ranks" in separation_note(8, 5)
    assert "no difference between 8 methods can be shown" in separation_note(8, 1)
    for k, n in ((4, 2), (8, 1)):
        least = int(separation_note(k, n).split("; ")[1].split()[0])
        for test, possible in ((least, True), (least - 1, False)):
            found = critical_difference(k, test, test="bonferroni-dunn") <= k - 1
            assert found == possible
    assert separation_note(8, 25) == ""
    enough = int(separation_note(8, 5).split("take ")[1].split()[0])
    assert separation_note(8, enough) == ""
    assert separation_note(8, enough - 1) != ""
    assert "4.17 of 7 ranks" in str(friedman_test(np.random.RandomState(0).uniform(size=(5, 8))))


def test_no_verdict_from_too_few_data_sets():
    scores = [[0.4, 0.3, 0.2, 0.1]] * 2
    assert friedman_test(scores).significant
    assert "differ" not in str(friedman_test(scores)).split("\n")[0]
    assert str(friedman_test(scores * 9)).endswith("the methods differ")


def test_holm_is_monotone_and_leaves_nan_out():
    p = [0.001, np.nan, 0.04, 0.03, 0.8]
    adjusted = holm(p)
    np.testing.assert_allclose(adjusted[[0, 2, 3, 4]], [0.004, 0.09, 0.09, 0.8])
    assert np.isnan(adjusted[1])
    assert (holm([0.9, 0.8]) <= 1).all()


def test_wilcoxon_agrees_with_scipy(rng):
    scores = rng.uniform(size=(15, 3))
    scores[:, 0] += 0.5
    result = wilcoxon_holm(scores, 0)
    expected = stats.wilcoxon(scores[:, 0] - scores[:, 2]).pvalue
    assert result.p_values[2] == pytest.approx(expected)
    assert result.significant[1:].all()
    assert not result.significant[0]
    assert result.note == ""
    assert "smallest p-value" in wilcoxon_holm(scores[:5], 0).note


def test_wilcoxon_of_equal_methods_shows_nothing():
    assert wilcoxon_holm([[0.5, 0.5]] * 8).adjusted[1] == 1


def test_win_tie_loss_agrees_with_the_paired_t_test(rng):
    scores = rng.uniform(size=(6, 2, 10))
    scores[:3, 0] += 0.6
    scores[3, 1] += 0.6
    expected = [0, 0, 0]
    for ours, theirs in scores:
        test = stats.ttest_rel(ours, theirs)
        expected[1 if test.pvalue >= 0.05 else 0 if test.statistic > 0 else 2] += 1
    np.testing.assert_array_equal(win_tie_loss(scores)[1], expected)
    np.testing.assert_array_equal(win_tie_loss(scores, control=1)[0], expected[::-1])


def test_overlapping_training_rows_make_tests_more_careful(rng):
    scores = rng.normal(size=(40, 2, 10))
    scores[:, 0] += 0.8
    plain, careful = win_tie_loss(scores), win_tie_loss(scores, test_share=0.1)
    assert careful[1, 0] < plain[1, 0]


def test_win_tie_loss_leaves_missing_trials_out():
    scores = np.array(
        [[[0.9, 0.8, np.nan], [0.5, 0.45, 0.1]], [[0.9, np.nan, 1], [0.1, 0.2, np.nan]]]
    )
    assert win_tie_loss(scores)[1].sum() == 1  # the second data set has one common trial only
    constant = np.stack([np.full((1, 5), 0.7), np.full((1, 5), 0.6)], axis=1)
    np.testing.assert_array_equal(win_tie_loss(constant)[1], [1, 0, 0])


def test_groups_of_the_diagram():
    nemenyi = CriticalDifferenceDisplay([1.0, 2.0, 3.2, 3.4], list("abcd"), 1.1)
    assert nemenyi.groups() == [[0, 1], [2, 3]]
    chain = CriticalDifferenceDisplay([1.0, 2.0, 3.0], list("abc"), 1.0)
    assert chain.groups() == [[0, 1], [1, 2]]
    dunn = CriticalDifferenceDisplay([1.0, 2.0, 3.2, 3.4], list("abcd"), 1.1, control=0)
    assert dunn.groups() == [[0, 1]]
    last = CriticalDifferenceDisplay([1.0, 2.0, 3.2, 3.4], list("abcd"), 1.1, control=-1)
    assert last.control == 3


@pytest.mark.parametrize("control", [None, 7])
def test_diagram_names_every_method(control):
    names = ["CC", "RC", "LWS", "CAVL", "SCARCE", "PL-CGR", "DPCLS", "CleanSE"]
    display = CriticalDifferenceDisplay.from_ranks(PAPER_RANKS, 25, names, control=control).plot()
    texts = " ".join(text.get_text() for text in display.ax_.texts)
    for name in names:
        assert name in texts
    assert "CD = " in texts
    display.figure_.clear()


def test_diagram_from_scores_carries_the_note(rng):
    display = CriticalDifferenceDisplay.from_scores(rng.uniform(size=(3, 6)), list("abcdef"))
    assert "Too few data sets" in display.note
    assert any("Too few data sets" in text.get_text() for text in display.ax_.texts)
    display.figure_.clear()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rank_methods([0.1, 0.2]), "a row per data set"),
        (lambda: rank_methods([[0.1, np.nan]]), "row 0, column 1 is NaN"),
        (lambda: rank_methods([[0.1, 0.2]], missing="x"), "missing is 'x'"),
        (lambda: friedman_from_ranks([1.0, 1.0, 1.0], 10), "always sum to 6"),
        (lambda: friedman_test([[0.1, 0.2]]), "at least two data sets"),
        (lambda: critical_difference(1, 5), "n_methods=1"),
        (lambda: critical_difference(3, 5, test="t"), "test is 't'"),
        (lambda: win_tie_loss([[0.1, 0.2]]), "methods × trials"),
        (lambda: win_tie_loss(np.zeros((1, 2, 3)), test_share=2), "test_share is 2"),
        (lambda: CriticalDifferenceDisplay([1, 2], ["a"], 1.0), "1 names for 2"),
        (lambda: CriticalDifferenceDisplay([1, 2], ["a", "b"], 1.0, control=2), "control is 2"),
        (lambda: wilcoxon_holm([[0.1, 0.2]] * 3, 2), "control is 2; expected .* 0 to 1"),
        (lambda: wilcoxon_holm([[0.1, np.nan]]), "row 0, column 1 is NaN.*leave the row out$"),
        (lambda: win_tie_loss(np.zeros((1, 2, 3)), -3), "control is -3"),
        (lambda: critical_difference(3, 5, alpha=2), "alpha is 2"),
        (lambda: friedman_test([[0.1, 0.2]] * 3, alpha=0), "alpha is 0"),
        (lambda: friedman_from_ranks([3, 3, 0], 9), "sum to 0, but cannot sum to less than 1"),
        (lambda: friedman_from_ranks([1, 4, 1], 9), "sum to 2, but cannot sum to less than 3"),
        (lambda: friedman_from_ranks([1, np.nan, 3], 9), "sum to nan"),
        (lambda: holm([[0.1, 0.2], [0.3, 0.4]]), r"p_values has shape \(2, 2\); .* np.ravel"),
        (lambda: holm(0.1), r"p_values has shape \(\)"),
        (lambda: holm([0.1, 7]), r"p_values\[1\] is 7; expected a probability"),
        (lambda: friedman_from_ranks([[1, 2]], 9), r"average_ranks has shape \(1, 2\)"),
        (lambda: wilcoxon_holm([[0.1, 0.2]] * 3, "a"), "control is 'a'"),
        (lambda: wilcoxon_holm([[0.1, 0.2]] * 3, 0.5), "control is 0.5"),
        (lambda: friedman_test([[0.1, 0.2]] * 3, alpha="5%"), "alpha is '5%'"),
        (
            lambda: CriticalDifferenceDisplay.from_ranks([3, 3, 0], 9, list("abc")),
            "ranks begin at 1",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
