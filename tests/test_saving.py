"""Saved models: bit-equal predictions, no code run, and nothing accepted that does not fit."""

import functools
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import fuzz
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from conftest import make_blobs
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import sklearn_cleanse
from sklearn_cleanse import (
    CleanSEClassifier,
    CleanSEKernelClassifier,
    DPCLSClassifier,
    PartialLabelClassifier,
    PLCGRClassifier,
    load,
)
from sklearn_cleanse.losses import Loss, candidate_confidences

QUICK = {"max_epochs": 2, "hidden_layer_sizes": (6, 5), "random_state": 0}
SOFT = {"vote": "soft", "vote_start": 0.0, **QUICK}

MODELS = {
    "plain": PartialLabelClassifier(**QUICK),
    "proden, one network": PartialLabelClassifier("proden", **{**QUICK, "n_members": 1}),
    "two scalings": PartialLabelClassifier(
        scaling=["rank", "sqrt"], class_prior=[0.5, 0.3, 0.2], **QUICK
    ),
    "no hidden layer": PartialLabelClassifier(**{**QUICK, "hidden_layer_sizes": ()}),
    "kernel votes": CleanSEClassifier(kernel_share=0.5, **QUICK),
    "landmarks": CleanSEClassifier("rc", n_landmarks=20, kernel_share=0.5, **QUICK),
    "neighbours": CleanSEClassifier("proden", **SOFT),
    "neighbours in space": CleanSEClassifier(neighbor_space="input", **SOFT),
    "proportions": CleanSEClassifier(count_loss="proportion", batch_norm=False, **QUICK),
    "kernel": CleanSEKernelClassifier(noise=0.1, class_prior="uniform"),
    "kernel, landmarks": CleanSEKernelClassifier(n_landmarks=20, random_state=0),
    "plcgr": PLCGRClassifier(random_state=0),
    "plcgr, low rank": PLCGRClassifier(n_components=20, normalize="standard", random_state=0),
    "dpcls": DPCLSClassifier(normalize="l2"),
    "dpcls, as it is": DPCLSClassifier(normalize=None),
}


@functools.cache
def make(name):
    X, S, _ = make_blobs()
    return clone(MODELS[name]).fit(X, S)


def missed(logits, candidates, weights, sample_weight):
    """Cross-entropy of the candidates together."""
    return -candidate_confidences(logits, candidates).clamp(min=1e-6).log().mean()


class Wide(torch.nn.Module):
    def __init__(self, n_features, n_classes, width=8, activation=torch.nn.ReLU):
        super().__init__()
        layers = [torch.nn.Linear(n_features, width), activation(), torch.nn.Dropout(0.1)]
        self.body = torch.nn.Sequential(*layers, torch.nn.Linear(width, n_classes))

    def forward(self, X):
        return self.body(X)


def same(a, b, X, S):
    """Assert that two models say the same, to the last bit."""
    np.testing.assert_array_equal(a.predict(X), b.predict(X), strict=True)
    np.testing.assert_array_equal(a.predict_proba(X), b.predict_proba(X), strict=True)
    for mine, other in zip(
        a.disambiguate(X, S, return_proba=True),
        b.disambiguate(X, S, return_proba=True),
        strict=True,
    ):
        np.testing.assert_array_equal(mine, other, strict=True)
    if hasattr(a, "explain"):
        for mine, other in zip(a.explain(X, S), b.explain(X, S), strict=True):
            assert mine.keys() == other.keys()
            for key in mine:
                np.testing.assert_array_equal(mine[key], other[key])


