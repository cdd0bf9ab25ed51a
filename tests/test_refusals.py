"""What the network estimators and kernel votes refuse, and that it is by name."""

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError
from skorch.callbacks import Callback

from sklearn_cleanse import CleanSEClassifier, CleanSEKernelClassifier, PartialLabelClassifier
from sklearn_cleanse.candidates import check_candidates
from sklearn_cleanse.votes import fit_kernel_votes

QUICK = {"hidden_layer_sizes": (16,), "max_epochs": 6, "random_state": 0}


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"temperature": 0.5}, r"'temperature' .* range \[1.0, 1e\+18\]. Got 0.5"),
        ({"temperature": 1e300}, r"'temperature' .* range \[1.0, 1e\+18\]. Got 1e\+300"),
        ({"count_weight": -1}, r"'count_weight'"),
        ({"count_weight": 1e300}, r"'count_weight' .* range \[0.0, 1e\+18\]. Got 1e\+300"),
        ({"n_neighbors": 0}, r"'n_neighbors'"),
        ({"neighbors_from": "all"}, r"'neighbors_from' .*'batch'"),
        ({"neighbor_space": "logits"}, r"'neighbor_space'"),
        ({"vote": "loud"}, r"'vote'"),
        ({"count_loss": "none"}, r"'count_loss'"),
        ({"loss": "mse"}, r"'loss' parameter is 'mse'; it must be one of 'average', 'cc'"),
        ({"loss": "prodden"}, r"did you mean 'proden'\?"),
        ({"loss": 3}, r"'loss'"),
        ({"loss": torch.nn.CrossEntropyLoss}, r"'loss' parameter .*CrossEntropyLoss"),
        ({"loss_params": {"beta": 1.0}}, r"loss_params has 'beta'; .*loss='cc' are: none"),
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


# -- numbers that cannot be computed with --------------------------------------------------------

ANY = [CleanSEClassifier(**QUICK), PartialLabelClassifier(**QUICK), CleanSEKernelClassifier()]


@pytest.mark.parametrize(
    ("factor", "dtype", "bound"), [(1e-41, np.float32, "1e-34"), (1e-310, np.float64, "1e-150")]
)
@pytest.mark.parametrize("estimator", ANY)
def test_features_too_small_to_be_scaled_are_refused(estimator, factor, dtype, bound, blobs):
    X, S, _ = blobs
    X = X.copy()
    X[:, 2] *= factor
    expected = f"feature 2 of X varies by .* only.*at least {bound}.*; multiply that feature"
    with pytest.raises(ValueError, match=expected):
        estimator.fit(X.astype(dtype), S)


@pytest.mark.parametrize("estimator", ANY)
@pytest.mark.parametrize(("factor", "dtype"), [(1e-30, np.float32), (1e-140, np.float64)])
def test_features_of_any_other_scale_are_learnt(estimator, factor, dtype, blobs):
    X, S, y = blobs
    X = (X * factor).astype(dtype)
    X = np.hstack([X, np.full((len(X), 1), factor, dtype=dtype)])  # a constant may be anything
    if isinstance(estimator, PartialLabelClassifier):
        estimator.set_params(max_epochs=15)
    assert estimator.fit(X, S).score(X, y) > 0.9


def test_values_that_cannot_be_squared_are_refused_by_kernel_votes(blobs):
    X, S, _ = blobs
    clf = CleanSEKernelClassifier().fit(X, S)
    for use in (CleanSEKernelClassifier().fit, clf.score):
        with pytest.raises(ValueError, match=r"row 36 of X has a value beyond ±1e\+150.*; divide"):
            use(X * 1e300, S)
    with pytest.raises(ValueError, match=r"row 36 of X has a value beyond ±1e\+37.*; divide"):
        clf.fit((X * 3e37).astype(np.float32), S)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "explain"])
def test_rows_too_far_away_are_refused_by_kernel_votes(method, blobs):
    X, S, _ = blobs
    far = X.copy()
    far[5] = 1e60
    with pytest.raises(ValueError, match=r"row 5 of X is so far from all training rows.*units"):
        getattr(CleanSEKernelClassifier().fit(X, S), method)(far)


