import copy

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
    """Return two equal networks, one under torch's Adam, one under ours."""
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


def test_gradients_are_dropped_or_set_to_zero():
    param = torch.nn.Parameter(torch.ones(2))
    optimizer = FusedAdam([param])
    param.sum().backward()
    optimizer.zero_grad(set_to_none=False)
    assert torch.equal(param.grad, torch.zeros(2))
    optimizer.zero_grad()
    assert param.grad is None


def test_parameters_of_two_precisions_are_stepped_too():
    states = []
    for cls, params in ((torch.optim.Adam, {"fused": True}), (FusedAdam, {})):
        values = [
            torch.nn.Parameter(torch.ones(2, dtype=t)) for t in (torch.float32, torch.float64)
        ]
        optimizer = cls(values, lr=0.1, **params)
        for _ in range(3):
            optimizer.zero_grad()
            sum(value.square().sum() for value in values).backward()
            optimizer.step()
        states.append(torch.cat([value.double() for value in values]))
    assert torch.equal(*states)
