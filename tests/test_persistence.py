"""Saved models: bit-equal predictions, no code run, no changed byte accepted, no file lost."""

import functools
import hashlib
import json
import os
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import make_blobs
from safetensors import numpy as safetensors
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from skorch.callbacks import Callback

import sklearn_cleanse
from sklearn_cleanse import (
    CleanSEClassifier,
    CleanSEKernelClassifier,
    DPCLSClassifier,
    NeighborVoter,
    PartialLabelClassifier,
    PLCGRClassifier,
    load_model,
)
from sklearn_cleanse.losses import Loss, candidate_confidences

QUICK = {"max_epochs": 2, "hidden_layer_sizes": (6, 5), "random_state": 0}
RESNET = {"module": "resnet34", "module_params": {"width": 2}, "max_epochs": 1, "random_state": 0}
COMPONENTS = CleanSEKernelClassifier(n_components=20)

MODELS = {
    "network": PartialLabelClassifier(**QUICK),
    "proden, one network": PartialLabelClassifier("proden", **QUICK, n_networks=1),
    "loss with parameters": PartialLabelClassifier(
        Loss("lws", beta=2), scaling="rank", class_prior={0: 0.5, 1: 0.3, 2: 0.2}, **QUICK
    ),
    "cleanse": CleanSEClassifier(**QUICK),
    "cleanse, noise": CleanSEClassifier(noise_rate=0.1, early_stopping=True, **QUICK),
    "cleanse, components": CleanSEClassifier("rc", voter=COMPONENTS, voter_blend=0.5, **QUICK),
    "cleanse, neighbors": CleanSEClassifier(voter=NeighborVoter(n_neighbors=5), **QUICK),
    "cleanse, PL-CGR": CleanSEClassifier(voter=PLCGRClassifier(), voter_blend=0.5, **QUICK),
    "kernel": CleanSEKernelClassifier(noise_rate=0.1, class_prior="uniform"),
    "kernel, components": CleanSEKernelClassifier(n_components=20, random_state=0),
    "PL-CGR": PLCGRClassifier(random_state=0),
    "PL-CGR, low rank": PLCGRClassifier(n_components=20, normalize="standard", random_state=0),
    "DPCLS": DPCLSClassifier(normalize=None),
}


@functools.cache
def make(name):
    X, S, _ = make_blobs()
    return clone(MODELS[name]).fit(X, S)


def missed(logits, candidates, weights, sample_weight):
    """A loss of the user's."""
    return -candidate_confidences(logits, candidates).clamp(min=1e-6).log().mean()


class Wide(torch.nn.Module):
    """A module of the user's, with a buffer that is not finite."""

    def __init__(self, n_features, n_classes, width=8, activation=torch.nn.ReLU):
        super().__init__()
        layers = [torch.nn.Linear(n_features, width), activation(), torch.nn.Dropout(0.1)]
        self.body = torch.nn.Sequential(*layers, torch.nn.Linear(width, n_classes))
        self.register_buffer("lowest", torch.tensor(-torch.inf))

    def forward(self, X):
        return self.body(X)


class OwnVoter(CleanSEKernelClassifier):
    """A voter of the user's."""


def same(a, b, X, S):
    """Assert that two models predict the same, to the last bit."""
    np.testing.assert_array_equal(a.predict(X), b.predict(X), strict=True)
    np.testing.assert_array_equal(a.predict_proba(X), b.predict_proba(X), strict=True)
    pairs = zip(*(m.disambiguate(X, S, return_proba=True) for m in (a, b)), strict=True)
    for one, other in pairs:
        np.testing.assert_array_equal(one, other, strict=True)