@pytest.mark.parametrize("method", ["predict", "predict_proba"])
def test_rows_whose_prediction_is_no_number_are_refused(method, blobs):
    X, S, _ = blobs
    clf = PartialLabelClassifier(**QUICK).fit(X * 1e-30, S)
    far = X * 1e-30
    far[5] = 1e17
    with pytest.raises(ValueError, match=r"output for row 5 of X is not finite.*units"):
        getattr(clf, method)(far)


@pytest.mark.parametrize("value", [1e38, 1e300, 1e-45, 1e-300])
def test_weights_beyond_single_precision_are_refused_by_row(value, blobs):
    X, S, _ = blobs
    weight = np.full(len(X), 0.5)
    weight[7] = value
    with pytest.raises(ValueError, match=r"sample_weight is 1e.* in row 7; .*multiply all weights"):
        PartialLabelClassifier(**QUICK).fit(X, S, sample_weight=weight)


@pytest.mark.parametrize("ridge", [1e-300, 0.0, 1e300, np.inf])
def test_a_ridge_that_rounding_outweighs_or_that_outweighs_all_is_refused(ridge, blobs):
    X, S, _ = blobs
    with pytest.raises(ValueError, match=r"'ridge' .* range \[1e-06, 1000000.0\]. Got"):
        CleanSEKernelClassifier(ridge=ridge).fit(X, S)


# -- modules and callbacks -----------------------------------------------------------------------


class Odd(torch.nn.Module):
    """A module whose output is changed on its way out."""

    def __init__(self, n_features, n_classes, change):
        super().__init__()
        self.linear = torch.nn.Linear(n_features, n_classes)
        self.change = change

    def forward(self, X):
        return self.change(self.linear(X))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda Z: (Z, Z, Z), "returned 3 outputs; it must return logits, or a tuple"),
        (lambda Z: (Z,), "returned 1 outputs; it must return logits"),
        (lambda Z: [Z, Z], "returned list; it must return logits"),
        (lambda Z: None, "returned NoneType; it must return logits"),
        (lambda Z: Z[:, :2], r"logits of shape \(2, 2\) for 2 rows and 3 classes; it must"),
        (lambda Z: torch.cat([Z, Z], dim=1), r"logits of shape \(2, 6\) for 2 rows and 3"),
        (lambda Z: Z[:, 0], r"logits of shape \(2,\) for 2 rows"),
        (lambda Z: Z.sum(), r"logits of shape \(\) for 2 rows"),
        (lambda Z: Z[:1], r"logits of shape \(1, 3\) for 2 rows"),
        (lambda Z: Z[:, None, None], r"logits of shape \(2, 1, 1, 3\)"),
        (lambda Z: Z.detach(), "pass no gradient to its parameters; return"),
        (lambda Z: Z.long(), r"logits \(torch.int64\) pass no gradient"),
        (lambda Z: (Z, Z[:1]), r"representation of shape \(1, 3\) for 2 rows; it must"),
        (lambda Z: (Z, Z.sum()), r"representation of shape \(\) for 2 rows"),
        (lambda Z: Z @ Z, r"failed on inputs of shape \(2, 4\).*RuntimeError: mat1"),
    ],
)
@pytest.mark.parametrize("cls", [CleanSEClassifier, PartialLabelClassifier])
def test_modules_of_the_wrong_form_are_refused_before_training(cls, change, message, blobs):
    X, S, _ = blobs
    with pytest.raises(ValueError, match=message):
        cls(module=Odd, module_params={"change": change}, max_epochs=1).fit(X, S)


@pytest.mark.parametrize(
    ("module", "error", "message"),
    [
        (torch.nn.ReLU, TypeError, r"cannot be called with 4 \(features.*3 \(classes.*params={}"),
        (int, TypeError, "module=<class 'int'> cannot be called with 4"),
        (torch.nn.Identity, ValueError, "gives Identity without parameters to train; pass"),
    ],
)
def test_what_is_no_module_is_refused(module, error, message, blobs):
    X, S, _ = blobs
    with pytest.raises(error, match=message):
        PartialLabelClassifier(module=module, max_epochs=1).fit(X, S)


