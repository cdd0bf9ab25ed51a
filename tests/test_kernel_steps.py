"""The steps of PL-CGR and DPCLS, each against its definition."""

from itertools import islice

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import check_grad, minimize
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import euclidean_distances, rbf_kernel
from sklearn.preprocessing import KernelCenterer
from test_kernel import BOTH, make_problem, random_candidates

from sklearn_cleanse.kernel import DPCLSClassifier, PLCGRClassifier, _dissimilarity
from sklearn_cleanse.kernel._dissimilarity import Smoother, constrain, elimination_order
from sklearn_cleanse.kernel._steps import (
    ExactRidge,
    NystroemRidge,
    class_costs,
    class_distances,
    confidence_step,
    cost_step,
    neighbor_laplacian,
    project_simplex,
)


@pytest.fixture(scope="module")
def blobs():
    return make_problem()


@pytest.fixture
def problem():
    """A small DPCLS problem somewhere in the middle of its run."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, 3))
    candidates = random_candidates(rng, 30, 4)
    confidences = project_simplex(rng.normal(size=(30, 4)), candidates)
    disjoint = candidates.astype(int) @ candidates.T == 0
    bounded = np.maximum(rng.random((30, 30)), disjoint)
    return {
        "X": X,
        "candidates": candidates,
        "F": confidences,
        "Q": rng.normal(size=(30, 4)),
        "A": bounded,
        "D": rng.normal(size=(30, 30)),
        "dual": rng.normal(size=(30, 30)),
        "disjoint": disjoint,
        "L": neighbor_laplacian(X, 5).toarray(),
        "alpha": 0.05,
        "beta": 0.3,
        "mu": 0.7,
    }


def lagrangian(p, **changed):
    """DPCLS's augmented Lagrangian; the ridge term is left out where no step acts on it."""
    F, A, D = (changed.get(name, p[name]) for name in "FAD")
    return (
        ((F - p["Q"]) ** 2).sum()
        + p.get("ridge", 0.0)
        + p["alpha"] * np.trace(F.T @ A @ F)
        + p["beta"] * np.trace(D @ p["L"] @ D.T)
        + (p["dual"] * (D - A)).sum()
        + p["mu"] / 2 * ((D - A) ** 2).sum()
    )


# -- projection ---------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_projection_satisfies_its_optimality_conditions(scale):
    rng = np.random.default_rng(0)
    values, candidates = rng.normal(size=(200, 7)) * scale, random_candidates(rng, 200, 7)
    proba = project_simplex(values, candidates)
    assert (proba >= 0).all()
    assert (proba[~candidates] == 0).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    # one multiplier per row: the residual is equal where positive, and no larger elsewhere
    residual = values - proba
    for i in range(200):
        multiplier = residual[i][proba[i] > 0]
        assert np.ptp(multiplier) <= 1e-12 * max(scale, 1)
        zero = candidates[i] & (proba[i] == 0)
        assert (residual[i][zero] <= multiplier.max() + 1e-12 * max(scale, 1)).all()


def test_cost_step_solves_the_quadratic_program():
    rng = np.random.default_rng(3)
    outputs, candidates = rng.normal(size=(12, 5)), random_candidates(rng, 12, 5)
    scale, threshold, weight = rng.random(5), rng.random(5), 0.6
    got = cost_step(outputs, candidates, scale, threshold, weight)
    for row, q, allowed in zip(got, outputs, candidates, strict=True):
        gain = weight * scale * (q - threshold)
        program = minimize(
            lambda p, q=q, gain=gain: ((p - q) ** 2).sum() - gain @ p,
            allowed / allowed.sum(),
            jac=lambda p, q=q, gain=gain: 2 * (p - q) - gain,
            bounds=[(0, float(free)) for free in allowed],
            constraints={"type": "eq", "fun": lambda p: p.sum() - 1, "jac": np.ones_like},
            method="SLSQP",
            options={"ftol": 1e-14},
        )
        assert program.success
        np.testing.assert_allclose(row, program.x, atol=1e-6)


# -- kernel ridge -------------------------------------------------------------------------------


def test_exact_ridge_solves_the_published_system():
    rng = np.random.default_rng(0)
    X, U, ridge, n = rng.normal(size=(40, 3)), rng.normal(size=(40, 4)), 0.05, 40
    distance = euclidean_distances(X)
    s = distance[np.triu_indices(n, 1)].mean()
    K = np.exp(-(distance**2) / (2 * s**2))
    A = np.linalg.solve(K + ridge * np.eye(n) - np.ones((n, n)) @ K / n, U - U.mean(axis=0))
    b = (U - K @ A).mean(axis=0)
    solver = ExactRidge(X, ridge)
    outputs = solver.fit(U)
    np.testing.assert_allclose(solver.coef, A, atol=1e-9)
    np.testing.assert_allclose(solver.intercept, b, atol=1e-9)
    np.testing.assert_allclose(outputs, K @ A + b, atol=1e-9)


