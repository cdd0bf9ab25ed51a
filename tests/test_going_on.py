"""Training that goes on from where it was, or fails to: warm starts and `partial_fit`."""

import pickle

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError
from skorch.callbacks import Callback

from sklearn_cleanse import CleanSEClassifier, PartialLabelClassifier
from sklearn_cleanse.losses import LOSSES

QUICK = {"hidden_layer_sizes": (16,), "max_epochs": 6, "random_state": 0}


def test_warm_start_goes_on(blobs):
    X, S, _ = blobs
    clf = CleanSEClassifier(warm_start=True, schedule="constant", **QUICK).fit(X, S)
    before = clf.history_[-1]["loss"]
    clf.fit(X, S)
    assert clf.n_iter_ == 12
    assert clf.history_[6]["loss"] < clf.history_[0]["loss"]
    assert clf.history_[-1]["loss"] < before
    assert CleanSEClassifier(**QUICK).fit(X, S).fit(X, S).n_iter_ == 6


@pytest.mark.parametrize("again", ["fit", "partial_fit"])
@pytest.mark.parametrize("schedule", ["onecycle", "constant"])
def test_training_goes_on_under_every_schedule(schedule, again, blobs):
    X, S, y = blobs
    clf = CleanSEClassifier(warm_start=True, schedule=schedule, **QUICK)
    clf.partial_fit(X, S).fit(X, S)
    getattr(clf, again)(X[:90], S[:90], sample_weight=np.full(90, 0.5))
    clf.set_params(loss="cc", weight_decay=0.0, batch_size=32, lr=1e-3).fit(X, S)
    assert clf.n_iter_ == 1 + 6 + (6 if again == "fit" else 1) + 6
    assert clf.net_.optimizer_.param_groups[0]["weight_decay"] == 0
    assert clf.score(X, S, truth=y) > 0.9


def test_partial_fit_votes_and_keeps_the_losses_own_confidences(blobs):
    X, S, _ = blobs

    def three_calls(loss, **params):
        clf = CleanSEClassifier(
            loss, vote="soft", hidden_layer_sizes=(16,), random_state=0, **params
        )
        for _ in range(3):
            clf.partial_fit(X, S)
        return clf.predict_proba(X)

    assert not np.array_equal(three_calls("proden"), three_calls("proden", temperature=1))
    off = {"temperature": 1, "count_weight": 0}
    assert not np.array_equal(three_calls("proden", **off), three_calls("cavl", **off))


@pytest.mark.parametrize("loss", [name for name in LOSSES if not LOSSES[name].confidences])
def test_a_loss_without_confidences_has_even_ballots_whenever_it_goes_on(loss, blobs):
    X, S, _ = blobs
    clf = CleanSEClassifier(loss, vote="soft", warm_start=True, **QUICK).fit(X, S)
    for go_on in (clf.fit, clf.partial_fit):
        for why in go_on(X, S).explain(X[:20], S[:20]):
            for ballot in why.ballots:
                assert set(ballot.values()) == {np.float32(1 / len(ballot))}


def test_partial_fit_learns_from_chunks(blobs):
    X, S, y = blobs
    clf = CleanSEClassifier(hidden_layer_sizes=(16,), random_state=0)
    for _ in range(30):
        for start in (0, 60):
            clf.partial_fit(X[start : start + 60], S[start : start + 60])
    assert clf.n_iter_ == 60
    assert clf.score(X, S, truth=y) > 0.9


def test_partial_fit_needs_all_classes_once(blobs):
    X, _, y = blobs
    clf = PartialLabelClassifier(**QUICK)
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        clf.partial_fit(X, y)
    clf.partial_fit(X[y < 2], y[y < 2], classes=[0, 1, 2]).partial_fit(X, y)
    assert clf.classes_.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="not the same as in the first call"):
        clf.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="row 0 has the label 7"):
        clf.partial_fit(X[:1].repeat(2, 0), [7, 7])


# -- what goes wrong leaves the model as it was --------------------------------------------------


class Fail(Callback):
    def __init__(self, epoch):
        self.epoch = epoch

    def on_batch_end(self, net, **kwargs):
        if len(net.history) == self.epoch:
            raise RuntimeError("the callback failed")


def a_fit(clf, X, S):
    return clf.fit(X, S)


def a_partial_fit(clf, X, S):
    return clf.partial_fit(X, S)


def state(clf, X, S):
    """All that a user could see of a fitted model."""
    return {
        "proba": clf.predict_proba(X),
        "candidates": clf.candidate_proba_,
        "voters": [why.neighbors for why in clf.explain(X[:5], S[:5])],
        "history": repr(clf.history_),
        "epochs": clf.n_iter_,
        "features": clf.n_features_in_,
        "classes": clf.classes_,
        "pickle": len(pickle.dumps(clf)),
        "attributes": sorted(vars(clf)),
        "weights": [p.detach().numpy().copy() for p in clf.net_.module_.parameters()],
        "rate": [group["lr"] for group in clf.net_.optimizer_.param_groups],
        "moments": [
            {name: torch.as_tensor(value).numpy().copy() for name, value in moments.items()}
            for moments in clf.net_.optimizer_.state_dict()["state"].values()
        ],
    }


