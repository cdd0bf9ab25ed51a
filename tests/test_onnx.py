"""Exported models predict what the estimator predicts, in another runtime."""

import json
import os

import numpy as np
import onnxruntime
import pytest
import scipy.special
import torch
from conftest import make_blobs
from test_real_data import FILES, load

from sklearn_cleanse import (
    CleanSEClassifier,
    CleanSEKernelClassifier,
    PartialLabelClassifier,
    PLCGRClassifier,
)
from sklearn_cleanse.onnx import _normal_quantile

QUICK = {"max_epochs": 2, "hidden_layer_sizes": (6, 5), "random_state": 0}


def run(clf, path, X):
    """Export a model, and return what the other runtime predicts for some rows."""
    assert clf.to_onnx(path) is clf
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options)
    [given] = session.get_inputs()
    assert given.name == "X"
    assert given.type == ("tensor(float)" if X.dtype == np.float32 else "tensor(double)")
    classes = json.loads(session.get_modelmeta().custom_metadata_map["classes"])
    assert classes == clf.classes_.tolist()
    return session.run(["probabilities"], {"X": X})[0]


class Own(torch.nn.Module):
    def __init__(self, n_features, n_classes):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(n_features, 5), torch.nn.Dropout(0.5), torch.nn.Linear(5, n_classes)
        )

    def forward(self, X):
        return self.layers(X)


MODELS = {
    "own module": PartialLabelClassifier(module=Own, max_epochs=2, random_state=0),
    "blend": CleanSEClassifier(scaling="rank", class_prior=[0.5, 0.3, 0.2], **QUICK),
    "components": CleanSEClassifier(
        voter=CleanSEKernelClassifier(n_components=30), voter_blend=0.4, scaling="sqrt", **QUICK
    ),
    "kernel": CleanSEKernelClassifier(class_prior="uniform"),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", MODELS)
def test_another_runtime_predicts_the_same(name, dtype, tmp_path):
    X, S, _ = make_blobs()
    X[::7, 1] = np.nan
    X = X.astype(dtype)
    labels = np.array(["ant", "bee", "cat"])
    clf = MODELS[name].fit(X, [set(labels[row.astype(bool)]) for row in S])
    path = tmp_path / "model.onnx"
    found = run(clf, path, X)
    np.testing.assert_allclose(found, clf.predict_proba(X), atol=1e-5)
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]
    np.testing.assert_allclose(run(clf, path, X[:1]), clf.predict_proba(X[:1]), atol=1e-5)


def test_images(tmp_path):
    X = np.random.RandomState(0).randint(0, 255, size=(20, 2, 6, 6)).astype(np.uint8)
    S = make_blobs(20)[1]
    module = {"module": "resnet34", "module_params": {"width": 2}}
    for clf in (CleanSEClassifier(**module, **QUICK), CleanSEKernelClassifier()):
        clf.fit(X, S)
        found = run(clf, tmp_path / "model.onnx", X.astype(float))
        np.testing.assert_allclose(found, clf.predict_proba(X), atol=1e-5)


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize("name", FILES)
def test_another_runtime_predicts_the_same_of_real_data(name, tmp_path):
    X, S, _ = load(name)
    some = np.random.RandomState(0).permutation(len(X))[:500]
    X, S = np.asarray(X[some], dtype=np.float64), S[some]
    for clf in (CleanSEClassifier(max_epochs=5, random_state=0), CleanSEKernelClassifier()):
        found = run(clf.fit(X, S), tmp_path / "model.onnx", X[:200])
        np.testing.assert_allclose(found, clf.predict_proba(X[:200]), atol=1e-5)


def test_the_normal_quantile_is_that_of_scipy():
    p = np.linspace(0.00135, 0.99865, 999)  # where scaling by ranks takes it
    found = _normal_quantile(torch.from_numpy(p)).numpy()
    np.testing.assert_allclose(found, scipy.special.ndtri(p), rtol=1e-12, atol=1e-12)


def test_what_cannot_be_exported_raises_and_writes_nothing(tmp_path, blobs):
    X, S, _ = blobs
    clf = CleanSEClassifier(voter=PLCGRClassifier(max_iter=2), voter_blend=0.5, **QUICK).fit(X, S)
    with pytest.raises(ValueError, match="must have a kernel voter or voter_blend=0"):
        clf.to_onnx(tmp_path / "model.onnx")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="regular file"):
        clf.set_params(voter_blend=0).to_onnx(tmp_path / "pipe")
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]
