import numpy as np
import pytest
import torch

from sklearn_cleanse import CleanSEClassifier
from sklearn_cleanse.deep._modules import MLP, ResNet34, dropout_factors, per_member
from sklearn_cleanse.losses import LOSSES, average_members, candidate_confidences


def test_members_are_separate_networks():
    """Each member of an ensemble computes what a network of its own weights computes."""
    torch.random.manual_seed(0)
    together = MLP(5, 3, (8, 6), n_members=2).eval()
    X = torch.randn(7, 5)
    logits, representation = together(X)
    for member in range(2):
        alone = MLP(5, 3, (8, 6)).eval()
        state = {}
        for name, value in together.state_dict().items():
            if value.dim() == 3:
                value = value[[member]]
            elif value.dim() == 1:  # batch norm: the members' features one after another
                value = value.unflatten(0, (2, -1))[member]
            state[name] = value
        alone.load_state_dict(state)
        expected, hidden = alone(X)
        torch.testing.assert_close(logits[:, member], expected)
        torch.testing.assert_close(representation[:, member], hidden)


def test_members_take_their_own_views():
    torch.random.manual_seed(0)
    network = MLP(5, 3, (8,), n_members=2).eval()
    views = torch.randn(4, 2, 5)
    logits, _ = network(views)
    for member in range(2):
        same, _ = network(views[:, [member]].expand(-1, 2, -1))
        torch.testing.assert_close(logits[:, member], same[:, member])


def test_gradients_of_members_do_not_mix():
    torch.random.manual_seed(0)
    network = MLP(5, 3, (8,), n_members=2).eval()
    logits, _ = network(torch.randn(4, 5))
    logits[:, 0].sum().backward()
    assert (network.head.weight.grad[1] == 0).all()
    assert (network.head.weight.grad[0] != 0).any()


def test_the_mean_probability_of_members_predicts():
    logits = torch.randn(6, 3, 4, dtype=torch.float64)
    mean = logits.softmax(dim=2).mean(dim=1)
    torch.testing.assert_close(average_members(logits).exp(), mean)
    candidates = torch.rand(6, 4) < 0.5
    candidates[:, 0] = True
    restricted = mean * candidates
    torch.testing.assert_close(
        candidate_confidences(logits, candidates), restricted / restricted.sum(1, keepdim=True)
    )


@pytest.mark.parametrize("name", ["average", "cc", "rc", "lws", "cavl"])
def test_the_loss_of_members_is_their_mean_loss(name):
    torch.random.manual_seed(0)
    logits = torch.randn(6, 3, 4)
    candidates = torch.rand(6, 4) < 0.5
    candidates[:, 0] = True
    loss = LOSSES[name]
    weights = candidates.float()
    if loss.confidences is not None:
        weights = loss.confidences(logits, candidates)
    weight = torch.rand(6)
    together = loss.function(*per_member(logits, candidates, weights, weight), **loss.defaults)
    each = [
        loss.function(logits[:, member], candidates, weights, weight, **loss.defaults)
        for member in range(3)
    ]
    torch.testing.assert_close(together, torch.stack(each).mean())


@pytest.mark.parametrize(
    "scaling", ["standard", ["standard", "rank"], ["sqrt", "minmax", "common"]]
)
@pytest.mark.parametrize("loss", LOSSES)
def test_ensembles_learn_with_every_loss_and_view(loss, scaling, blobs):
    X, S, y = blobs
    clf = CleanSEClassifier(
        loss,
        n_members=3,
        scaling=scaling,
        hidden_layer_sizes=(16,),
        max_epochs=15,
        random_state=0,
    ).fit(X, S)
    assert clf.score(X, S, truth=y) > 0.9
    assert clf.scaling_ == scaling


def test_resnet34_has_34_layers_of_weights():
    network = ResNet34(3, 10, width=2)
    layers = [m for m in network.modules() if isinstance(m, (torch.nn.Conv2d, torch.nn.Linear))]
    shortcuts = [m for m in layers if getattr(m, "kernel_size", None) == (1, 1)]
    assert len(layers) - len(shortcuts) == 34
    assert len(shortcuts) == 3


