import numpy as np
import pytest
import torch
from torch.nn import functional as F

from sklearn_cleanse.calibration import Calibration
from sklearn_cleanse.candidates import check_candidates
from sklearn_cleanse.losses import LOSSES, candidate_confidences, check_loss_params

PRIOR = {"scarce": {"class_prior": torch.full((4,), 0.25), "excluded_share": torch.full((4,), 0.5)}}


def parameters(name, **changed):
    return {**LOSSES[name].defaults, **PRIOR.get(name, {}), **changed}


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(6, 4, generator=generator, dtype=torch.float64) * 2
    candidates = torch.rand(6, 4, generator=generator) < 0.5
    candidates[torch.arange(6), torch.arange(6) % 4] = True
    return logits.requires_grad_(), candidates


def weights_of(name, logits, candidates):
    update = LOSSES[name].confidences
    return candidates.double() if update is None else update(logits.detach(), candidates)


def value(name, logits, candidates, weights=None, sample_weight=None, **changed):
    if weights is None:
        weights = weights_of(name, logits, candidates)
    function = LOSSES[name].function
    return function(logits, candidates, weights, sample_weight, **parameters(name, **changed))


@pytest.mark.parametrize("name", ["average", "cc", "rc", "proden", "cavl"])
def test_clean_data_give_cross_entropy(name, batch):
    logits, _ = batch
    labels = torch.arange(6) % 4
    clean = F.one_hot(labels, 4).bool()
    torch.testing.assert_close(value(name, logits, clean), F.cross_entropy(logits, labels))


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
    value("cc", logits, candidates, candidates.float()).backward()
    torch.testing.assert_close(logits.grad[0, 0], torch.tensor(1 / 219 - 1 / 2))


def test_cc_is_finite_where_the_probability_underflows():
    logits = torch.tensor([[1000.0, 0.0, 0.0]], requires_grad=True)
    candidates = torch.tensor([[False, True, True]])
    loss = value("cc", logits, candidates, candidates.float())
    loss.backward()
    assert loss.item() == pytest.approx(1000, rel=1e-3)
    assert torch.isfinite(logits.grad).all()


@pytest.mark.parametrize("name", LOSSES)
def test_permuting_the_classes_changes_nothing(name, batch):
    logits, candidates = batch
    permuted = torch.tensor([2, 0, 3, 1])
    torch.testing.assert_close(
        value(name, logits, candidates), value(name, logits[:, permuted], candidates[:, permuted])
    )


@pytest.mark.parametrize("name", LOSSES)
def test_sample_weight_two_is_a_row_twice(name, batch):
    logits, candidates = batch
    twice = torch.tensor([0, 0, 1, 2, 3, 4, 5])
    weight = torch.tensor([2.0, 1, 1, 1, 1, 1], dtype=torch.float64)
    torch.testing.assert_close(
        value(name, logits, candidates, sample_weight=weight),
        value(name, logits[twice], candidates[twice]),
    )


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_are_finite_for_extreme_logits_and_full_rows(name):
    logits = torch.tensor([[1e4, -1e4, 0.0], [0.0, 0.0, 0.0], [-1e4, 1e4, 1e4]])
    logits.requires_grad_()
    candidates = torch.tensor([[0, 1, 0], [1, 1, 1], [1, 0, 1]], dtype=torch.bool)
    third = torch.full((3,), 1 / 3)
    prior = {"class_prior": third, "excluded_share": third} if name == "scarce" else {}
    update = LOSSES[name].confidences
    weights = candidates.float() if update is None else update(logits.detach(), candidates)
    loss = LOSSES[name].function(
        logits, candidates, weights, None, **{**LOSSES[name].defaults, **prior}
    )
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(logits.grad).all()


@pytest.mark.parametrize("form", ["sigmoid", "cross-entropy"])
def test_lws_without_leverage_ignores_non_candidates(form, batch):
    logits, candidates = batch
    weights = weights_of("lws", logits, candidates)
    loss = value("lws", logits, candidates, weights, beta=0.0, form=form)
    (gradient,) = torch.autograd.grad(loss, logits)
    if form == "sigmoid":  # the softmax form couples all logits through its denominator
        assert (gradient[~candidates] == 0).all()
    expected = torch.sigmoid(-logits) if form == "sigmoid" else -logits.log_softmax(dim=1)
    torch.testing.assert_close(loss, (weights * expected).sum(dim=1).mean())


def test_lws_leverage_adds_the_non_candidates(batch):
    logits, candidates = batch
    weights = weights_of("lws", logits, candidates)
    base = value("lws", logits, candidates, weights, beta=0.0)
    outside = candidate_confidences(logits.detach(), ~candidates).nan_to_num(0.0)
    extra = (outside * torch.sigmoid(logits)).sum(dim=1).mean()
    torch.testing.assert_close(
        value("lws", logits, candidates, weights, beta=2.0), base + 2 * extra
    )