@pytest.mark.parametrize("go_on", [a_fit, a_partial_fit])
@pytest.mark.parametrize(
    ("error", "params", "columns", "n_classes"),
    [
        (FloatingPointError, {"lr": 1e38, "schedule": "constant"}, 4, 3),
        (RuntimeError, {"callbacks": [Fail(7)]}, 4, 3),
        (ValueError, {}, 3, 3),
        (ValueError, {}, 4, 5),
        (ValueError, {"loss": "prodenn"}, 4, 3),
        (ValueError, {"loss_params": {"beta": 1}}, 4, 3),
    ],
)
def test_a_failed_continuation_leaves_the_model_as_it_was(
    go_on, error, params, columns, n_classes, blobs
):
    X, S, _ = blobs
    clf = CleanSEClassifier("cc", vote="soft", warm_start=True, **QUICK).fit(X, S)
    asked = {name: clf.get_params()[name] for name in params}
    before = state(clf, X, S)
    wide = np.hstack([S, np.ones((len(S), 2), dtype=int)])
    clf.set_params(**params)
    with pytest.raises(error):
        go_on(clf, X[:, :columns], wide[:, :n_classes])
    clf.set_params(**asked)
    after = state(clf, X, S)
    assert before.keys() == after.keys()
    for name, value in before.items():
        np.testing.assert_equal(after[name], value, err_msg=name)
    go_on(clf, X, S)
    assert clf.n_iter_ > before["epochs"]


def test_a_failed_fit_from_anew_keeps_the_model_before(blobs):
    X, S, _ = blobs
    clf = CleanSEClassifier(vote="soft", **QUICK).fit(X, S)
    before = state(clf, X, S)
    with pytest.raises(ValueError, match="row 0 has no candidate"):
        clf.fit(X[:, :3], np.zeros_like(S))
    with pytest.raises(RuntimeError, match="the callback failed"):
        clf.set_params(callbacks=[Fail(2)]).fit(X[:, :3], np.ones((len(X), 2)))
    np.testing.assert_equal(state(clf.set_params(callbacks=None), X, S), before)


def test_failed_calls_do_not_change_what_comes_after(blobs):
    """A model that went on after a failure is the one that went on without it."""
    X, S, _ = blobs
    clf = CleanSEClassifier(vote="soft", warm_start=True, **QUICK).fit(X, S)
    with pytest.raises(RuntimeError, match="the callback failed"):
        clf.set_params(callbacks=[Fail(8)]).fit(X, S)
    clf.set_params(callbacks=None).fit(X, S)
    undisturbed = CleanSEClassifier(vote="soft", warm_start=True, **QUICK).fit(X, S).fit(X, S)
    np.testing.assert_array_equal(clf.predict_proba(X), undisturbed.predict_proba(X))


# -- the small form ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("clf", "most"),
    [
        (PartialLabelClassifier("proden"), 1.15),
        (PartialLabelClassifier("proden", early_stopping=True), 1.15),
        (CleanSEClassifier(vote="soft"), 1.15),
        (CleanSEClassifier(kernel_share=0.0), 1.15),
        (CleanSEClassifier(), 1.3),  # the kernel predicts as well
    ],
)
def test_a_pickle_without_training_state_is_little_more_than_the_parameters(clf, most, blobs):
    X, S, _ = blobs
    clf.set_params(max_epochs=2, random_state=0).fit(X, S)
    expected = clf.predict_proba(X), clf.predict(X), clf.disambiguate(X, S)
    n_bytes = 4 * sum(p.numel() for p in clf.net_.module_.parameters())
    assert len(pickle.dumps(clf)) > 3 * n_bytes
    assert clf.drop_training_state() is clf
    assert len(pickle.dumps(clf)) < most * n_bytes
    for small in (clf, pickle.loads(pickle.dumps(clf))):
        found = small.predict_proba(X), small.predict(X), small.disambiguate(X, S)
        for one, other in zip(expected, found, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("go_on", [a_fit, a_partial_fit])
def test_training_goes_on_without_the_state_that_was_dropped_and_says_so(go_on, blobs):
    X, S, y = blobs
    clf = CleanSEClassifier("proden", warm_start=True, **QUICK).fit(X, S)
    weights = [p.detach().clone() for p in clf.net_.module_.parameters()]
    for before, after in zip(
        weights, clf.drop_training_state().net_.module_.parameters(), strict=True
    ):
        assert torch.equal(before, after)
    with pytest.warns(UserWarning, match="goes on from the weights with a fresh optimiser") as told:
        go_on(clf, X, S)
    assert told[0].filename == __file__
    assert clf.n_iter_ > 6
    assert clf.candidate_proba_.shape == S.shape
    assert clf.score(X, y) > 0.9


def test_what_was_dropped_is_named_when_asked_for(blobs):
    X, S, _ = blobs
    clf = CleanSEClassifier(vote="soft", **QUICK).fit(X, S).drop_training_state()
    with pytest.raises(AttributeError, match=r"candidate_proba_ was dropped.*disambiguate"):
        clf.candidate_proba_  # noqa: B018
    with pytest.raises(ValueError, match=r"voters were dropped.*explain before"):
        clf.explain(X, S)
    kernel = CleanSEClassifier(kernel_share=0.5, **QUICK).fit(X, S).drop_training_state()
    assert len(kernel.explain(X[:3], S[:3])) == 3
    with pytest.raises(NotFittedError):
        CleanSEClassifier().drop_training_state()
