"""Facts about the base losses, by hand and for all of them, and about `Loss`."""

import pickle
from functools import partial

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch.nn import functional as F

from sklearn_cleanse.losses import LOSSES, Loss, candidate_confidences, check_loss
from sklearn_cleanse.reweighting import weigh

ALL = pytest.mark.parametrize("name", LOSSES)


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(6, 4, generator=generator, dtype=torch.float64) * 2
    candidates = torch.rand(6, 4, generator=generator) < 0.5
    candidates[torch.arange(6), torch.arange(6) % 4] = True
    return logits.requires_grad_(), candidates


@pytest.fixture
def voted(batch):
    """A batch under K: nontrivial weights, as soft votes make them."""
    logits, candidates = batch
    votes = candidate_confidences(-logits.detach(), candidates)
    return logits, candidates, weigh(None, candidates.double(), votes, 3.0)


def weights_of(name, logits, candidates):
    update = LOSSES[name].confidences
    return candidates.to(logits) if update is None else update(logits.detach(), candidates)


def value(name, logits, candidates, weights=None, sample_weight=None, **params):
    """The loss with the parameters given; those of SCARCE are never taken from the batch."""
    if weights is None:
        weights = weights_of(name, logits, candidates)
    if name == "scarce":
        m = logits.shape[1]
        rates = {"class_prior": torch.full((m,), 1 / m), "excluded_rate": torch.full((m,), 0.5)}
        params = {**rates, **params}
    return LOSSES[name](logits, candidates, weights, sample_weight, **params)


@pytest.mark.parametrize("name", ["average", "cc", "rc", "proden", "cavl"])
def test_clean_data_give_cross_entropy(name, batch):
    logits, _ = batch
    labels = torch.arange(6) % 4
    clean = F.one_hot(labels, 4).bool()
    torch.testing.assert_close(value(name, logits, clean), F.cross_entropy(logits, labels))


@ALL
def test_permuting_the_classes_changes_nothing(name, batch):
    logits, candidates = batch
    permuted = torch.tensor([2, 0, 3, 1])
    torch.testing.assert_close(
        value(name, logits, candidates), value(name, logits[:, permuted], candidates[:, permuted])
    )


@ALL
def test_sample_weight_two_is_a_row_twice(name, batch):
    logits, candidates = batch
    twice = torch.tensor([0, 0, 1, 2, 3, 4, 5])
    weight = torch.tensor([2.0, 1, 1, 1, 1, 1], dtype=torch.float64)
    torch.testing.assert_close(
        value(name, logits, candidates, sample_weight=weight),
        value(name, logits[twice], candidates[twice]),
    )


@ALL
def test_gradients_are_finite_for_extreme_logits_and_full_rows(name):
    logits = torch.tensor([[1e4, -1e4, 0.0], [0.0, 0.0, 0.0], [-1e4, 1e4, 1e4]])
    candidates = torch.tensor([[0, 1, 0], [1, 1, 1], [1, 0, 1]], dtype=torch.bool)
    loss = value(name, logits.requires_grad_(), candidates)
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(logits.grad).all()


@ALL
def test_confidences_vanish_outside_the_candidates_and_sum_to_one(name, batch):
    logits, candidates = batch
    if LOSSES[name].confidences is not None:
        for given in (logits, torch.stack((logits, -logits), dim=1)):  # one network, two networks
            confidences = LOSSES[name].confidences(given.detach(), candidates)
            assert (confidences[~candidates] == 0).all()
            torch.testing.assert_close(confidences.sum(dim=1), torch.ones(6, dtype=torch.float64))


def test_cc_has_the_gradient_of_rc_with_fresh_confidences(batch):
    logits, candidates = batch
    (of_cc,) = torch.autograd.grad(value("cc", logits, candidates), logits)
    (of_rc,) = torch.autograd.grad(value("rc", logits, candidates), logits)
    torch.testing.assert_close(of_cc, of_rc)


def test_cc_keeps_its_gradient_with_hundreds_of_classes():
    # A published form scales by 1 / (2^(m-1) - 1) beside an epsilon: no gradient is left at 219.
    logits = torch.zeros(1, 219, requires_grad=True)
    candidates = torch.zeros(1, 219, dtype=torch.bool)
    candidates[0, :2] = True
    value("cc", logits, candidates).backward()
    torch.testing.assert_close(logits.grad[0, 0], torch.tensor(1 / 219 - 1 / 2))


def test_k_stands_inside_the_logarithm_of_cc(voted):
    logits, candidates, K = voted
    p = logits.softmax(dim=1)
    rows = [sum(K[i, j] * p[i, j] for j in range(4) if candidates[i, j]) for i in range(6)]
    # relative to the largest weight of each row, which has no gradient
    expected = -sum((row / top).log() for row, top in zip(rows, K.amax(dim=1), strict=True)) / 6
    torch.testing.assert_close(value("cc", logits, candidates, K), expected)