@pytest.mark.parametrize("name", MODELS)
def test_a_loaded_model_says_the_same(name, tmp_path):
    X, S, _ = make_blobs()
    clf = make(name)
    assert clf.save(tmp_path / "model") is clf
    again = load(tmp_path / "model")
    assert type(again) is type(clf)
    same(clf, again, X, S)
    new, candidates, _ = make_blobs(seed=1)
    same(clf, again, new, candidates)
    np.testing.assert_array_equal(again.candidate_proba_, clf.candidate_proba_, strict=True)
    for attribute in ("n_iter_", "history_", "scaling_", "n_landmarks_", "interrupted_"):
        assert getattr(again, attribute, None) == getattr(clf, attribute, None)
    for attribute in ("dependence_", "count_strength_", "left_out_proba_", "cost_scale_"):
        expected = getattr(clf, attribute, None)
        np.testing.assert_array_equal(getattr(again, attribute, None), expected)
    assert {k: str(v) for k, v in again.get_params().items()} == {
        k: str(v) for k, v in clf.get_params().items()
    }
    again.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["ant", "bee", "zebra"]),
        np.array([3.5, 7.25, 9.0]),
        np.array([-3, 2, 900], dtype=np.int16),
        [("a", 1), ("a", 2), ("b", 1)],
    ],
    ids=["strings", "floats", "small integers", "tuples"],
)
@pytest.mark.parametrize("name", ["plain", "kernel", "plcgr"])
def test_labels_and_names_of_features_are_kept(name, labels, tmp_path):
    pd = pytest.importorskip("pandas")
    X, S, _ = make_blobs()
    X = pd.DataFrame(X, columns=["wing", "beak", "tail", "song"])
    sets = [{labels[j] for j in np.flatnonzero(row)} for row in S]
    clf = clone(MODELS[name]).fit(X, sets)
    again = load(clf.save(tmp_path / "model") and tmp_path / "model")
    np.testing.assert_array_equal(again.classes_, clf.classes_, strict=True)
    np.testing.assert_array_equal(again.predict(X), clf.predict(X), strict=True)
    assert again.feature_names_in_.tolist() == list(X.columns)
    with pytest.raises(ValueError, match="feature names"):
        again.predict(X[["song", "beak", "tail", "wing"]])


@pytest.mark.parametrize("name", ["two scalings", "kernel votes", "kernel"])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_gaps_and_sparse_features(name, form, tmp_path):
    X, S, _ = make_blobs()
    X = np.maximum(X, 0)
    X[::7, 1] = np.nan
    clf = clone(MODELS[name]).fit(form(X), S)
    again = load(clf.save(tmp_path / "model") and tmp_path / "model")
    same(clf, again, form(X), S)
    same(clf, again, X, S)


@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
@pytest.mark.parametrize("name", ["plain", "kernel votes"])
def test_images_and_sparse_candidates(name, dtype, tmp_path):
    rng = np.random.RandomState(0)
    X = (255 * rng.uniform(size=(40, 2, 6, 6))).astype(dtype)
    S = sp.csr_array(make_blobs(40)[1])
    params = {"module": "resnet34", "module_params": {"width": 2}, "max_epochs": 1}
    clf = clone(MODELS[name]).set_params(**params).fit(X, S)
    again = load(clf.save(tmp_path / "model") and tmp_path / "model")
    same(clf, again, X, S)
    assert sp.issparse(again.candidate_proba_)
    with pytest.raises(ValueError, match="samples of shape"):
        again.predict(X[:, :, :5])


def test_a_model_without_training_state_is_small(tmp_path):
    X, S, _ = make_blobs()
    clf = CleanSEClassifier(kernel_share=0, max_epochs=2, random_state=0).fit(X, S)
    n_bytes = 4 * sum(p.numel() for p in clf.net_.module_.parameters())
    clf.drop_training_state().save(tmp_path / "model")
    assert os.path.getsize(tmp_path / "model") < 1.05 * n_bytes
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(X), clf.predict_proba(X))
    with pytest.raises(AttributeError, match="drop_training_state"):
        _ = again.candidate_proba_


def test_training_goes_on_with_a_fresh_optimiser(tmp_path):
    X, S, _ = make_blobs()
    expected = clone(MODELS["kernel votes"]).fit(X, S).drop_training_state()
    again = load(expected.save(tmp_path / "model") and tmp_path / "model")
    for clf in (expected, again):
        with pytest.warns(UserWarning, match="fresh optimiser"):
            clf.partial_fit(X, S)
    np.testing.assert_array_equal(again.predict_proba(X), expected.predict_proba(X))
    assert len(again.history_) == 3


def test_loading_leaves_the_callers_generators_alone(tmp_path):
    make("plain").save(tmp_path / "model")
    state = torch.get_rng_state()
    load(tmp_path / "model")
    assert torch.equal(torch.get_rng_state(), state)


def test_what_cannot_be_kept_is_left_out_or_refused(tmp_path):
    X, S, _ = make_blobs()
    path = tmp_path / "model"
    with pytest.raises(NotFittedError):
        PartialLabelClassifier().save(path)
    from skorch.callbacks import Callback

    clf = PartialLabelClassifier(**{**QUICK, "random_state": np.random.RandomState(0)})
    again = load(clf.set_params(callbacks=[Callback()]).fit(X, S).save(path) and path)
    assert again.callbacks is None
    assert again.random_state is None
    path.unlink()

    class Local(Wide):
        pass

    class Derived(CleanSEKernelClassifier):
        pass

    own = {"activation": lambda: torch.nn.ReLU()}
    partial = {"activation": functools.partial(torch.nn.LeakyReLU, 0.2)}
    refused = {
        "module holds .*Local.*top of a module": PartialLabelClassifier(module=Local, **QUICK),
        "module_params holds .*lambda": PartialLabelClassifier(
            module=Wide, module_params=own, **QUICK
        ),
        "module_params holds .*which save does not keep": PartialLabelClassifier(
            module=Wide, module_params=partial, **QUICK
        ),
        "derived from one": Derived(),
    }
    for message, model in refused.items():
        with pytest.raises(ValueError, match=message):
            model.fit(X, S).save(path)
    changed = clone(MODELS["plain"]).set_params(module=Wide).fit(X, S).set_params(module="mlp")
    with pytest.raises(ValueError, match="changed after fit"):
        changed.save(path)
    assert list(tmp_path.iterdir()) == []


