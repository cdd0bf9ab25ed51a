"""A loss of one's own: a function, a record, or a name added to the dict."""

import dataclasses
import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold

from sklearn_cleanse import CleanSEClassifier, PartialLabelClassifier
from sklearn_cleanse.losses import LOSSES, Loss, candidate_confidences, check_loss

QUICK = {"hidden_layer_sizes": (16,), "max_epochs": 15, "random_state": 0}
BOTH = pytest.mark.parametrize("cls", [PartialLabelClassifier, CleanSEClassifier])


def missed(logits, candidates, weights, sample_weight):
    """``1 - Σ_{j ∈ s} w_j p_j``: the probability that the candidates miss."""
    losses = 1 - (weights * logits.softmax(dim=1)).sum(dim=1)
    if sample_weight is None:
        return losses.mean()
    return (losses * sample_weight).sum() / sample_weight.sum()


def powered(logits, candidates, weights, sample_weight, *, q):
    """A loss with a parameter: ``(1 - p_s ** q) / q``."""
    inside = (weights * logits.softmax(dim=1)).sum(dim=1)
    losses = (1 - inside**q) / q
    return losses.mean() if sample_weight is None else (losses * sample_weight).mean()


def check_q(params, candidates, sample_weight):
    if not 0 < params["q"] <= 1:
        raise ValueError(f"loss_params: q is {params['q']}; it must be above 0 and at most 1")
    return params


BELIEVING = Loss(missed, candidate_confidences)
POWERED = Loss(powered, candidate_confidences, defaults={"q": 0.7}, check=check_q)


@BOTH
@pytest.mark.parametrize("loss", [missed, BELIEVING, POWERED])
def test_a_function_or_a_record_is_a_loss(cls, loss, blobs):
    X, S, y = blobs
    clf = cls(loss, **QUICK).fit(X, S)
    assert clf.loss is loss  # fit writes no parameter
    assert clf.score(X, S, truth=y) > 0.9


@BOTH
def test_a_function_is_a_record_without_confidences(cls, blobs):
    X, S, _ = blobs
    by_function, by_record = (cls(loss, **QUICK).fit(X, S) for loss in (missed, Loss(missed)))
    np.testing.assert_array_equal(by_function.predict_proba(X), by_record.predict_proba(X))


@pytest.mark.parametrize("name", LOSSES)
def test_a_name_is_its_record(name, blobs):
    X, S, _ = blobs
    params = {**QUICK, "max_epochs": 3}
    by_name, by_record = (
        PartialLabelClassifier(loss, **params).fit(X, S) for loss in (name, LOSSES[name])
    )
    np.testing.assert_array_equal(by_name.predict_proba(X), by_record.predict_proba(X))


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("vote", ["soft", "hard"])
def test_cleanse_calibrates_it(vote, keeps, blobs):
    """If it keeps confidences it gets them calibrated, otherwise K itself."""
    X, S, _ = blobs
    seen = []

    def looking(logits, candidates, weights, sample_weight):
        seen.append(weights)
        return missed(logits, candidates, weights, sample_weight)

    loss = Loss(looking, candidate_confidences if keeps else None)
    params = {**QUICK, "max_epochs": 1, "n_members": 1, "batch_size": len(X)}
    CleanSEClassifier(loss, vote=vote, vote_start=0.0, temperature=4.0, **params).fit(X, S)
    [weights] = seen
    if keeps:
        torch.testing.assert_close(weights.sum(dim=1), torch.ones(len(X)))
    else:
        assert weights.max() == 4
        assert weights[weights > 0].min() >= 1
        assert vote == "soft" or set(weights.unique().tolist()) == {0.0, 1.0, 4.0}


def test_off_calibration_is_the_plain_loss(blobs):
    X, S, _ = blobs
    plain = PartialLabelClassifier(BELIEVING, **QUICK).fit(X, S)
    off = CleanSEClassifier(BELIEVING, temperature=1, count_weight=0, **QUICK).fit(X, S)
    np.testing.assert_array_equal(plain.predict_proba(X), off.predict_proba(X))