# -- what is kept --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_a_loaded_model_predicts_the_same(name, tmp_path):
    clf = make(name)
    assert clf.save(tmp_path / "model") is clf
    again = load_model(tmp_path / "model")
    assert type(again) is type(clf)
    for seed in (0, 1):
        same(clf, again, *make_blobs(seed=seed)[:2])
    for key, value in vars(clf).items():
        if isinstance(value, (np.ndarray, str, int, float, type(None))):
            np.testing.assert_array_equal(getattr(again, key), value, strict=True)
    assert str(again) == str(clf)
    assert getattr(again, "history_", None) == getattr(clf, "history_", None)
    again.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()


LABELS = {
    "strings": np.array(["ant", "bee", "zebra"]),
    "floats": np.array([3.5, 7.25, 9.0]),
    "small integers": np.array([-3, 2, 900], dtype=np.int16),
    "dates": np.array(["2020-01-01", "2020-02-03", "2021-01-01"], dtype="M8[D]"),
    "tuples": [("a", 1), ("a", 2), ("b", 1)],
}


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("name", ["network", "kernel", "PL-CGR"])
def test_labels_and_names_of_features_are_kept(name, labels, tmp_path):
    X, S, _ = make_blobs()
    X = pd.DataFrame(X, columns=["wing", "beak", "tail", "song"])
    sets = [{LABELS[labels][j] for j in np.flatnonzero(row)} for row in S]
    clf = clone(MODELS[name]).set_params(**{k: None for k in ("class_prior",) if name == "kernel"})
    clf.fit(X, sets).save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    np.testing.assert_array_equal(again.classes_, clf.classes_, strict=True)
    np.testing.assert_array_equal(again.predict(X), clf.predict(X), strict=True)
    assert again.feature_names_in_.tolist() == list(X.columns)
    with pytest.raises(ValueError, match="feature names"):
        again.predict(X[["song", "beak", "tail", "wing"]])


INDICES = {
    "numbers": pd.Index(np.arange(120) * 3),
    "strings": pd.Index([f"row {i}" for i in range(120)], name="id"),
    "dates": pd.date_range("2020-01-01", periods=120),
    "levels": pd.MultiIndex.from_product([range(12), list("abcdefghij")], names=["bag", "part"]),
}


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_the_index_of_training_rows_is_kept(index, tmp_path):
    X, S, _ = make_blobs()
    CleanSEKernelClassifier().fit(X, pd.DataFrame(S, index=index)).save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert again.index_.equals(index)
    assert again.index_.names == index.names


IMAGES = {
    "ResNet": PartialLabelClassifier(**RESNET),
    "ResNet with votes": CleanSEClassifier(**RESNET),
    "MLP": PartialLabelClassifier(**QUICK),
    "kernel": CleanSEKernelClassifier(),
}


@pytest.mark.parametrize("model", IMAGES.values(), ids=IMAGES)
def test_images(model, tmp_path):
    X = (255 * np.random.RandomState(0).uniform(size=(40, 2, 9, 9))).astype(np.uint8)
    S = make_blobs(40)[1]
    clf = clone(model).fit(X, S).save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    same(clf, again, X, S)
    with pytest.raises(ValueError, match="samples of shape"):
        again.predict(X[:, :, :5])


@pytest.mark.parametrize("name", ["network", "cleanse"])
def test_training_continues_with_a_fresh_optimizer(name, tmp_path):
    X, S, _ = make_blobs()
    again = load_model(make(name).save(tmp_path / "model") and tmp_path / "model")
    before, state = again.predict_proba(X), torch.get_rng_state()
    again.partial_fit(X, S)
    assert (again.predict_proba(X) != before).any()
    assert len(again.history_) == 3
    assert torch.equal(torch.get_rng_state(), state)


def test_a_device_that_is_not_available_raises_or_gives_way(tmp_path):
    X, S, _ = make_blobs()
    clf = clone(MODELS["cleanse"]).fit(X, S).set_params(device="cuda:7").save(tmp_path / "model")
    same(clf, load_model(tmp_path / "model"), X, S)  # on the CPU, where there is no such device
    assert load_model(tmp_path / "model", device="cpu").device == "cpu"
    for device in ("gpuu", "meta", "cuda:7"):
        with pytest.raises(ValueError, match=rf"^`device` must be .*{device}"):
            load_model(tmp_path / "model", device=device)


