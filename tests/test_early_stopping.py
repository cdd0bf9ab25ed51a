"""Early stopping: held-out rows, the best epoch, and that stopping is no interruption."""

import numpy as np
import pytest
import torch
from skorch.callbacks import Callback

from sklearn_cleanse import CleanSEClassifier
from sklearn_cleanse.deep import _classifier, _net
from sklearn_cleanse.metrics import approximated_accuracy

QUICK = {"hidden_layer_sizes": (16,), "max_epochs": 6, "random_state": 0}


def test_early_stopping_stops_and_keeps_the_best(blobs):
    X, S, _ = blobs
    clf = CleanSEClassifier(
        hidden_layer_sizes=(16,),
        max_epochs=200,
        schedule="constant",
        early_stopping=True,
        n_iter_no_change=3,
        random_state=0,
    ).fit(X, S)
    scores = [epoch["validation_score"] for epoch in clf.history_]
    assert clf.n_iter_ < 200
    assert np.argmax(scores) == len(scores) - 4 or max(scores) == 1.0
    assert clf.candidate_proba_.shape == S.shape


def test_early_stopping_restores_the_best_epochs_weights(blobs):
    class Weights(Callback):
        def on_epoch_end(self, net, **kwargs):
            self.seen_ = [
                *getattr(self, "seen_", []),
                net.module_.state_dict()["network.head.bias"].clone(),
            ]

    X, S, _ = blobs
    clf = CleanSEClassifier(
        hidden_layer_sizes=(16,),
        max_epochs=60,
        schedule="constant",
        early_stopping=True,
        n_iter_no_change=4,
        callbacks=[Weights()],
        random_state=0,
    ).fit(X, S)
    best = np.argmax([epoch["validation_score"] for epoch in clf.history_])
    seen = dict(clf.net_.callbacks_)["Weights"].seen_
    assert torch.equal(clf.net_.module_.state_dict()["network.head.bias"], seen[best])


def test_held_out_rows_are_scored_by_the_approximated_accuracy(blobs, monkeypatch):
    X, S, _ = blobs
    held_out, original = [], _net.early_stopping
    monkeypatch.setattr(
        _net, "early_stopping", lambda *args: [held_out.extend(args), original(*args)][1]
    )
    clf = CleanSEClassifier(early_stopping=True, kernel_share=0.0, **QUICK).fit(X, S)
    rows, candidates, _ = held_out
    best = max(epoch["validation_score"] for epoch in clf.history_)  # whose weights are kept
    assert best == pytest.approx(approximated_accuracy(candidates, clf.predict_proba(rows)))


def test_held_out_rows_are_never_trained_on(blobs, monkeypatch):
    X, S, _ = blobs
    held_out, trained_on = [], []
    monkeypatch.setattr(_net, "early_stopping", lambda X, *args: [held_out.append(X), []][1])
    original = _classifier.TrainingRows

    def note(X, *args, used, **kwargs):
        trained_on.append(X[used])
        return original(X, *args, used=used, **kwargs)

    monkeypatch.setattr(_classifier, "TrainingRows", note)
    counted = []
    check = _classifier.check_loss_params
    monkeypatch.setattr(
        _classifier, "check_loss_params", lambda *args: [counted.append(args[2]), check(*args)][1]
    )
    clf = CleanSEClassifier(early_stopping=True, **QUICK)
    clf.fit(X, S, sample_weight=np.full(len(X), 5))
    assert counted[0].shape[0] == len(trained_on[0])  # nor do they enter a prior
    assert len(trained_on[0]) == 5 * (len(X) - len(held_out[0]))
    assert not set(map(tuple, trained_on[0])) & set(map(tuple, held_out[0]))