@pytest.mark.parametrize("size", [4, 8, 15, 32])
def test_resnet34_takes_images_of_any_size(size):
    logits, representation = ResNet34(1, 5, width=2)(torch.zeros(2, 1, size, size))
    assert logits.shape == (2, 5)
    assert representation.shape == (2, 16)


def test_a_saved_model_scales_by_itself(blobs, tmp_path):
    X, S, _ = blobs
    X = 1e3 * X + 5e4
    params = {"hidden_layer_sizes": (16,), "kernel_share": 0.0}
    clf = CleanSEClassifier(max_epochs=5, random_state=0, **params).fit(X, S)
    torch.save(clf.net_.module_.state_dict(), tmp_path / "module.pt")
    state = torch.load(tmp_path / "module.pt", weights_only=True)
    again = CleanSEClassifier(max_epochs=1, random_state=1, **params)
    again.set_params(scaling=clf.scaling_).fit(X[::-1] * 2, S[::-1])
    again.net_.module_.load_state_dict(state)
    np.testing.assert_array_equal(again.predict_proba(X), clf.predict_proba(X))


@pytest.mark.parametrize("p", [0.01, 0.2, 0.5])
def test_dropout_drops_its_share_and_keeps_the_mean(p):
    torch.random.manual_seed(0)
    n = 420_001
    factors = dropout_factors(n, p, like=torch.zeros(0))
    assert factors.shape == (n,)
    share = (factors == 0).float().mean().item()
    assert abs(share - round(256 * p) / 256) < 5 * (p / n) ** 0.5
    assert abs(factors.mean().item() - 1) < 5 * (p / (1 - p) / n) ** 0.5


def test_each_step_drops_anew_and_prediction_drops_nothing():
    """Also where factors are drawn for many steps at once, and where a step needs more of them."""
    torch.random.manual_seed(0)
    network = MLP(5, 3, (40, 60), dropout=0.5, n_members=2)
    steps = []
    for n_rows in (8, 8, 8, 5000, 8):
        _, representation = network(torch.randn(5, 5).repeat(1000, 1)[:n_rows])
        dropped = representation == 0
        assert abs(dropped.float().mean() - 0.5) < 5 * (0.25 / dropped.numel()) ** 0.5
        steps.append(dropped[:8].flatten())
    together = torch.stack(steps).float()
    assert together.corrcoef().fill_diagonal_(0).abs().max() < 5 / len(steps[0]) ** 0.5
    network.eval()
    _, representation = network(torch.randn(8, 5))
    assert (representation != 0).all()


def test_a_network_may_have_no_hidden_layer(blobs):
    X, S, y = blobs
    clf = CleanSEClassifier(hidden_layer_sizes=(), max_epochs=30, random_state=0).fit(X, S)
    assert clf.score(X, S, truth=y) > 0.9


def test_the_gradient_passes_where_values_do():
    torch.random.manual_seed(0)
    network = MLP(5, 3, (6,), dropout=0.5)
    network.body[0].norm.bias.data += 10.0  # nothing is zero but what is dropped
    _, representation = network(torch.randn(2, 5))
    representation[0].sum().backward()
    assert torch.equal(network.body[0].norm.bias.grad != 0, representation[0] != 0)


def test_a_hidden_layer_is_linear_then_relu_then_batch_norm_of_each_unit():
    torch.random.manual_seed(0)
    network = MLP(4, 2, (3,), n_members=2)
    layer, X = network.body[0], torch.randn(50, 4)
    _, trained = network(X)
    _, predicted = network.eval()(X)
    for member in range(2):
        plain = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.BatchNorm1d(3))
        plain[0].weight.data = layer.weight.data[member]
        plain[0].bias.data = layer.bias.data[member, :, 0]
        torch.testing.assert_close(trained[:, member], plain(X))
        torch.testing.assert_close(predicted[:, member], plain.eval()(X))


def test_without_batch_norm_a_hidden_layer_is_linear_then_relu():
    torch.random.manual_seed(0)
    network, X = MLP(4, 2, (3,), n_members=2, batch_norm=False), torch.randn(50, 4)
    _, found = network(X)
    layer = network.body[0]
    for member in range(2):
        linear = X @ layer.weight[member].T + layer.bias[member, :, 0]
        torch.testing.assert_close(found[:, member], linear.relu())
    assert not [module for module in network.modules() if "Norm" in type(module).__name__]