def test_images_without_channels(rng):
    X, y = rng.uniform(size=(20, 28, 28)), np.arange(20) % 2
    with pytest.raises(ValueError, match=r"shape \(20, 28, 28\); add the channels' axis by X\[:"):
        CleanSEClassifier(module="resnet34").fit(X, y)
    with pytest.raises(ValueError, match=r"shape \(20, 28, 28\).*flatten samples by X.reshape"):
        CleanSEKernelClassifier().fit(X, y)

    class Convolution(torch.nn.Module):
        def __init__(self, n_channels, n_classes):
            super().__init__()
            self.layer = torch.nn.Conv2d(1, n_classes, 28)

        def forward(self, X):
            return self.layer(X).flatten(1)

    with pytest.raises(ValueError, match=r"inputs of shape \(2, 28, 28\).*channel axis, as in X"):
        CleanSEClassifier(module=Convolution).fit(X, y)
    assert CleanSEClassifier(**QUICK).fit(X, y).predict(X).shape == (20,)  # the mlp flattens


@pytest.mark.parametrize(
    "given", [3, "progress", None, torch.nn.Linear, ("name", 3), (Callback(), "name"), print]
)
def test_callbacks_that_are_none(given, blobs):
    X, S, _ = blobs
    clf = PartialLabelClassifier(callbacks=[Callback(), given], **QUICK)
    with pytest.raises(ValueError, match=r"callbacks\[1\] is .*; it must be a skorch"):
        clf.fit(X, S)
    clf.set_params(callbacks=[Callback, ("name", Callback()), ("off", None)])
    assert clf.fit(X, S).n_iter_ == 6


# -- odd, but legal: kernel votes ----------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, np.uint32, np.int64, np.float16])
def test_kernel_votes_are_those_of_the_same_numbers_in_any_type(dtype, blobs):
    X, S, _ = blobs
    X, (_, candidates) = np.abs(np.round(4 * X)), check_candidates(S)
    votes, model, _ = fit_kernel_votes(X.astype(dtype), candidates, np.arange(len(X)))
    expected, reference, _ = fit_kernel_votes(X, candidates, np.arange(len(X)))
    torch.testing.assert_close(votes.proba, expected.proba, rtol=0, atol=1e-4)
    found = model.scores(X[:9].astype(dtype))
    torch.testing.assert_close(found, reference.scores(X[:9]), rtol=0, atol=1e-4)


def test_kernel_votes_on_yes_and_no(rng):
    y = np.arange(60) % 3
    X, S = np.eye(3, dtype=bool)[y], rng.uniform(size=(60, 3)) < 0.4
    S[np.arange(60), y] = True
    assert CleanSEKernelClassifier().fit(X, S.astype(int)).score(X, y) == 1
    votes, *_ = fit_kernel_votes(X, check_candidates(S.astype(int))[1], np.arange(60))
    assert (votes.proba.argmax(dim=1).numpy() == y).all()


def test_kernel_votes_tell_large_integers_apart(blobs):
    X, S, y = blobs
    X = np.round(1e6 * X).astype(np.int64) + 2**52  # beyond single precision
    assert CleanSEKernelClassifier().fit(X, S).score(X, y) > 0.9
    votes, *_ = fit_kernel_votes(X, check_candidates(S)[1], np.arange(len(X)))
    assert (votes.proba.argmax(dim=1).numpy() == y).mean() > 0.9


@pytest.mark.parametrize("estimator", ANY)
@pytest.mark.parametrize("value", [0.0, 1.0, 1e-300, -1e17])
def test_constant_features_teach_no_more_than_counts(estimator, value, blobs):
    X, S, _ = blobs
    proba = estimator.fit(np.full_like(X, value), S).predict_proba(X[:3] * 0 + value)
    assert np.isfinite(proba).all()
    np.testing.assert_allclose(proba, proba[[0, 0, 0]])


@pytest.mark.parametrize("n_rows", [1, 2, 3])
@pytest.mark.parametrize("n_landmarks", ["auto", None, 1])
def test_kernel_votes_of_a_few_rows(n_landmarks, n_rows):
    X, S = np.array([[0.0], [1.0], [2.0]])[:n_rows], np.array([[1, 0], [0, 1], [1, 1]])[:n_rows]
    clf = CleanSEKernelClassifier(n_landmarks=n_landmarks, random_state=0).fit(X, S)
    np.testing.assert_allclose(clf.predict_proba(X).sum(axis=1), 1)
    np.testing.assert_allclose(clf.candidate_proba_.sum(axis=1), 1)
    assert (clf.candidate_proba_[S == 0] == 0).all()
    assert len(clf.explain(X, S)) == n_rows