def test_a_saved_model_may_be_read_by_whom_any_new_file_may(tmp_path):
    (tmp_path / "plain").write_text("")
    make("plain").save(tmp_path / "model")
    assert (tmp_path / "model").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_device_that_is_not_here_is_refused(tmp_path):
    make("plain").save(tmp_path / "model")
    with pytest.raises(ValueError, match=r"cannot load .*model: device='gpuu' cannot be used"):
        load(tmp_path / "model", device="gpuu")


@pytest.mark.parametrize("fails", ["save_file", "os.replace"])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(fails, tmp_path, monkeypatch):
    make("plain").save(tmp_path / "model")
    before = (tmp_path / "model").read_bytes()

    def no_room(*args, **kwargs):
        raise OSError("No space left on device")

    monkeypatch.setattr(f"sklearn_cleanse._model_file.{fails}", no_room)
    with pytest.raises(OSError, match="No space"):
        make("kernel").save(tmp_path / "model")
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert (tmp_path / "model").read_bytes() == before
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*nowhere"):
        make("kernel").save(tmp_path / "nowhere" / "model")


# -- loading runs nothing that was not allowed ---------------------------------------------------

OWN = PartialLabelClassifier(
    missed, module=Wide, module_params={"width": 5, "activation": torch.nn.Tanh}, max_epochs=2
)
NAMES = [
    "test_saving.missed",
    "test_saving.Wide",
    "torch.nn.modules.activation.Tanh",
]


def test_own_modules_and_losses_need_to_be_allowed(tmp_path):
    X, S, _ = make_blobs()
    path = tmp_path / "model"
    clf = clone(OWN).fit(X, S).save(path)
    for missing in NAMES:
        with pytest.raises(ValueError, match=f"allow=.*{missing}"):
            load(path, allow=[name for name in NAMES if name != missing])
    same(clf, load(path, allow=NAMES), X, S)
    things = [missed, Wide, torch.nn.Tanh]
    again = load(path, allow=things)
    assert again.module is Wide
    assert again.loss is missed
    moved = load(path, allow=dict(zip(NAMES, things, strict=True)))
    same(clf, moved, X, S)
    with pytest.raises(ValueError, match="must be a list"):
        load(path, allow=NAMES[0])


def test_a_record_of_a_loss_is_kept(tmp_path):
    X, S, _ = make_blobs()
    loss = Loss(missed, candidate_confidences, second_pass=True)
    clf = CleanSEClassifier(loss, **QUICK).fit(X, S)
    names = ["test_saving.missed", "sklearn_cleanse.losses.candidate_confidences"]
    again = load(clf.save(tmp_path / "model") and tmp_path / "model", allow=names)
    assert again.loss == loss
    same(clf, again, X, S)


def forge(raw, change):
    """Return a model file whose header, tensors or data were changed."""
    parts = fuzz.take_apart(raw)
    change(*parts)
    return fuzz.put_together(*parts)


def put(place, **new):
    return lambda header, tensors, body: header[place].update(new)


def test_a_file_that_names_code_does_not_import_it(tmp_path, monkeypatch):
    """Neither for an unknown name nor for a known one in a place where no code belongs."""
    (tmp_path / "harmful.py").write_text("open('ran', 'w').close()\nclass Module: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    make("plain").save("model")
    raw = Path("model").read_bytes()
    for place, name in [("params", "module"), ("params", "loss"), ("values", "history")]:
        Path("harm").write_bytes(forge(raw, put(place, **{name: {"import": "harmful.Module"}})))
        with pytest.raises(ValueError, match="nothing of that was imported"):
            load("harm", allow=["harmless.Module"])
    assert not Path("ran").exists()
    assert "harmful" not in sys.modules


def test_a_model_loads_where_nothing_was_trained(tmp_path):
    """In a process of its own, without the data; a method without a network needs no torch."""
    X, _, _ = make_blobs()
    np.save(tmp_path / "X.npy", X)
    for name in ("kernel votes", "plcgr"):
        np.save(tmp_path / f"{name}.npy", make(name).save(tmp_path / name).predict_proba(X))
    code = """
        import sys
        import numpy as np
        import sklearn_cleanse
        model = sklearn_cleanse.load(sys.argv[1])
        np.testing.assert_array_equal(model.predict_proba(np.load("X.npy")), np.load(sys.argv[2]))
        print("torch" in sys.modules)
    """
    root = str(Path(sklearn_cleanse.__file__).parents[1])
    for name, needs_torch in [("kernel votes", True), ("plcgr", False)]:
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code), name, f"{name}.npy"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": root, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == str(needs_torch)