@pytest.mark.parametrize("beta", [0.0, 2.0])
@pytest.mark.parametrize("form", ["sigmoid", "cross-entropy"])
def test_lws_pulls_candidates_up_and_pushes_the_others_down(form, beta, voted):
    logits, candidates, K = voted
    weights = K / K.sum(dim=1, keepdim=True)
    p = logits.detach().softmax(dim=1)
    expected = 0.0
    for z, own, w, q in zip(logits.detach(), candidates, weights, p, strict=True):
        others = q * ~own / (q * ~own).sum() if not own.all() else torch.zeros(4)
        sigmoid = torch.sigmoid(-z), torch.sigmoid(z)
        up, down = sigmoid if form == "sigmoid" else (-q.log(), -(1 - q).log())
        expected += (sum((w * up)[own]) + beta * sum((others * down)[~own])) / 6
    found = value("lws", logits, candidates, weights, beta=beta, form=form)
    torch.testing.assert_close(found.detach(), expected)


def test_cavl_chooses_a_candidate_even_if_all_are_negative():
    # Multiplying by the mask, as published, leaves zero outside: a non-candidate would win here.
    logits = torch.tensor([[-3.0, -1.0, 5.0, 2.0]])
    candidates = torch.tensor([[True, True, False, False]])
    assert LOSSES["cavl"].confidences(logits, candidates).tolist() == [[0.0, 1.0, 0.0, 0.0]]
    published = (logits * (1 - logits).abs() * candidates).argmax(dim=1)
    assert not candidates[0, published]


def test_scarce_is_the_papers_estimator_with_k_as_weights(voted):
    logits, candidates, K = voted
    prior, excluded = torch.tensor([0.1, 0.2, 0.3, 0.4]), (~candidates).double().mean(dim=0)
    expected = 0.0
    for j in range(4):
        z, negative = logits.detach()[:, j], ~candidates[:, j]
        rate = (1 - prior[j]) / (excluded[j] * 6)
        counted = torch.where(candidates[:, j], K[:, j], 1.0)
        B = (counted * F.softplus(-z)).sum() / counted.sum()
        B = B - rate * F.softplus(-z)[negative].sum()
        expected += rate * F.softplus(z)[negative].sum() + B.abs()
    params = {"class_prior": prior, "excluded_rate": excluded, "correction": "abs"}
    torch.testing.assert_close(value("scarce", logits, candidates, K, **params).detach(), expected)