def test_lws_pushes_down_a_certain_non_candidate():
    logits = torch.tensor([[30.0, 0.0]], requires_grad=True)
    candidates = torch.tensor([[False, True]])
    value("lws", logits, candidates, candidates.float(), form="cross-entropy").backward()
    assert logits.grad[0, 0] > 0.5


def test_cavl_believes_a_candidate_even_if_all_are_negative():
    # Multiplying by the mask, as published, leaves zero outside: a non-candidate would win here.
    logits = torch.tensor([[-3.0, -1.0, 5.0, 2.0]])
    candidates = torch.tensor([[True, True, False, False]])
    believed = LOSSES["cavl"].confidences(logits, candidates)
    assert believed.tolist() == [[0.0, 1.0, 0.0, 0.0]]
    published = (logits * (1 - logits).abs() * candidates).argmax(dim=1)
    assert not candidates[0, published]


def test_scarce_with_single_complementary_labels_is_the_papers_estimator():
    logits = torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.3, -0.7]], dtype=torch.float64)
    candidates = torch.tensor([[True, True, False], [False, True, True]])
    softplus = F.softplus
    expected = 0.0
    for k, (negative, prior) in enumerate([([1], 0.2), ([], 0.3), ([0], 0.5)]):
        z = logits[:, k]
        a = (1 - prior) * sum(softplus(z[i]) for i in negative) / max(1, len(negative))
        b = softplus(-z).mean()
        b = b - (1 - prior) * sum(softplus(-z[i]) for i in negative) / max(1, len(negative))
        expected = expected + a + abs(b)
    # all rows in one batch: the shares of the data set are those of the batch
    params = {
        "class_prior": torch.tensor([0.2, 0.3, 0.5]),
        "excluded_share": (~candidates).double().mean(dim=0),
        "correction": "abs",
    }
    got = value("scarce", logits, candidates, candidates.double(), **params)
    torch.testing.assert_close(got, expected)


