import copy

import numpy as np
import pytest
import torch

from sklearn_cleanse.deep._optimizer import FusedAdam, one_cycle


@pytest.mark.parametrize("n_steps", [2, 3, 4, 11, 100])
def test_the_schedule_is_that_of_torch(n_steps):
    optimizer = torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))])
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.3, total_steps=n_steps)
    for step in range(n_steps):
        group = optimizer.param_groups[0]
        assert one_cycle(step, n_steps, peak=0.3) == (group["lr"], group["betas"][0])
        if step < n_steps - 1:
            optimizer.step()
            scheduler.step()


def train(optimizer, network, n_steps):
    torch.random.manual_seed(1)
    X, y = torch.randn(n_steps, 8, 4), torch.randint(3, (n_steps, 8))
    for rows, labels in zip(X, y, strict=True):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network(rows), labels).backward()
        optimizer.step()


def pair():
    """Give two equal networks, one under torch's Adam, one under ours."""
    found = []
    for cls, params in ((torch.optim.Adam, {"fused": True}), (FusedAdam, {})):
        torch.random.manual_seed(0)
        layers = torch.nn.Linear(4, 5), torch.nn.BatchNorm1d(5), torch.nn.Linear(5, 3)
        network = torch.nn.Sequential(*layers)
        optimizer = cls(network.parameters(), lr=0.1, weight_decay=0.01, **params)
        found.append((optimizer, network))
    return found


def test_a_step_is_that_of_torch():
    states = []
    for optimizer, network in pair():
        train(optimizer, network, 5)
        optimizer.param_groups[0].update(lr=0.03, betas=(0.8, 0.99))
        train(optimizer, network, 5)
        states.append(torch.cat([p.flatten() for p in network.parameters()]))
    assert torch.equal(*states)


def test_training_goes_on_from_a_saved_state():
    _, (optimizer, network) = pair()
    train(optimizer, network, 5)
    kept = copy.deepcopy((optimizer.state_dict(), network.state_dict()))
    _, (again, other) = pair()
    again.load_state_dict(kept[0])
    other.load_state_dict(kept[1])
    train(optimizer, network, 5)
    train(again, other, 5)
    for a, b in zip(network.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_parameter_without_a_gradient_is_left_alone():
    used, unused = (torch.nn.Parameter(torch.ones(2)) for _ in range(2))
    optimizer = FusedAdam([unused, used], lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        used.sum().backward()
        optimizer.step()
    assert torch.equal(unused.data, torch.ones(2))
    np.testing.assert_allclose(used.data, 0.7, rtol=1e-6)  # Adam's steps are lr at first


def test_nothing_moves_without_a_gradient():
    param = torch.nn.Parameter(torch.ones(2))
    optimizer = FusedAdam([param])
    optimizer.step()
    assert torch.equal(param.data, torch.ones(2))
    assert optimizer.state[param]["step"] == 0


def test_parameters_may_differ_in_precision():
    single, double = (
        torch.nn.Parameter(torch.ones(2, dtype=d)) for d in (torch.float32, torch.float64)
    )
    optimizer = FusedAdam([single, double], lr=0.1)

    def closure():
        loss = (single + double).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure) == 4
    np.testing.assert_allclose([*single.tolist(), *double.tolist()], 0.9, rtol=1e-6)


def test_gradients_are_dropped_or_set_to_zero():
    param = torch.nn.Parameter(torch.ones(2))
    optimizer = FusedAdam([param])
    param.sum().backward()
    optimizer.zero_grad(set_to_none=False)
    assert torch.equal(param.grad, torch.zeros(2))
    optimizer.zero_grad()
    assert param.grad is None