@BOTH
@pytest.mark.parametrize("loss", [missed, BELIEVING, POWERED])
def test_it_is_cloned_and_pickled_with_the_model(cls, loss, blobs):
    X, S, _ = blobs
    clf = cls(loss, **QUICK).fit(X, S)
    copy = clone(clf)
    assert check_loss(copy.loss) == check_loss(loss)
    np.testing.assert_array_equal(copy.fit(X, S).predict_proba(X), clf.predict_proba(X))
    again = pickle.loads(pickle.dumps(clf))
    assert check_loss(again.loss) == check_loss(loss)
    np.testing.assert_array_equal(again.predict_proba(X), clf.predict_proba(X))
    np.testing.assert_array_equal(again.fit(X, S).predict_proba(X), clf.predict_proba(X))


def test_a_search_chooses_among_names_records_and_functions(blobs):
    X, S, _ = blobs
    losses = ["cc", missed, BELIEVING]
    grids = [{"loss": losses}, {"loss": [POWERED], "loss_params": [{"q": 0.2}, {"q": 1.0}]}]
    search = GridSearchCV(
        PartialLabelClassifier(**{**QUICK, "max_epochs": 4}),
        grids,
        cv=KFold(2, shuffle=True, random_state=0),
        error_score="raise",
    ).fit(X, S)
    assert [params["loss"] for params in search.cv_results_["params"]] == [
        *losses,
        POWERED,
        POWERED,
    ]
    assert search.best_estimator_.loss == search.best_params_["loss"]


def test_its_parameters_have_defaults_and_are_checked(blobs):
    X, S, _ = blobs
    by_default, named, other = (
        PartialLabelClassifier(POWERED, loss_params=params, **QUICK).fit(X, S).predict_proba(X)
        for params in (None, {"q": 0.7}, {"q": 0.1})
    )
    np.testing.assert_array_equal(by_default, named)
    assert not np.array_equal(by_default, other)
    with pytest.raises(ValueError, match="q is 2; it must be above 0"):
        PartialLabelClassifier(POWERED, loss_params={"q": 2}).fit(X, S)
    with pytest.raises(ValueError, match="loss_params has 'p'"):
        PartialLabelClassifier(POWERED, loss_params={"p": 2}).fit(X, S)
    with pytest.raises(ValueError, match=r"loss_params has 'q'; .* are: none"):
        PartialLabelClassifier(missed, loss_params={"q": 0.5}).fit(X, S)


def test_a_loss_that_is_no_mean_over_rows_sees_each_member_apart(blobs):
    X, S, _ = blobs
    sizes = {}
    for by_row in (True, False):

        def looking(logits, *args, by_row=by_row):
            sizes.setdefault(by_row, []).append(len(logits))
            return missed(logits, *args)

        params = {**QUICK, "max_epochs": 1, "n_members": 3, "batch_size": len(X)}
        PartialLabelClassifier(Loss(looking, by_row=by_row), **params).fit(X, S)
    assert sizes == {True: [3 * len(X)], False: [len(X)] * 3}


@BOTH
def test_a_name_added_at_run_time_is_accepted(cls, blobs, monkeypatch):
    X, S, _ = blobs
    with pytest.raises(ValueError, match="'loss' parameter is 'missed'"):
        cls("missed", **QUICK).fit(X, S)
    monkeypatch.setitem(LOSSES, "missed", BELIEVING)
    by_name, by_record = (cls(loss, **QUICK).fit(X, S) for loss in ("missed", BELIEVING))
    np.testing.assert_array_equal(by_name.predict_proba(X), by_record.predict_proba(X))
    with pytest.raises(ValueError, match="did you mean 'missed'"):
        cls("misssed", **QUICK).fit(X, S)


@pytest.mark.parametrize(("name", "near"), [("prodn", "proden"), ("CC", None), ("scare", "scarce")])
def test_an_unknown_name_suggests_the_near_one(name, near):
    with pytest.raises(ValueError, match=f"is '{name}'; it must be one of") as refused:
        check_loss(name)
    assert ("did you mean" in str(refused.value)) == (near is not None)
    assert near is None or str(refused.value).endswith(f"did you mean {near!r}?")


@BOTH
@pytest.mark.parametrize("loss", [torch.nn.CrossEntropyLoss, 3, None, ["cc"], Loss])
def test_what_is_no_loss_is_refused_by_name(cls, loss, blobs):
    X, S, _ = blobs
    with pytest.raises(ValueError, match="'loss' parameter"):
        cls(loss, **QUICK).fit(X, S)


def test_a_record_cannot_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        BELIEVING.by_row = False
