"""A loss of one's own in the estimators: a function, a `Loss`, or a name added to the dict."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold

from sklearn_cleanse import CleanSEClassifier, PartialLabelClassifier
from sklearn_cleanse.losses import LOSSES, Loss, candidate_confidences

QUICK = {"hidden_layer_sizes": (16,), "max_epochs": 15, "random_state": 0}
BOTH = pytest.mark.parametrize("cls", [PartialLabelClassifier, CleanSEClassifier])


def powered(logits, candidates, weights, sample_weight, *, q=0.7):
    """``(1 - p_s ** q) / q``, p_s the probability of the candidates."""
    inside = (weights * logits.softmax(dim=1)).sum(dim=1).clamp(1e-6, 1)
    losses = (1 - inside**q) / q
    return losses.mean() if sample_weight is None else (losses * sample_weight).mean()


KEEPING = Loss(powered, confidences=candidate_confidences, q=0.5)


@BOTH
@pytest.mark.parametrize("loss", [powered, Loss(powered, q=1.0), KEEPING])
def test_it_trains_and_is_cloned_and_pickled_with_the_model(cls, loss, blobs):
    X, S, y = blobs
    clf = cls(loss, **QUICK).fit(X, S)
    assert clf.loss is loss  # fit writes no parameter
    assert clf.score(X, S, truth=y) > 0.9
    for copy in (clone(clf).fit(X, S), pickle.loads(pickle.dumps(clf))):
        assert copy.loss == loss
        np.testing.assert_array_equal(copy.predict_proba(X), clf.predict_proba(X))


@BOTH
def test_a_name_is_its_loss_and_may_be_added(cls, blobs, monkeypatch):
    X, S, _ = blobs
    monkeypatch.setitem(LOSSES, "powered", KEEPING)
    params = {**QUICK, "max_epochs": 2}
    for name in LOSSES:
        found = [cls(loss, **params).fit(X, S).predict_proba(X) for loss in (name, LOSSES[name])]
        np.testing.assert_array_equal(*found)


def test_a_loss_returns_a_scalar(blobs):
    X, S, _ = blobs
    with pytest.raises(ValueError, match=r"must return a scalar, got shape \(\d+,\)"):
        PartialLabelClassifier(lambda logits, *args: logits.sum(dim=1), **QUICK).fit(X, S)


def test_a_search_chooses_among_losses_and_their_parameters(blobs):
    X, S, _ = blobs
    losses = ["cc", powered, Loss(powered, q=1.0), KEEPING, Loss("lws", beta=1), Loss("lws")]
    search = GridSearchCV(
        PartialLabelClassifier(**{**QUICK, "max_epochs": 3}),
        {"loss": losses},
        cv=KFold(2, shuffle=True, random_state=0),
        error_score="raise",
    ).fit(X, S)
    assert [params["loss"] for params in search.cv_results_["params"]] == losses
    assert search.best_estimator_.loss == search.best_params_["loss"]


@pytest.mark.parametrize("by_row", [True, False])
def test_a_loss_that_is_not_a_mean_over_rows_sees_each_network_apart(by_row, blobs):
    X, S, _ = blobs
    sizes = []

    def looking(logits, *args):
        sizes.append(len(logits))
        return powered(logits, *args)

    params = {**QUICK, "max_epochs": 1, "n_networks": 3, "batch_size": len(X)}
    PartialLabelClassifier(Loss(looking, by_row=by_row), **params).fit(X, S)
    assert sizes == ([3 * len(X)] if by_row else [len(X)] * 3)