def test_callbacks_and_generators_are_not_kept(tmp_path):
    params = {**QUICK, "random_state": np.random.RandomState(0), "callbacks": [Callback()]}
    clf = PartialLabelClassifier(**params).fit(*make_blobs()[:2]).drop_training_state()
    again = load_model(clf.save(tmp_path / "model") and tmp_path / "model")
    assert again.callbacks is again.random_state is None


def test_a_model_loads_where_nothing_was_trained(tmp_path):
    """In a process of its own, without the data; a method without a network needs no torch."""
    X, _, _ = make_blobs()
    np.save(tmp_path / "X.npy", X)
    code = (
        "import sys, numpy as np, sklearn_cleanse\n"
        "proba = sklearn_cleanse.load_model(sys.argv[1]).predict_proba(np.load('X.npy'))\n"
        "np.testing.assert_array_equal(proba, np.load(sys.argv[1] + '.npy'))\n"
        "print('torch' in sys.modules)"
    )
    for name, needs_torch in [("cleanse", True), ("PL-CGR", False)]:
        np.save(tmp_path / f"{name}.npy", make(name).save(tmp_path / name).predict_proba(X))
        assert run(code, name, cwd=tmp_path).strip() == str(needs_torch)


def run(code, *args, cwd):
    root = str(Path(sklearn_cleanse.__file__).parents[1])
    env = {**os.environ, "PYTHONPATH": root, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", code, *args]
    return subprocess.run(command, cwd=cwd, env=env, stdout=-1, check=True, text=True).stdout


# -- what belongs to the user --------------------------------------------------------------------

OWN = PartialLabelClassifier(
    missed, module=Wide, module_params={"width": 5, "activation": torch.nn.Tanh}, max_epochs=2
)
NAMES = ["test_persistence.missed", "test_persistence.Wide", "torch.nn.modules.activation.Tanh"]


def test_modules_and_losses_of_the_user_must_be_allowed(tmp_path):
    X, S, _ = make_blobs()
    path = tmp_path / "model"
    clf = clone(OWN).fit(X, S).save(path)
    for missing in NAMES:
        with pytest.raises(ValueError, match=f"nothing of that was imported.*allow=.*{missing}"):
            load_model(path, allow=[name for name in NAMES if name != missing])
    things = [missed, Wide, torch.nn.Tanh]
    for allow in (NAMES, things, dict(zip(NAMES, things, strict=True))):
        again = load_model(path, allow=allow)
        same(clf, again, X, S)
    assert again.module is Wide
    assert again.loss is missed


def test_a_voter_of_the_user_is_dropped_if_it_does_not_predict(tmp_path):
    X, S, _ = make_blobs()
    clf = CleanSEClassifier(voter=OwnVoter(), voter_blend=0, **QUICK).fit(X, S)
    not_saved = "=OwnVoter.* is not saved"
    with pytest.warns(match="voter" + not_saved), pytest.warns(match="voter_" + not_saved):
        clf.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    same(clf, again, X, S)
    assert again.voter is None
    with pytest.raises(ValueError, match=r"got OwnVoter.*Set voter_blend=0"):
        clf.set_params(voter_blend=0.5).save(tmp_path / "model")


def test_what_cannot_be_saved_raises_and_writes_nothing(tmp_path):
    X, S, _ = make_blobs()

    class Local(Wide):
        pass

    lambdas, partial = lambda: torch.nn.ReLU(), functools.partial(torch.nn.LeakyReLU, 0.2)
    for message, params in {
        r"estimator\.module` must hold .*<class 'test": {"module": Local},
        r"module_params\.activation` .*lambda": {"module_params": {"activation": lambdas}},
        r"module_params\.activation` .*partial": {"module_params": {"activation": partial}},
    }.items():
        clf = PartialLabelClassifier(**{"module": Wide, **params, **QUICK}).fit(X, S)
        with pytest.raises(ValueError, match=message):
            clf.save(tmp_path / "model")
    with pytest.raises(ValueError, match=r"got OwnVoter.* Pickle the estimator"):
        OwnVoter().fit(X, S).save(tmp_path / "model")
    with pytest.raises(ValueError, match="must be as in the first fit"):
        clone(MODELS["network"]).fit(X, S).set_params(hidden_layer_sizes=(9,)).save(tmp_path / "a")
    with pytest.raises(NotFittedError):
        CleanSEClassifier(voter=OwnVoter()).save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


# -- where it is written -------------------------------------------------------------------------


def test_links_are_followed_and_other_things_raise(tmp_path):
    model = make("PL-CGR")
    (tmp_path / "folder").mkdir()
    for name in ("there", "missing"):
        (tmp_path / name).symlink_to(tmp_path / "folder" / name)
    (tmp_path / "folder" / "there").write_text("old")
    for name in ("there", "missing"):
        model.save(os.fsencode(tmp_path / name))
        assert (tmp_path / name).is_symlink()
        load_model(tmp_path / "folder" / name)
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "to fifo").symlink_to(tmp_path / "fifo")
    wrong = [tmp_path / name for name in ("fifo", "loop", "to fifo", "folder", 999 * "a")]
    for path in [*wrong, None, "nul\0", ["list"]]:
        for act in (model.save, load_model):
            with pytest.raises(OSError, match=r"must be a regular file, got .{,320}$") as error:
                act(path)
            assert f"{path!r:.90}" in str(error.value)
    assert (tmp_path / "fifo").is_fifo()
    assert sorted(os.listdir(tmp_path)) == sorted(
        ["folder", "there", "missing", "fifo", "loop", "to fifo"]
    )
    with pytest.raises(FileNotFoundError, match=r"must be writable, got .*nowhere/model \(No such"):
        model.save(tmp_path / "nowhere" / "model")
    with pytest.raises(FileNotFoundError):
        load_model(tmp_path / "nothing")


