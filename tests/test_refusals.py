"""What the network estimators refuse, and that it is by name."""

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError

from sklearn_cleanse import CleanSEClassifier, PartialLabelClassifier

QUICK = {"hidden_layer_sizes": (16,), "max_epochs": 6, "random_state": 0}


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"temperature": 0.5}, r"'temperature' .* range \[1.0, inf\). Got 0.5"),
        ({"count_weight": -1}, r"'count_weight'"),
        ({"n_neighbors": 0}, r"'n_neighbors'"),
        ({"neighbors_from": "all"}, r"'neighbors_from' .*'batch'"),
        ({"neighbor_space": "logits"}, r"'neighbor_space'"),
        ({"vote": "loud"}, r"'vote'"),
        ({"count_loss": "none"}, r"'count_loss'"),
        ({"loss": "mse"}, r"'loss' parameter is 'mse'; it must be one of 'average', 'cc'"),
        ({"loss": "prodden"}, r"did you mean 'proden'\?"),
        ({"loss": 3}, r"'loss'"),
        ({"loss": torch.nn.CrossEntropyLoss}, r"'loss' parameter .*CrossEntropyLoss"),
        ({"loss_params": {"beta": 1.0}}, r"loss_params has 'beta'; .*loss='proden' are: none"),
        ({"loss": "lws", "loss_params": {"betta": 1.0}}, r"has 'betta'; .* are: beta, form"),
        ({"loss": "lws", "loss_params": {1: 2, "x": 3}}, r"has 1; .* are: beta, form"),
        ({"loss": "lws", "loss_params": {"beta": -1.0}}, r"beta is -1.0; it must be a number"),
        ({"loss": "lws", "loss_params": {"beta": True}}, r"beta is True; it must be a number"),
        ({"loss": "lws", "loss_params": {"form": "x"}}, r"form is 'x'; .*'sigmoid'"),
        ({"loss": "scarce", "loss_params": {"class_prior": "x"}}, r"class_prior is 'x'"),
        ({"loss": "scarce", "loss_params": {"class_prior": [1.0]}}, r"an array of 3 probabilities"),
        ({"loss": "scarce", "loss_params": {"class_prior": None}}, r"class_prior is None; it must"),
        (
            {"loss": "scarce", "loss_params": {"class_prior": list("abc")}},
            r"is \['a', 'b', 'c'\]; ",
        ),
        ({"loss": "scarce", "loss_params": {"class_prior": [0, 1.5, -0.5]}}, r"1.5 for class 1"),
        ({"loss": "scarce", "loss_params": {"class_prior": [0.5, 0.2, 0.2]}}, r"sums to 0.9"),
        ({"loss": "scarce", "loss_params": {"correction": "x"}}, r"correction is 'x'; .*'abs'"),
        ({"scaling": "robust"}, r"'scaling'"),
        ({"scaling": ["rank", "robust"]}, r"scaling=\['rank', 'robust'\] must name"),
        ({"scaling": []}, r"scaling=\[\] must name"),
        ({"scaling": ["rank"], "module": torch.nn.Linear}, r"a single scaling for module"),
        ({"max_epochs": 0}, r"'max_epochs'"),
        ({"batch_size": 1.5}, r"'batch_size'"),
        ({"lr": 0}, r"'lr'"),
        ({"dropout": 1.0}, r"'dropout'"),
        ({"module": "transformer"}, r"'module'"),
        ({"module": "resnet34"}, r"module='resnet34' needs images"),
        ({"hidden_layer_sizes": (0,)}, r"hidden_layer_sizes"),
        ({"device": "tpu9"}, r"device"),
        ({"early_stopping": True, "validation_fraction": 0.999}, r"leaves too few"),
    ],
)
def test_bad_parameters_are_refused_by_name(params, message, blobs):
    X, S, _ = blobs
    with pytest.raises(ValueError, match=message):
        CleanSEClassifier(**{**QUICK, **params}).fit(X, S)


def test_a_diverging_loss_is_reported_not_hidden(blobs):
    X, S, _ = blobs
    with pytest.raises(FloatingPointError, match=r"became .* in epoch .*; lower lr"):
        PartialLabelClassifier(
            "scarce", module=torch.nn.Linear, lr=1e38, schedule="constant", max_epochs=5
        ).fit(X, S)


@pytest.mark.parametrize("value", [1e300, -1e40])
def test_values_beyond_single_precision_are_refused_by_row(value, blobs):
    X, S, _ = blobs
    clf = CleanSEClassifier(**QUICK).fit(X, S)
    X = X.copy()
    X[7, 2] = value
    with pytest.raises(ValueError, match="row 7 of X has a value beyond"):
        CleanSEClassifier(**QUICK).fit(X, S)
    with pytest.raises(ValueError, match="row 7 of X has a value beyond"):
        clf.predict(X)


def test_weights_that_leave_one_row(blobs):
    X, S, _ = blobs
    with pytest.raises(ValueError, match="one sample is not enough"):
        CleanSEClassifier(**QUICK).fit(X, S, sample_weight=np.arange(len(X)) == 3)


def test_weights_that_leave_no_row(blobs):
    X, S, _ = blobs
    with pytest.raises(ValueError, match="at least one non-zero"):
        CleanSEClassifier(**QUICK).fit(X, S, sample_weight=np.zeros(len(X)))


def test_a_failed_fit_leaves_nothing_behind(blobs):
    X, S, _ = blobs
    clf = PartialLabelClassifier(
        "scarce", module=torch.nn.Linear, lr=1e38, schedule="constant", max_epochs=5
    )
    with pytest.raises(FloatingPointError):
        clf.fit(X, S)
    with pytest.raises(NotFittedError):
        clf.predict(X)
