"""The defaults train well on the field's raw data, where the files are at hand."""

import numpy as np
import pytest
from conftest import REAL, need
from sklearn.model_selection import cross_val_score

from sklearn_cleanse import CleanSEClassifier
from sklearn_cleanse.datasets import fetch_pll
from sklearn_cleanse.metrics import true_accuracy_scorer
from sklearn_cleanse.model_selection import CandidateKFold

pytestmark = pytest.mark.data
FILES = {"lost": "lost", "birdsong": "BirdSong", "msrcv2": "MSRCv2"}

# Proportion of training labels to identify, from raw features of any scale. Test rows are too few
# here; examples/paper measures on them.
FLOORS = {"lost": 0.80, "birdsong": 0.80, "msrcv2": 0.60}


def load(name):
    need("pll", f"{FILES[name]}.mat")
    return fetch_pll(name, data_home=REAL, download_if_missing=False, return_X_S_y=True)


@pytest.mark.parametrize("name", FLOORS)
def test_defaults_identify_the_labels_of_raw_data(name):
    X, S, y = load(name)
    clf = CleanSEClassifier(max_epochs=10, random_state=0).fit(X, S)
    assert np.mean(clf.disambiguate(X, S) == y) > FLOORS[name]


@pytest.mark.parametrize("name", FLOORS)
def test_true_label_accuracy_by_metadata_routing(name, routing):
    X, S, y = load(name)
    scores = cross_val_score(
        CleanSEClassifier(max_epochs=1, random_state=0),
        X,
        S,
        scoring=true_accuracy_scorer,
        cv=CandidateKFold(2, random_state=0),
        params={"truth": y},
    )
    assert np.isfinite(scores).all()
    assert scores.min() > np.bincount(np.unique(y, return_inverse=True)[1]).max() / len(y)


@pytest.mark.slow
@pytest.mark.parametrize("name", FLOORS)
def test_the_scaling_is_chosen_alike_from_either_half(name):
    X, S, _ = load(name)
    order = np.random.RandomState(0).permutation(len(X))
    params = {"max_epochs": 1, "hidden_layer_sizes": (8,), "random_state": 0}
    halves = [
        CleanSEClassifier(**params).fit(X[half], S[half]).scaling_
        for half in np.array_split(order, 2)
    ]
    assert len(set(halves)) == 1