def test_permissions_are_those_of_a_new_file_or_of_the_old_one(tmp_path):
    (tmp_path / "plain").write_text("")
    make("PL-CGR").save(tmp_path / "model")
    assert (tmp_path / "model").stat().st_mode == (tmp_path / "plain").stat().st_mode
    (tmp_path / "model").chmod(0o600)
    make("DPCLS").save(tmp_path / "model")
    assert (tmp_path / "model").stat().st_mode & 0o777 == 0o600
    (tmp_path / "model").chmod(0o444)
    with pytest.raises(PermissionError, match=r"`path` must be writable, got .* is read-only"):
        make("DPCLS").save(tmp_path / "model")


@pytest.mark.parametrize("fails", ["os.fsync", "os.replace", "open"])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(fails, tmp_path, monkeypatch):
    make("PL-CGR").save(tmp_path / "model")
    before = (tmp_path / "model").read_bytes()

    def fail(*args, **how):
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(f"sklearn_cleanse.persistence.{fails}", fail, raising=False)
        if fails == "open":  # as on a read-only file system
            patch.setattr(Path, "unlink", fail)
        with pytest.raises(OSError, match=rf"got {tmp_path / 'model'} \(No space"):
            make("DPCLS").save(tmp_path / "model")
    assert os.listdir(tmp_path) == ["model"]
    assert (tmp_path / "model").read_bytes() == before


def test_files_of_killed_processes_are_cleared_after_a_day(tmp_path):
    yesterday = time.time() - 25 * 60 * 60
    names = {".sklearn_cleanse-old": yesterday, ".sklearn_cleanse-new": time.time()}
    for name, when in {**names, "other": yesterday, ".hidden": yesterday}.items():
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, (when, when))
    make("PL-CGR").save(tmp_path / "model")
    assert sorted(os.listdir(tmp_path)) == [".hidden", ".sklearn_cleanse-new", "model", "other"]


