"""Ctrl-C ends a fit and what called it, and the model can still be used."""

import os
import pickle
import signal
import threading
import time
import warnings

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from skorch.callbacks import Callback, EarlyStopping

from sklearn_cleanse import CleanSEClassifier, PartialLabelClassifier
from sklearn_cleanse.deep import _classifier

QUICK = {"hidden_layer_sizes": (16,), "max_epochs": 6, "random_state": 0}
ENDLESS = {**QUICK, "max_epochs": 100_000}
CV = KFold(2, shuffle=True, random_state=0)


@pytest.fixture(autouse=True)
def ctrl_c_works():
    """Also where the suite runs in the background of a shell, which then ignores the signal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class PressCtrlC(Callback):
    """Send this process the signal that Ctrl-C sends, in the third epoch."""

    def on_batch_begin(self, net, **kwargs):
        if len(net.history) == 3:
            os.kill(os.getpid(), signal.SIGINT)


class Raise(Callback):
    """Raise what Python makes of the signal, in the third epoch."""

    def on_batch_begin(self, net, **kwargs):
        if len(net.history) == 3:
            raise KeyboardInterrupt


class PressSoon(Callback):
    """Send the signal from another thread, at whatever the training is then."""

    def on_epoch_end(self, net, **kwargs):
        if len(net.history) == 3:
            threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT)).start()


@pytest.fixture(params=[PressCtrlC, Raise, PressSoon])
def interrupt(request):
    return request.param()


@pytest.mark.parametrize("cls", [CleanSEClassifier, PartialLabelClassifier])
def test_an_interrupted_fit_raises_and_keeps_a_usable_model(cls, interrupt, blobs):
    X, S, _ = blobs
    clf = cls(callbacks=[interrupt], **ENDLESS)
    with pytest.raises(KeyboardInterrupt, match=r"interrupted after \d+ epochs; the model keeps"):
        clf.fit(X, S)
    assert clf.interrupted_
    assert 2 <= clf.n_iter_ == len(clf.history_) < 100_000
    assert all("loss" in epoch and "seconds" in epoch for epoch in clf.history_)
    again = pickle.loads(pickle.dumps(clf))
    for model in (clf, again):
        np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
        assert model.candidate_proba_.shape == S.shape
        assert model.disambiguate(X, S).shape == (len(X),)
        assert model.interrupted_


def test_an_epoch_that_was_interrupted_is_not_counted(blobs):
    X, S, _ = blobs
    clf = CleanSEClassifier(callbacks=[PressCtrlC()], **QUICK)
    with pytest.raises(KeyboardInterrupt):
        clf.fit(X, S)
    assert clf.n_iter_ == 2


def test_an_interrupted_model_goes_on(blobs):
    X, S, y = blobs
    clf = CleanSEClassifier(callbacks=[PressCtrlC()], warm_start=True, **QUICK)
    with pytest.raises(KeyboardInterrupt):
        clf.fit(X, S)
    clf.set_params(callbacks=None).fit(X, S)
    assert not clf.interrupted_
    assert clf.n_iter_ == 2 + 6
    assert clf.score(X, S, truth=y) > 0.9


def test_a_finished_fit_was_not_interrupted(blobs):
    X, S, _ = blobs
    assert CleanSEClassifier(**QUICK).fit(X, S).interrupted_ is False
    assert CleanSEClassifier(**QUICK).partial_fit(X, S).interrupted_ is False


def test_an_interrupt_ends_a_grid_search(interrupt, blobs):
    X, S, _ = blobs
    model = CleanSEClassifier(callbacks=[interrupt], **ENDLESS)
    search = GridSearchCV(model, {"temperature": [1.0, 3.0]}, cv=CV)
    with pytest.raises(KeyboardInterrupt):
        search.fit(X, S)
    assert not hasattr(search, "cv_results_")


def test_an_interrupt_ends_a_cross_validation(interrupt, blobs):
    X, S, _ = blobs
    with pytest.raises(KeyboardInterrupt):
        cross_val_score(PartialLabelClassifier(callbacks=[interrupt], **ENDLESS), X, S, cv=CV)


@pytest.mark.parametrize(
    "params",
    [
        {"early_stopping": True, "n_iter_no_change": 1},
        {"callbacks": [EarlyStopping(monitor="loss", patience=1, threshold=100, sink=str)]},
    ],
)
def test_stopping_early_is_no_interruption(params, blobs):
    X, S, _ = blobs
    clf = CleanSEClassifier(**{**QUICK, "max_epochs": 50}, warm_start=True, **params)
    epochs = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            epochs.append(clf.fit(X, S).n_iter_)
            assert clf.interrupted_ is False
    assert 0 < epochs[0] < epochs[1] < 100


class PressWhileStopping(EarlyStopping):
    """A stopping rule of skorch's that is interrupted while it thinks, and does not raise."""

    def on_epoch_end(self, net, **kwargs):
        os.kill(os.getpid(), signal.SIGINT)
        super().on_epoch_end(net, **kwargs)


def test_an_interrupt_inside_a_stopping_rule_is_an_interrupt(blobs):
    X, S, _ = blobs
    clf = CleanSEClassifier(callbacks=[PressWhileStopping("loss", sink=str)], **ENDLESS)
    with pytest.raises(KeyboardInterrupt):
        clf.fit(X, S)
    assert clf.interrupted_


@pytest.mark.parametrize("where", ["check_graded", "build_net", "TrainingRows"])
def test_an_interrupt_before_training_leaves_the_estimator_as_it_was(where, blobs, monkeypatch):
    X, S, _ = blobs
    fresh, fitted = CleanSEClassifier(**QUICK), CleanSEClassifier(**QUICK).fit(X, S)
    expected = fitted.predict_proba(X)

    def press(*args, **kwargs):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1)  # until the signal is handled

    monkeypatch.setattr(_classifier, where, press)
    for clf in (fresh, fitted):
        with pytest.raises(KeyboardInterrupt):
            clf.fit(X[:, :3], S)
    monkeypatch.undo()
    with pytest.raises(NotFittedError):
        fresh.predict(X)
    assert not hasattr(fresh, "n_features_in_")
    assert fitted.n_features_in_ == 4
    assert not fitted.interrupted_
    np.testing.assert_array_equal(fitted.predict_proba(X), expected)