def test_scarce_of_the_batches_averages_to_that_of_the_data():
    """In-batch frequencies, as published, do not."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(60, 4, generator=generator, dtype=torch.float64)
    candidates = torch.rand(60, 4, generator=generator) < 0.4
    candidates[torch.arange(60), torch.arange(60) % 4] = True
    logits = torch.where(candidates, -5.0, logits)  # no estimate is negative, so none corrected

    def loss(rows, of):
        rate = (~candidates[of]).double().mean(dim=0)
        return value("scarce", logits[rows], candidates[rows], excluded_rate=rate)

    batches, whole = torch.arange(60).split(10), loss(slice(None), slice(None))
    of_batches = torch.stack([loss(rows, slice(None)) for rows in batches]).mean()
    torch.testing.assert_close(of_batches, whole)
    in_batch = torch.stack([loss(rows, rows) for rows in batches]).mean()
    assert (in_batch - whole).abs() > 1e-3


def test_scarce_leaves_a_negative_estimate_alone():
    """With the absolute value, rows that rule a class out would be taught that it is right."""
    logits = torch.tensor([[-9.0, 3.0], [-9.0, 3.0], [1.0, 1.0]], requires_grad=True)
    candidates = torch.tensor([[False, True], [False, True], [True, True]])
    rates = {"class_prior": torch.tensor([0.01, 0.99]), "excluded_rate": torch.tensor([2 / 3, 0])}
    slopes = {}
    for correction in ("relu", "abs"):
        loss = value("scarce", logits, candidates, correction=correction, **rates)
        slopes[correction] = torch.autograd.grad(loss, logits)[0][0, 0].item()
    assert slopes["abs"] < 0 < slopes["relu"]


SETS = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [1, 1, 1, 1]], dtype=bool)


@pytest.mark.parametrize("prior", ["average", "estimated", [0.5, 0.25, 0.25, 0.0]])
def test_scarce_takes_its_rates_from_the_rows(prior):
    params = Loss("scarce", class_prior=prior).resolve(SETS)
    included = SETS.mean(axis=0)
    np.testing.assert_allclose(params["excluded_rate"], 1 - included)
    assert params["class_prior"].sum() == pytest.approx(1, abs=1e-6)
    assert (params["class_prior"].numpy() <= included + 1e-6).all()
    if prior == "average":  # each row is divided evenly; repeated rows count as weights
        even = [1 + 1 / 2 + 1 / 4, 1 / 2 + 1 / 2 + 1 / 4, 1 / 2 + 1 / 4, 1 / 4]
        np.testing.assert_allclose(params["class_prior"], np.array(even) / 4)
        weight, repeated = np.array([1, 3, 2, 5]), SETS.repeat([1, 3, 2, 5], axis=0)
        weighted, plain = Loss("scarce").resolve(SETS, weight / 7), Loss("scarce").resolve(repeated)
        for name in ("class_prior", "excluded_rate"):
            torch.testing.assert_close(weighted[name], plain[name])


def test_a_prior_that_candidates_contradict_gives_a_warning():
    sets = np.array([[1, 0, 0], [1, 1, 0], [1, 1, 0], [1, 0, 1]], dtype=bool)
    for prior in ("uniform", [0.2, 0.4, 0.4]):
        with pytest.warns(UserWarning, match="for class 2, which is a candidate of 0.25 of"):
            Loss("scarce", class_prior=prior).resolve(sets)


def own(logits, candidates, weights, sample_weight, *, q, shift=0.0):
    return (logits * weights).mean() * q + shift


def check_q(params, candidates, sample_weight):
    if params.get("q", 1) <= 0:
        raise ValueError("`q` must be above 0.")
    return {"q": float(sample_weight @ candidates.sum(axis=1)), **params}


EXAMPLES = [
    LOSSES["cc"],
    Loss("lws", beta=2),
    Loss("scarce", class_prior=np.full(4, 0.25)),
    Loss(own, q=0.5),
    Loss(own, confidences=candidate_confidences, second_pass=True, by_row=False, check=check_q),
]


@pytest.mark.parametrize("loss", EXAMPLES)
def test_a_loss_is_equal_to_its_copies_and_to_no_other(loss):
    copies = [clone(loss, safe=False), pickle.loads(pickle.dumps(loss)), Loss(loss)]
    if loss.name is not None:
        copies.append(Loss(loss.name, **loss.params))
    for copy in copies:
        assert copy == loss
        assert hash(copy) == hash(loss)
        assert repr(copy) == repr(loss)
    others = [*EXAMPLES, Loss(own, q=0.4), Loss("lws"), Loss("lws", beta=1), "cc"]
    assert sum(loss == other for other in others) == 1
    with pytest.raises(AttributeError):
        loss.by_row = True


def test_a_loss_is_printed_as_it_was_made():
    found = [repr(loss) for loss in (EXAMPLES[1], EXAMPLES[3], EXAMPLES[4])]
    hooks = "confidences=candidate_confidences, second_pass=True, by_row=False, check=check_q"
    assert found == ["Loss('lws', beta=2)", "Loss(own, q=0.5)", f"Loss(own, {hooks})"]


def test_parameters_are_completed_by_defaults_and_by_the_check():
    assert Loss("lws", form="sigmoid").resolve(SETS) == {"beta": 1.0, "form": "sigmoid"}
    assert Loss(own, q=2).resolve(SETS) == {"q": 2, "shift": 0.0}
    assert Loss(own, check=check_q).resolve(SETS) == {"q": 9.0, "shift": 0.0}
    assert check_loss(partial(own, q=3)).resolve(SETS) == {"q": 3, "shift": 0.0}
    assert Loss(lambda *rows, **params: 0, anything=1).resolve(SETS) == {"anything": 1}
    assert check_loss(own) == Loss(own)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: check_loss("prodn"), "one of 'average', .* got 'prodn'. Did you mean 'proden'?"),
        (lambda: check_loss("CC"), "got 'CC'.$"),
        *((lambda loss=loss: check_loss(loss), "`loss` must be") for loss in (3, None, ["cc"])),
        (lambda: check_loss(torch.nn.CrossEntropyLoss), "`loss` must be .* or a function"),
        (lambda: Loss("lws", bata=2), "lws', bata=2.* form.* got 'bata'. Did you mean 'beta'"),
        (lambda: Loss("cc", by_row=False), r"function \(none\), got 'by_row'"),
        (lambda: Loss(own), r"`q` of Loss\(own\) must be given"),
        (lambda: Loss(own, q=1, p=2), "got 'p'"),
        (lambda: Loss(own, q=-1, check=check_q), "`q` must be above 0"),
        (lambda: Loss("lws", beta=-1), "`beta` of the loss must be a number of 0 or more, got -1"),
        (lambda: Loss("lws", form="lin"), "`form` of the loss must be one of .* got 'lin'"),
        (lambda: Loss("scarce", correction=1), "`correction` of the loss .* got 1"),
        *(
            (lambda p=p: Loss("scarce", class_prior=p), "`class_prior` of the loss must be 'aver")
            for p in ("even", None, [0.5, 0.5], [0.4, 0.2, 0.2, 0.1], [1.2, 0.2, -0.2, -0.2])
        ),
    ],
)
def test_a_wrong_loss_or_parameter_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make().resolve(SETS)