def test_nystroem_of_full_rank_equals_exact():
    rng = np.random.default_rng(0)
    X, U = rng.normal(size=(40, 6)), rng.normal(size=(40, 3))
    exact = ExactRidge(X, 0.05, length_scale=1.3)
    low = NystroemRidge(X, 0.05, 1.3, 40, np.random.RandomState(0))
    np.testing.assert_allclose(low.fit(U), exact.fit(U), atol=1e-8)
    new = rng.normal(size=(5, 6))
    outputs = [r.feature_map.transform(new) @ r.coef + r.intercept for r in (exact, low)]
    np.testing.assert_allclose(*outputs, atol=1e-8)


@BOTH
def test_clean_data_give_plain_kernel_ridge(model, blobs):
    X, _, truth = blobs
    model = clone(model).set_params(normalize=None, length_scale=2.0).fit(X, truth)
    onehot = np.eye(4)[truth]
    np.testing.assert_array_equal(model.candidate_proba_, onehot)
    centerer = KernelCenterer().fit(rbf_kernel(X, gamma=1 / 8))
    plain = KernelRidge(alpha=model.alpha, kernel="precomputed")
    plain.fit(centerer.transform(rbf_kernel(X, gamma=1 / 8)), onehot - onehot.mean(axis=0))
    new = X[:20] + 0.3
    expected = plain.predict(centerer.transform(rbf_kernel(new, X, gamma=1 / 8)))
    np.testing.assert_allclose(
        model.decision_function(new), expected + onehot.mean(axis=0), atol=1e-9
    )


# -- PL-CGR: costs and known defects ------------------------------------------------------------