@pytest.mark.slow
def test_a_killed_save_leaves_a_whole_file(tmp_path):
    make("cleanse").save(tmp_path / "model")
    code = (
        "from sklearn_cleanse import load_model\nmodel = load_model('model')\nprint(flush=True)\n"
        "while True: model.save('model')"
    )
    root = str(Path(sklearn_cleanse.__file__).parents[1])
    for i in range(10):
        env = {**os.environ, "PYTHONPATH": root}
        child = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, env=env, stdout=-1)
        child.stdout.readline()
        time.sleep(0.02 + 0.007 * i)
        child.kill()
        child.communicate()
        load_model(tmp_path / "model")


# -- changed and forged files --------------------------------------------------------------------


def test_a_changed_byte_raises(tmp_path):
    path, rng = tmp_path / "model", np.random.default_rng(0)
    raw = make("PL-CGR, low rank").save(path) and path.read_bytes()
    damaged = [raw[:-1], raw[:100], raw + b"\0", b"", b"x", b"\xff" * 100, raw[8:]]
    for place in rng.permutation(len(raw))[:300]:
        damaged.append(bytearray(raw))
        damaged[-1][place] ^= 1 << rng.integers(8)
    for other in [*damaged, safetensors.save({"a": np.ones(3)}, {"sklearn_cleanse": "[" * 10**5})]:
        path.write_bytes(other)
        with pytest.raises(ValueError, match=r"`path` must be .*model: it is not a model of"):
            load_model(path)


GONE = object()
fills = (np.nan, 5e307, 1.7e308)
nan, high, higher = (functools.partial(np.full_like, fill_value=value) for value in fills)
column = functools.partial(np.resize, new_shape=(3000, 1))


def forge(raw, changes):
    """Return a file with a right digest, in which attributes of the estimator are others."""
    arrays = safetensors.load(raw)
    form, version, text = arrays["model"].tobytes().decode().split(maxsplit=2)
    model = json.loads(text)
    for path, value in changes.items():
        (place,), name = model.values(), path.rsplit(".")[-1]
        for part in path.split(".")[:-1]:
            (place,) = dict(place["dict"])[part].values()
        entry = next((pair for pair in place["dict"] if pair[0] == name), [name, None])
        if value is GONE:
            place["dict"].remove(entry)
        elif name in ("form", "object", "model"):
            form = value if name == "form" else form
            model = {value: place} if name == "object" else value if name == "model" else model
        elif callable(value):
            kept = entry[1].get("tensor", entry[1])["array"]
            array = arrays[str(kept[0])].view(kept[1]).reshape(kept[2]["tuple"], order=kept[3])
            array = np.ascontiguousarray(value(array))
            kept[1:] = array.dtype.str, {"tuple": array.shape}, "C"
            arrays[str(kept[0])] = array.ravel().view(np.uint8)
        else:
            place["dict"] = [pair for pair in place["dict"] if pair[0] != name] + [[name, value]]
    text = f"{form} {version} {json.dumps(model)}"
    arrays["model"] = np.frombuffer(text.encode(), dtype=np.uint8)
    raw = safetensors.save(arrays)[:-32]  # the digest
    return raw + hashlib.sha256(raw).digest()