# -- what does not fit is refused ----------------------------------------------------------------


def huge(header, tensors, body):
    tensors["classes"] |= {"shape": [0, 2**60]}
    body["classes"] = b""


def longer(header, tensors, body):
    tensors["network.weights.head.bias"]["shape"] = [2, 1, 3]


def coarse(header, tensors, body):
    tensors["network.weights.head.bias"] |= {"dtype": "F16", "shape": [2, 6, 1]}


def not_finite(header, tensors, body):
    name = "network.weights.head.bias"
    body[name] = np.full(6, np.nan, dtype=np.float32).tobytes()


REFUSED = {
    "no model that": lambda header, *_: header.update(format="cake"),
    "in form 2.*load it with that version": lambda header, *_: header.update(form=2),
    "'Popen', and the estimators are": lambda header, *_: header.update(estimator="Popen"),
    "parameters are not those.*: lr": lambda header, *_: header["params"].pop("lr"),
    "parameters are not those.*: speed": put("params", speed=3),
    "'lr' parameter": put("params", lr=-1),
    "did you mean 'cc'": put("params", loss="ccc"),
    "no part of a PartialLabelClassifier": put("values", extra=1),
    "head.bias do not fit": lambda h, tensors, b: tensors.pop("network.weights.head.bias"),
    "classes is missing": lambda h, tensors, b: tensors.pop("classes"),
    "too big": huge,
    "head.bias.*do not fit": longer,
    "weights .*head.bias": coarse,
    "not finite": not_finite,
    "too large": put("values", sample_shape={"tuple": [4, 10**6, 10**6]}),
    "shape mismatch": put("values", sample_shape={"tuple": [4, 2]}),
    "n_features_in is True": put("values", n_features_in=True),
    "not known": put("values", **{"network.module": "transformer"}),
    "no meaning": put("values", history={"eval": "1"}),
}


@pytest.mark.parametrize("message", REFUSED)
def test_a_forged_file_is_refused_by_name_and_reason(message, tmp_path):
    path = tmp_path / "model"
    make("plain").save(path)
    path.write_bytes(forge(path.read_bytes(), REFUSED[message]))
    with pytest.raises(ValueError, match=f"(?s)cannot load .*model: .*{message}"):
        load(path)


@pytest.mark.parametrize("name", ["n_neighbors", "count_every", "temperature"])
def test_a_forged_calibration_is_refused(name, tmp_path):
    path = tmp_path / "model"
    for value, message in ((0, "below 1"), ("much", f"calibration.{name} is")):
        make("kernel votes").save(path)
        path.write_bytes(forge(path.read_bytes(), put("values", **{f"calibration.{name}": value})))
        with pytest.raises(ValueError, match=f"(?s)cannot load .*model: .*{message}"):
            load(path)


def test_other_files_are_refused(tmp_path):
    import pickle

    from safetensors.numpy import save_file

    path = tmp_path / "other"
    with pytest.raises(FileNotFoundError):
        load(path)
    with pytest.raises(IsADirectoryError):
        load(tmp_path)
    for raw in (b"", b"x", pickle.dumps(make("kernel")), b"\xff" * 100):
        path.write_bytes(raw)
        with pytest.raises(ValueError, match=r"cannot load .*damaged, or no saved model"):
            load(path)
    save_file({"a": np.ones(3)}, path)
    with pytest.raises(ValueError, match="no model that sklearn_cleanse has saved"):
        load(path)
    deep = {"sklearn_cleanse": '{"format": ' + "[" * 100_000}
    save_file({"a": np.ones(3)}, path, metadata=deep)
    with pytest.raises(ValueError, match="cannot load"):
        load(path)


@pytest.mark.parametrize("target", ["model", "model-forged"])
def test_damaged_models_raise_nothing_but_value_error(target):
    make_file, _ = fuzz.TARGETS[target]
    for seed in range(300):
        fuzz.try_one(target, make_file(np.random.default_rng(seed)))