def test_scarce_of_the_batches_averages_to_that_of_the_data():
    """In-batch frequencies, as published, do not: what a row counts depends on whom it meets."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(60, 4, generator=generator, dtype=torch.float64)
    candidates = torch.rand(60, 4, generator=generator) < 0.4
    candidates[torch.arange(60), torch.arange(60) % 4] = True
    logits = torch.where(candidates, -5.0, logits)  # no estimate is negative, so none corrected
    prior, excluded = torch.full((4,), 0.25), (~candidates).double().mean(dim=0)

    def loss(rows, share):
        given = {"class_prior": prior, "excluded_share": share}
        return value("scarce", logits[rows], candidates[rows], **given)

    batches = torch.arange(60).split(10)
    whole = loss(slice(None), excluded)
    of_batches = torch.stack([loss(rows, excluded) for rows in batches]).mean()
    torch.testing.assert_close(of_batches, whole)
    in_batch = [loss(rows, (~candidates[rows]).double().mean(dim=0)) for rows in batches]
    assert (torch.stack(in_batch).mean() - whole).abs() > 1e-3


def test_scarce_is_finite_for_small_weights_and_a_class_that_no_row_excludes():
    logits = torch.zeros(16, 3, requires_grad=True)
    candidates = torch.ones(16, 3, dtype=torch.bool)
    candidates[:8, 1] = candidates[8:, 2] = False
    given = {"class_prior": torch.full((3,), 1 / 3), "excluded_share": torch.tensor([0, 0.5, 0.5])}
    for weight in (None, torch.full((16,), 1e-3)):
        loss = value("scarce", logits, candidates, candidates.float(), weight, **given)
        loss.backward()
        assert torch.isfinite(loss)
        assert torch.isfinite(logits.grad).all()


@pytest.mark.parametrize("prior", ["average", "uniform"])
def test_scarce_weighs_its_shares_as_if_rows_were_repeated(prior):
    sets, weight = [[0], [0, 1], [1, 2], [0, 1, 2]], [1, 3, 2, 5]
    repeated = [candidates for candidates, n in zip(sets, weight, strict=True) for _ in range(n)]
    params = {"class_prior": prior}
    one, other = (
        check_loss_params("scarce", params, check_candidates(rows)[1], sample_weight=weights)
        for rows, weights in ((sets, np.array(weight) / 7), (repeated, None))
    )
    for name in ("class_prior", "excluded_share"):
        torch.testing.assert_close(one[name], other[name])


def test_a_prior_that_candidates_contradict_is_warned_of():
    candidates = check_candidates([[0], [0, 1], [0, 1], [0, 2]])[1]
    with pytest.warns(UserWarning, match="for class 2, which is a candidate of 0.25 of the rows"):
        check_loss_params("scarce", {"class_prior": [0.2, 0.4, 0.4]}, candidates)


@pytest.mark.parametrize("prior", ["average", "estimated"])
def test_no_class_is_more_frequent_than_its_candidates(prior):
    """Else rows that exclude a class would be pulled towards it. The uniform prior is not so."""
    rng = np.random.default_rng(0)
    mask = rng.random((200, 5)) < [0.05, 0.2, 0.4, 0.6, 0.8]
    mask[mask.sum(axis=1) == 0, 4] = True
    candidates = check_candidates(mask)[1]
    params = check_loss_params("scarce", {"class_prior": prior}, candidates)
    included = 1 - params["excluded_share"]
    np.testing.assert_allclose(included, mask.mean(axis=0), atol=1e-6)
    assert params["class_prior"].sum() == pytest.approx(1, abs=1e-6)
    assert (params["class_prior"] <= included + 1e-6).all()
    with pytest.warns(UserWarning, match="for class 0, which is a candidate of 0.05 of the rows"):
        check_loss_params("scarce", {"class_prior": "uniform"}, candidates)


def test_the_average_prior_shares_each_row_out_evenly():
    candidates = check_candidates([[0], [0, 1], [1, 2], [0, 1, 2, 3]])[1]
    prior = check_loss_params("scarce", None, candidates)["class_prior"]
    np.testing.assert_allclose(prior, [1.75 / 4, 1.25 / 4, 0.75 / 4, 0.25 / 4])


def test_scarce_leaves_a_negative_estimate_alone():
    """With the absolute value, rows that rule a class out would be taught that it is right."""
    logits = torch.tensor([[-9.0, 3.0], [-9.0, 3.0], [1.0, 1.0]], requires_grad=True)
    candidates = torch.tensor([[False, True], [False, True], [True, True]])
    given = {"class_prior": torch.tensor([0.01, 0.99]), "excluded_share": torch.tensor([2 / 3, 0])}
    slopes = {}
    for correction in ("relu", "abs"):
        loss = value(
            "scarce",
            logits,
            candidates,
            candidates.float(),
            correction=correction,
            **given,
        )
        (gradient,) = torch.autograd.grad(loss, logits)
        slopes[correction] = gradient[0, 0].item()
    assert slopes["abs"] < 0 < slopes["relu"]


def test_confidences_vanish_outside_the_candidates_and_sum_to_one(batch):
    logits, candidates = batch
    for loss in LOSSES.values():
        if loss.confidences is not None:
            confidences = loss.confidences(logits.detach(), candidates)
            assert (confidences[~candidates] == 0).all()
            torch.testing.assert_close(confidences.sum(dim=1), torch.ones(6, dtype=torch.float64))


@pytest.fixture
def voted(batch):
    """A batch under K: nontrivial weights, as soft votes make them."""
    logits, candidates = batch
    votes = candidate_confidences(-logits.detach(), candidates)
    return (
        logits,
        candidates,
        Calibration(temperature=3.0, vote="soft").weigh(None, candidates, votes),
    )


def test_k_stands_inside_the_logarithm_of_cc(voted):
    logits, candidates, K = voted
    p = logits.softmax(dim=1)
    rows = [sum(K[i, j] * p[i, j] for j in range(4) if candidates[i, j]) for i in range(6)]
    # relative to the largest weight of each row, which has no gradient
    expected = -sum((row / top).log() for row, top in zip(rows, K.amax(dim=1), strict=True)) / 6
    found = value("cc", logits, candidates, K)
    torch.testing.assert_close(found, expected)
    assert (found >= 0).all()


@pytest.mark.parametrize("form", ["sigmoid", "cross-entropy"])
def test_weights_pull_candidates_up_in_lws_and_leave_the_others(form, voted):
    logits, candidates, K = voted
    weights = K / K.sum(dim=1, keepdim=True)
    p = logits.detach().softmax(dim=1)
    expected = 0.0
    for z, own, w, q in zip(logits.detach(), candidates, weights, p, strict=True):
        others = q * ~own / (q * ~own).sum() if not own.all() else torch.zeros(4)
        up, down = (
            (torch.sigmoid(-z), torch.sigmoid(z))
            if form == "sigmoid"
            else (-q.log(), -(1 - q).log())
        )
        expected += (sum((w * up)[own]) + 2 * sum((others * down)[~own])) / 6
    got = value("lws", logits, candidates, weights, beta=2.0, form=form)
    torch.testing.assert_close(got.detach(), expected)


def test_k_weighs_rows_in_the_mean_over_all_of_scarce(voted):
    logits, candidates, K = voted
    prior, excluded = torch.tensor([0.1, 0.2, 0.3, 0.4]), (~candidates).double().mean(dim=0)
    expected = 0.0
    for j in range(4):
        z, negative = logits.detach()[:, j], ~candidates[:, j]
        share = (1 - prior[j]) / (excluded[j] * 6)
        counted = torch.where(candidates[:, j], K[:, j], 1.0)
        B = (counted * F.softplus(-z)).sum() / counted.sum()
        B = B - share * F.softplus(-z)[negative].sum()
        expected += share * F.softplus(z)[negative].sum() + B.abs()
    params = {"class_prior": prior, "excluded_share": excluded, "correction": "abs"}
    got = value("scarce", logits, candidates, K, **params)
    torch.testing.assert_close(got.detach(), expected)