@pytest.fixture
def three_classes():
    """Classes of 40, 10 and 5 samples, so with 4, 1 and 1 centers, and an empty one."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], [40, 10, 5])
    X = rng.normal(size=(55, 2)) + 3 * np.eye(3)[labels][:, :2]
    return X, np.eye(4)[labels], labels


def test_distances_are_means_over_the_centers_of_the_other_class(three_classes):
    X, confidences, labels = three_classes
    distance, missing = class_distances(X, confidences, 0.1, False, 0)
    # classes 1 and 2 have one center each, their mean; the defect made all members centers
    for i in range(3):
        for j in {1, 2} - {i}:
            center = X[labels == j].mean(axis=0)
            expected = np.linalg.norm(X[labels == i] - center, axis=1).mean()
            assert distance[i, j] == pytest.approx(expected)
    # k_0 = 4, k_1 = 1: divided by k_i, as in the defect, this would be four times as large
    spread = euclidean_distances(X[labels == 1], X[labels == 0])
    assert spread.min() < distance[1, 0] < spread.max()
    np.testing.assert_array_equal(missing, np.eye(4, dtype=bool)[3] | np.eye(4, dtype=bool)[:, [3]])


@pytest.mark.parametrize("balance", [False, True])
@pytest.mark.filterwarnings("error")  # a mean of nothing only warns
def test_a_class_without_members_has_finite_and_idle_costs(three_classes, balance):
    X, confidences, _ = three_classes
    scale, threshold = class_costs(X, confidences, cluster_ratio=0.1, balance=balance, seed=0)
    assert np.isfinite(scale).all()
    assert np.isfinite(threshold).all()
    assert scale[3] == 0
    assert ((threshold > 0) & (threshold < 1)).all()


def test_costs_are_those_of_the_definition():
    """Samples at 0, 1 and 3, a class each: distances can be read off."""
    scale, threshold = class_costs(
        np.array([[0.0], [1.0], [3.0]]), np.eye(3), cluster_ratio=0.1, balance=False, seed=0
    )
    # (D + 0.1) / (largest of the row + 0.1 m), zero on the diagonal
    D = np.array([[0, 1.1 / 3.3, 3.1 / 3.3], [1.1 / 2.3, 0, 2.1 / 2.3], [3.1 / 3.3, 2.1 / 3.3, 0]])
    E = (1 - D) * (1 - np.eye(3))
    np.testing.assert_allclose(threshold, D.sum(axis=0) / (D.sum(axis=0) + D.sum(axis=1)))
    np.testing.assert_allclose(scale, E.sum(axis=1) / (E.sum(axis=1) + E.sum(axis=0)))


@pytest.fixture(params=["blobs", "line"])
def first_outputs(request, blobs):
    """Features, candidates and scaling; on the line some have negative outputs for all theirs."""
    if request.param == "blobs":
        return (*blobs[:2], "l2")
    x = np.linspace(-3, 3, 151)
    labels = np.where(np.abs(x) < 1, 1 + np.arange(151) % 2, 3 * (x > 0))
    candidates = np.eye(4, dtype=bool)[labels]
    candidates[[20, 130]] = [False, True, True, False]  # the outputs of the middle swing below zero
    return x[:, None], candidates, None


def test_plcgr_follows_its_definition(first_outputs):
    X, candidates, normalize = first_outputs
    model = PLCGRClassifier(normalize=normalize, max_iter=3, random_state=0).fit(X, candidates)
    ridge = ExactRidge(model.scaler_.transform(X), 0.04)
    Q = ridge.fit(candidates.astype(float))
    best = np.eye(4)[np.where(candidates, Q, -np.inf).argmax(axis=1)]
    assert (np.where(candidates, Q, -np.inf).max(axis=1) < 0).any() == (normalize is None)
    P = project_simplex(Q + 0.2 / 2 * best, candidates)
    for _ in range(3):
        Q = ridge.fit(P)
        raised = Q + 0.6 / 2 * model.cost_scale_ * (Q - model.cost_threshold_) * candidates
        P = project_simplex(raised, candidates)
    np.testing.assert_allclose(model.candidate_proba_, P, atol=1e-12)
    ridge.fit(P)
    outputs = ridge.feature_map.transform(ridge.feature_map.X) @ ridge.coef + ridge.intercept
    np.testing.assert_allclose(model.decision_function(X), outputs, atol=1e-9)


# -- DPCLS: each step ---------------------------------------------------------------------------


def move(p, n_steps):
    """Update the confidences."""
    symmetric = (p["A"] + p["A"].T) / 2
    return confidence_step(p["F"], p["Q"], symmetric, p["candidates"], p["alpha"], n_steps)


def smooth(p):
    """Update the smooth copy, by way of the system that is solved for each row."""
    smoother = Smoother(sp.csr_array(p["L"]), [])
    smoother.prepare(2 * p["beta"] / p["mu"], 10.0)
    return smoother.solve((p["A"] - p["dual"] / p["mu"]).T).T


def bound(p):
    """Update the bounded copy."""
    push = p["alpha"] / p["mu"] * p["F"] @ p["F"].T
    return constrain(p["D"], p["dual"] / p["mu"], push, p["disjoint"])


def test_steps_on_the_confidences_add_up(problem):
    """Only samples that moved renew the pull on the others; no pull is forgotten."""
    first = p = problem | {"Q": 5 * problem["Q"]}
    for _ in range(8):
        previous, p = p, p | {"F": move(p, 1)}
    np.testing.assert_allclose(move(first, 8), p["F"], atol=1e-12)
    moving = (previous["F"] != p["F"]).any(axis=1)
    assert 0 < moving.sum() < 10  # most of the 30 have come to rest


def test_confidence_step_finds_the_minimum_of_the_whole_objective(problem):
    p = problem
    F = move(p, 2000)

    def value(flat):
        return lagrangian(p, F=flat.reshape(30, 4))

    def gradient(flat):  # the coupling of two rows enters in full, not by half
        G = flat.reshape(30, 4)
        return (2 * (G - p["Q"]) + p["alpha"] * (p["A"] + p["A"].T) @ G).ravel()

    assert check_grad(value, gradient, F.ravel()) < 1e-3
    # stationary: a projected step along the true gradient goes nowhere ...
    exact = gradient(F.ravel()).reshape(30, 4)
    moved = project_simplex(F - 0.1 * exact, p["candidates"])
    np.testing.assert_allclose(moved, F, atol=1e-5)
    # ... whereas along the defective one, with half the coupling, it does
    defective = exact - p["alpha"] / 2 * (p["A"] + p["A"].T) @ F
    moved = project_simplex(F - 0.1 * defective, p["candidates"])
    assert np.abs(moved - F).max() > 1e-3


def test_the_bounded_copy_minimises_the_objective(problem):
    p = problem
    A = bound(p)
    assert p["disjoint"].any()
    assert (A[p["disjoint"]] == 1).all()
    assert ((A >= 0) & (A <= 1)).all()
    assert lagrangian(p, A=A) <= lagrangian(p)
    # optimal under bounds: the gradient vanishes inside and points outwards at the bounds
    gradient = p["alpha"] * p["F"] @ p["F"].T - p["dual"] - p["mu"] * (p["D"] - A)
    free = ~p["disjoint"]
    np.testing.assert_allclose(gradient[free & (A > 0) & (A < 1)], 0, atol=1e-12)
    assert (gradient[free & (A == 0)] >= 0).all()
    assert (gradient[free & (A == 1)] <= 0).all()


def test_all_steps_together_never_increase_the_objective_at_a_fixed_dual(problem):
    p, values = problem, []
    ridge = ExactRidge(p["X"], 0.05)
    K = ridge.feature_map.transform(p["X"])
    for _ in range(5):
        p = p | {"Q": ridge.fit(p["F"]), "ridge": 0.05 * np.trace(ridge.coef.T @ K @ ridge.coef)}
        np.testing.assert_allclose(p["Q"], K @ ridge.coef + ridge.intercept, atol=1e-10)
        values.append(lagrangian(p))
        for name, step in (("F", lambda p: move(p, 3)), ("D", smooth), ("A", bound)):
            p = p | {name: step(p)}
            values.append(lagrangian(p))
    assert (np.diff(values) <= 1e-10).all()
    assert (np.diff(values)[3::4] < 0).all()  # of the ridge


# -- DPCLS: how they are computed ---------------------------------------------------------------


@pytest.fixture(scope="module")
def graph():
    return neighbor_laplacian(np.random.default_rng(0).normal(size=(400, 4)), 6)


@pytest.mark.parametrize("way", ["elimination", "iteration"])
@pytest.mark.parametrize("strength", [0.0, 1e-3, 1.0, 30.0])
def test_smoothing_solves_its_system_either_way(graph, way, strength, monkeypatch):
    monkeypatch.setattr(_dissimilarity, "DENSE_SPEED", np.inf if way == "elimination" else 0)
    order, sizes = elimination_order(graph)
    L = graph[order][:, order]
    smoother = Smoother(L, sizes)
    Y = np.random.default_rng(1).normal(size=(400, 70))
    smoother.prepare(strength, np.linalg.norm(Y, axis=0).max())
    before = Y.copy()
    X = smoother.solve(Y)
    np.testing.assert_array_equal(Y, before)
    exact = np.linalg.solve(np.eye(400) + strength * L.toarray(), Y)
    error = np.linalg.norm(X - exact, axis=0).max()
    assert error < (1e-10 if way == "elimination" else _dissimilarity.SMOOTHING_ACCURACY)


def plain_laplacian(X, k):
    distance = np.linalg.norm(X[:, None] - X[None], axis=2)
    np.fill_diagonal(distance, np.inf)
    nearest = np.argsort(distance, axis=1)[:, :k]
    s = np.sort(distance, axis=1)[:, k - 1].mean()
    W = np.zeros_like(distance)
    for i in range(len(X)):
        W[i, nearest[i]] = np.exp(-(distance[i, nearest[i]] ** 2) / s**2)
    W = (W + W.T) / 2
    return np.diag(W.sum(axis=1)) - W


def plain_dpcls(X, candidates, alpha=0.01, beta=0.001, mu=1e-4):
    """DPCLS as it is defined: whole matrices and an inverse. Yields F, A, gap and Q for ever."""
    n = len(X)
    ridge, L = ExactRidge(X, 0.05), plain_laplacian(X, 10)
    F = candidates / candidates.sum(axis=1, keepdims=True)
    disjoint = candidates.astype(int) @ candidates.T == 0
    A, dual = np.zeros((n, n)), np.zeros((n, n))
    while True:
        Q = ridge.fit(F)
        symmetric = (A + A.T) / 2
        step = 1 / (1 + alpha * symmetric.sum(axis=1).max())
        for _ in range(10):
            gradient = F - Q + alpha * symmetric @ F
            previous, F = F, project_simplex(F - step * gradient, candidates)
            if np.abs(F - previous).max() < 1e-6:
                break
        D = (mu * A - dual) @ np.linalg.inv(2 * beta * L + mu * np.eye(n))
        A = D + dual / mu - alpha / mu * F @ F.T
        A[disjoint] = 1
        A = A.clip(0, 1)
        dual = dual + mu * (D - A)
        mu = 1.1 * mu
        yield F, A, np.abs(D - A).max(), Q


@pytest.mark.parametrize("width", [37, 248])
@pytest.mark.parametrize("speed", [0, 12, np.inf])
def test_dpcls_follows_its_definition(blobs, width, speed, monkeypatch):
    """Blocks, elimination and iteration change the time it takes and nothing else."""
    for name, value in {
        "BLOCK_COLUMNS": width,
        "DENSE_SPEED": speed,
        "MIN_ELIMINATED": 5,
        "STRIP_VALUES": 999,
    }.items():
        monkeypatch.setattr(_dissimilarity, name, value)
    X, candidates, _ = blobs
    model = DPCLSClassifier(max_iter=70, tol=0).fit(X, candidates)
    plain = plain_dpcls(model.scaler_.transform(X), candidates)
    F, _, _, Q = next(islice(plain, 69, None))
    np.testing.assert_allclose(model.candidate_proba_, F, atol=1e-8)
    np.testing.assert_allclose(model.decision_function(X), Q, atol=1e-8)  # before the last F


def test_dpcls_stops_when_its_copies_agree(blobs):
    X, candidates, truth = blobs
    done = DPCLSClassifier().fit(X, candidates)
    assert 50 < done.n_iter_ < 800
    assert DPCLSClassifier().fit(X, truth).n_iter_ == 1
