"""Tables as they come: row labels, gaps, text, sparse features, annotators."""

import numpy as np
import pandas as pd
import pytest

from sklearn_cleanse import (
    CleanSEClassifier,
    CleanSEKernelClassifier,
    PartialLabelClassifier,
    PLCGRClassifier,
)

QUICK = {"hidden_layer_sizes": (16,), "max_epochs": 6, "random_state": 0}

TAKES_GAPS = [
    CleanSEClassifier(**QUICK),
    PartialLabelClassifier(**QUICK),
    CleanSEKernelClassifier(random_state=0),
    CleanSEKernelClassifier(n_landmarks=40, random_state=0),
]


@pytest.fixture
def frames(blobs):
    """Blobs as frames with names for rows and columns: X, S, y."""
    X, S, y = blobs
    index = [f"item {i}" for i in range(len(X))]
    names = np.array(["ant", "bee", "cat"])
    return (
        pd.DataFrame(X, columns=list("abcd"), index=index),
        pd.DataFrame(S, columns=names, index=index),
        pd.Series(names[y], index=index),
    )


# -- rows that do not belong together -----------------------------------------------------------

EACH = [CleanSEClassifier(**QUICK), CleanSEKernelClassifier(), PLCGRClassifier()]


@pytest.mark.parametrize("estimator", EACH)
def test_rows_in_another_order_are_refused_and_the_remedy_works(estimator, frames):
    X, S, y = frames
    shuffled = S.sample(frac=1, random_state=0)
    row = int(np.argmax(shuffled.index != X.index))
    expected = rf"row {row} is '{X.index[row]}' .*'{shuffled.index[row]}' .*S = S\.loc\[X\.index\]"
    with pytest.raises(ValueError, match=expected):
        estimator.fit(X, shuffled)
    estimator.fit(X, shuffled.loc[X.index])
    with pytest.raises(ValueError, match=r"S\.loc\[X\.index\]"):
        estimator.disambiguate(X, shuffled)
    with pytest.raises(ValueError, match=r"y\.loc\[X\.index\]"):
        estimator.score(X, y.sample(frac=1, random_state=0))
    with pytest.raises(ValueError, match=r"truth\.loc\[X\.index\]"):
        estimator.score(X, S, truth=y.sample(frac=1, random_state=0))


def test_rows_with_other_names_are_refused_and_can_be_named_alike(frames):
    X, S, y = frames
    unnamed = S.reset_index(drop=True)
    with pytest.raises(ValueError, match=r"row 0 is 'item 0' .*but 0 .*S\.set_axis\(X\.index\)"):
        CleanSEKernelClassifier().fit(X, unnamed)
    CleanSEKernelClassifier().fit(X, unnamed.set_axis(X.index))
    with pytest.raises(ValueError, match="row 0 is 'item 0'"):
        CleanSEKernelClassifier().fit(X, y.reset_index(drop=True))


def test_rows_without_names_are_matched_by_position(frames):
    X, S, _ = frames
    expected = CleanSEKernelClassifier(random_state=0).fit(X, S).predict_proba(X)
    for features, sets in [(X.to_numpy(), S), (X, S.to_numpy())]:
        clf = CleanSEKernelClassifier(random_state=0).fit(features, sets)
        np.testing.assert_array_equal(clf.predict_proba(features), expected)


@pytest.mark.parametrize(
    "votes",
    [
        pd.DataFrame({"ann": ["cat", "dog", "cat"], "bob": ["cat", None, "dog"]}),
        pd.DataFrame({"ann": [0, 2, 1], "bob": [1, 2, 2]}),
        pd.DataFrame({"ann": [None, "dog", "cat"], "bob": ["cat", "cat", "dog"]}),
        np.array([["cat", "dog"], ["dog", "dog"], ["cat", "cat"]]),
    ],
)
def test_annotators_columns_as_y_get_the_function_named(votes):
    with pytest.raises(ValueError, match="candidates_from_votes"):
        CleanSEKernelClassifier().fit([[0.0], [1.0], [2.0]], votes)


@pytest.mark.parametrize("scores", [[[0.2, 0.8], [1.0, 0.0]], [[np.nan, 1.0], [1.0, 0.0]]])
def test_scores_are_not_taken_for_annotators(scores):
    with pytest.raises(ValueError, match="column 0 of the candidate matrix") as refusal:
        CleanSEKernelClassifier().fit([[0.0], [1.0]], scores)
    assert "candidates_from_votes" not in str(refusal.value)


# -- labels that a model does not know ----------------------------------------------------------


def test_scoring_labels_that_the_model_never_saw(frames):
    X, S, y = frames
    model = CleanSEKernelClassifier().fit(X, S)
    with pytest.raises(ValueError, match=r"120 of 120 rows .*row 0 with 0; .*'ant', 'bee', 'cat'"):
        model.score(X, np.arange(len(X)) % 3)
    y.iloc[7] = "emu"
    with pytest.warns(UserWarning, match="1 of 120 rows .*row 7 with 'emu'"):
        score = model.score(X, y)
    assert score == pytest.approx((model.predict(X) == y).mean())