# What would take as many numbers as the square of what the file has.
SQUARES = {"classes_": lambda a: np.arange(3000), "coef_": lambda a: a[:, :1], "intercept_": column}
SCALES = {"scaler_.mean": column, "scaler_.scale": lambda a: np.ones((3000, 1, 1))}
NARROW = {"model_.kernel.widths": {"tuple": [{"tuple": [1e-9] * 3}] * 3}}
KERNEL = {"model_.coef": lambda a: np.zeros((len(a), 3000)), "model_.intercept": column}
FORGED = [
    ("network", "form", 9, "load it with sklearn_cleanse"),
    ("network", "object", "Popen", "'Popen'"),
    ("network", "model", [], "not an estimator"),
    ("network", "lr", -1, "'lr' parameter"),
    ("network", "lr", GONE, "lr"),
    ("network", "classes_", GONE, "not fitted"),
    ("network", "hidden_layer_sizes", {"tuple": [10**6, 10**6]}, "larger than the file"),
    ("network", "n_networks", 10**9, "larger than the file"),
    ("network", "module", "resnet34", "resnet34|larger"),
    ("network", "n_features_in_", 10**12, "1000000000000 features"),
    ("network", "_sample_shape", {"tuple": [10**12]}, "larger than the file"),
    ("network", "module", {"import": "os.system"}, "nothing of that was imported"),
    ("network", "module", {"import": "sklearn_cleanse.losses.np.save"}, "nothing of that"),
    ("network", "module", {"import": "sklearn_cleanse.losses.check_loss"}, "'module'"),
    ("network", "extra", {"eval": "1"}, "has no meaning"),
    ("network", "hidden_layer_sizes", {"tuple": [1] * 500}, "larger than the file"),
    ("network", "lr", ["x"] * 50_000, "'lr' parameter"),
    ("network", "_scaler.fill", column, "must fit samples of shape"),
    ("network", "extra", {"array": [0, "<f4", [1], "C"]}, "'0'"),
    ("network", "extra", {"array": [1, "<f4", [10**9, 0], "C"]}, "array is larger than the file"),
    ("network", "extra", {"index": [[1], [1, 2]]}, "[Ll]ength"),
    ("kernel", "model_", None, "NoneType"),
    ("kernel", "_sample_shape", {"tuple": [4, 10**6, 10**6]}, "larger than the file"),
    ("kernel", "proba_temperature_", {"objects": [1.0, 1.0]}, "its temperature"),
    ("kernel", KERNEL, "", "broadcast"),
    ("kernel", "model_.log_bonus", column, "expand"),
    ("kernel", "model_.left_out", column, "shape .* is invalid"),
    ("PL-CGR", SQUARES, "", "broadcast"),
    ("PL-CGR", SCALES, "", "broadcast"),
    ("PL-CGR", "classes_", lambda a: a[:, None], "1-D list"),
    ("PL-CGR", "coef_", nan, "finite"),
    ("PL-CGR", "intercept_", nan, "finite"),
    ("PL-CGR", {"coef_": higher, "intercept_": high, "feature_map_.gamma": 1e9}, "", "finite"),
    ("kernel", {"model_.coef": higher, "model_.intercept": high, **NARROW}, "", "finite"),
    ("kernel", "model_.left_out", nan, "finite"),
    ("PL-CGR", "n_features_in_", 3, "3 features"),
    ("DPCLS", "classes_", {"objects": ["a", "a", "b"]}, "distinct"),
    ("DPCLS", "scaler_", {"NeighborVoter": {"dict": []}}, "'end'"),
]


@pytest.mark.parametrize(("model", "name", "value", "message"), FORGED)
def test_a_forged_file_raises_without_running_code_or_taking_memory(
    model, name, value, message, tmp_path
):
    path = tmp_path / "model"
    changes = name if isinstance(name, dict) else {name: value}
    path.write_bytes(forge(make(model).save(path) and path.read_bytes(), changes))
    tracemalloc.start()
    try:
        where = r"(`path` must be a model .*model: |(Outputs|Scores) must be)"
        with pytest.raises(ValueError, match=f"(?s)^{where}.*({message})") as error:
            load_model(path, allow=["harmless.Module"]).disambiguate(*make_blobs()[:2])
        assert len(str(error.value)) < 700
        assert str(error.value).endswith((" the model again.", "itself.", "saved it."))
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()
