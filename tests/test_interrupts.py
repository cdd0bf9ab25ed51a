"""Ctrl-C ends a fit and what called it; the model can still be used."""

import pickle
import signal
import threading
from functools import partial
from unittest.mock import Mock

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from skorch.callbacks import Callback, EarlyStopping

from sklearn_cleanse import CleanSEClassifier, PartialLabelClassifier
from sklearn_cleanse.network import _classifier

QUICK = {"hidden_layer_sizes": (16,), "max_epochs": 6, "random_state": 0}
ENDLESS = {**QUICK, "max_epochs": 100_000}
CV = KFold(2, shuffle=True, random_state=0)


@pytest.fixture(autouse=True)
def ctrl_c_works():
    """A shell in the background ignores the signal, and its children inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class PressCtrlC(Callback):
    """Send this process the signal of Ctrl-C in the third epoch."""

    def on_batch_begin(self, net, **kwargs):
        if len(net.history) == 3:
            signal.raise_signal(signal.SIGINT)


class PressSoon(Callback):
    """Send the signal from another thread, during whatever the training does then."""

    def on_epoch_end(self, net, **kwargs):
        if len(net.history) == 3:
            threading.Timer(0.02, signal.raise_signal, (signal.SIGINT,)).start()


class PressWhileStopping(EarlyStopping):
    """Send the signal inside a stopping rule, which ends a training by the same exception."""

    def on_epoch_end(self, net, **kwargs):
        PressCtrlC.on_batch_begin(self, net)
        super().on_epoch_end(net, **kwargs)


@pytest.fixture(params=[PressCtrlC, PressSoon, partial(PressWhileStopping, "loss", sink=str)])
def interrupt(request):
    return request.param()


@pytest.mark.parametrize("cls", [CleanSEClassifier, PartialLabelClassifier])
def test_an_interrupted_fit_raises_and_keeps_a_usable_model(cls, interrupt, blobs):
    X, S, _ = blobs
    clf = cls(callbacks=[interrupt], **ENDLESS)
    with pytest.raises(KeyboardInterrupt, match=r"interrupted after \d+ epochs"):
        clf.fit(X, S)
    assert 2 <= clf.n_iter_ == len(clf.history_) < 100_000
    assert all("loss" in epoch and "seconds" in epoch for epoch in clf.history_)
    for model in (clf, pickle.loads(pickle.dumps(clf))):
        assert model.interrupted_
        np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
        assert model.candidate_proba_.shape == S.shape


def test_an_interrupted_model_continues(blobs):
    X, S, y = blobs
    clf = CleanSEClassifier(callbacks=[PressCtrlC()], warm_start=True, **QUICK)
    with pytest.raises(KeyboardInterrupt):
        clf.fit(X, S)
    assert clf.n_iter_ == 2  # the interrupted epoch does not count
    clf.set_params(callbacks=None).fit(X, S)
    assert (clf.interrupted_, clf.n_iter_) == (False, 2 + 6)
    assert clf.score(X, S, truth=y) > 0.9


def test_an_interrupt_ends_searches(interrupt, blobs):
    X, S, _ = blobs
    model = CleanSEClassifier(callbacks=[interrupt], **ENDLESS)
    with pytest.raises(KeyboardInterrupt):
        GridSearchCV(model, {"temperature": [1.0, 3.0]}, cv=CV).fit(X, S)
    with pytest.raises(KeyboardInterrupt):
        cross_val_score(model, X, S, cv=CV)


class StopByRaising(Callback):
    """End the training as skorch's own callbacks do."""

    def on_epoch_end(self, net, **kwargs):
        raise KeyboardInterrupt


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "params",
    [
        {"early_stopping": True, "n_iter_no_change": 1},
        {"callbacks": [EarlyStopping(monitor="loss", patience=1, threshold=100, sink=str)]},
        {"callbacks": [StopByRaising()]},
    ],
)
def test_stopping_early_is_not_an_interrupt(params, blobs):
    X, S, _ = blobs
    clf = CleanSEClassifier(**{**QUICK, "max_epochs": 50}, warm_start=True, **params)
    epochs = []
    for _ in range(2):
        epochs.append(clf.fit(X, S).n_iter_)
        assert clf.interrupted_ is False
    assert 0 < epochs[0] < epochs[1] < 100


@pytest.mark.parametrize("where", ["check_candidates", "build_net", "CandidateRows"])
def test_an_interrupt_before_training_leaves_the_estimator_as_it_was(where, blobs, monkeypatch):
    X, S, _ = blobs
    fresh, fitted = CleanSEClassifier(**QUICK), CleanSEClassifier(**QUICK).fit(X, S)
    expected = fitted.predict_proba(X)

    monkeypatch.setattr(_classifier, where, Mock(side_effect=KeyboardInterrupt))
    for clf in (fresh, fitted):
        with pytest.raises(KeyboardInterrupt):
            clf.fit(X[:, :3], S)
    monkeypatch.undo()
    with pytest.raises(NotFittedError):
        fresh.predict(X)
    assert not hasattr(fresh, "n_features_in_")
    assert fitted.n_features_in_ == 4
    np.testing.assert_array_equal(fitted.predict_proba(X), expected)
