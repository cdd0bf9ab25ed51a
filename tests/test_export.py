"""Exported models say what the estimator says, in another runtime."""

import json

import numpy as np
import onnxruntime
import pytest
import scipy.special
import torch
from conftest import REAL, make_blobs, need

from sklearn_cleanse import CleanSEClassifier, PartialLabelClassifier
from sklearn_cleanse.datasets import load_pll
from sklearn_cleanse.datasets._catalogue import PLL_SETS
from sklearn_cleanse.deep._export import normal_quantile, portable
from sklearn_cleanse.scaling import SCALINGS, fit_scaling

QUICK = {"max_epochs": 2, "hidden_layer_sizes": (6, 5), "random_state": 0}


def run(clf, path, X):
    """Export a model, and return what the other runtime says of some rows."""
    assert clf.to_onnx(path) is clf
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options)
    assert [given.name for given in session.get_inputs()] == ["X"]
    classes = json.loads(session.get_modelmeta().custom_metadata_map["classes"])
    assert classes == clf.classes_.tolist()
    return session.run(["probabilities"], {"X": X.astype(np.float64)})[0]


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
    "scalings and kernel": CleanSEClassifier(
        scaling=["rank", "sqrt"],
        kernel_share=0.4,
        n_landmarks=30,
        class_prior=[0.5, 0.3, 0.2],
        **QUICK,
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_another_runtime_says_the_same(name, tmp_path):
    X, S, _ = make_blobs()
    X[::7, 1] = np.nan
    labels = np.array(["ant", "bee", "cat"])
    clf = MODELS[name].fit(X, [set(labels[row.astype(bool)]) for row in S])
    found = run(clf, tmp_path / "model.onnx", X)
    np.testing.assert_allclose(found, clf.predict_proba(X), atol=1e-5)
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]
    again = portable(clf)(torch.from_numpy(X[:1])).detach().numpy()  # a single row
    np.testing.assert_allclose(again, clf.predict_proba(X[:1]), atol=1e-5)


def test_images(tmp_path):
    X = np.random.RandomState(0).randint(0, 255, size=(20, 2, 6, 6)).astype(np.uint8)
    S = make_blobs(20)[1]
    module = {"module": "resnet34", "module_params": {"width": 2}}
    clf = PartialLabelClassifier(**module, **QUICK).fit(X, S)
    found = run(clf, tmp_path / "model.onnx", X)
    np.testing.assert_allclose(found, clf.predict_proba(X), atol=1e-5)


@pytest.mark.parametrize("name", ["lost", "birdsong", "msrcv2"])
def test_another_runtime_says_the_same_of_real_data(name, tmp_path):
    need("pll", PLL_SETS[name].filename)
    X, S, _ = load_pll(name, data_home=REAL, download_if_missing=False, return_X_S_y=True)
    some = np.random.RandomState(0).permutation(len(X))[:500]
    X, S = np.asarray(X[some], dtype=np.float64), S[some]
    clf = CleanSEClassifier(max_epochs=5, kernel_share=0.5, random_state=0).fit(X, S)
    found = run(clf, tmp_path / "model.onnx", X[:200])
    np.testing.assert_allclose(found, clf.predict_proba(X[:200]), atol=1e-5)


@pytest.mark.parametrize("kind", [*SCALINGS, None])
def test_portable_scalings_agree_with_ours(kind):
    from sklearn_cleanse.deep._export import PortableScaling

    rng = np.random.RandomState(0)
    X = np.column_stack([rng.normal(size=300), rng.randint(0, 4, 300), 1e6 + rng.uniform(size=300)])
    ours = fit_scaling(X, kind)
    new = torch.from_numpy(np.concatenate([X, X + 0.01, [[-50.0, 9.0, 0.0]]]))
    torch.testing.assert_close(PortableScaling(ours)(new), ours(new), rtol=1e-6, atol=1e-6)


def test_the_normal_quantile_function_is_exact():
    place = np.concatenate([np.linspace(1e-9, 1 - 1e-9, 10_001), [0.075, 0.925, 0.5]])
    found = normal_quantile(torch.from_numpy(place)).numpy()
    np.testing.assert_allclose(found, scipy.special.ndtri(place), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("scaling", ["standard", ["rank", "minmax"]])
def test_torch_exports_the_module(scaling):
    X, S, _ = make_blobs()
    clf = PartialLabelClassifier(scaling=scaling, **QUICK).fit(X, S)
    module, inputs = clf.net_.module_.eval(), torch.from_numpy(X)
    expected = module(inputs)[0]
    rows = torch.export.Dim("rows", min=2)
    exported = torch.export.export(module, (inputs[:5],), dynamic_shapes={"X": {0: rows}})
    torch.testing.assert_close(exported.module()(inputs)[0], expected)


def test_an_export_without_the_extra_says_what_to_install(monkeypatch, tmp_path):
    import sys

    X, S, _ = make_blobs()
    clf = PartialLabelClassifier(**QUICK).fit(X, S)
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(ImportError, match=r"sklearn-cleanse\[export\]"):
        clf.to_onnx(tmp_path / "model.onnx")
