"""One table of bad inputs and messages for all estimators; nothing is changed by them."""

import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
import torch
from sklearn.exceptions import NotFittedError
from test_candidates_messages import replaced

from sklearn_cleanse import (
    CleanSEClassifier,
    CleanSEKernelClassifier,
    DPCLSClassifier,
    NeighborVoter,
    PartialLabelClassifier,
    PLCGRClassifier,
)
from sklearn_cleanse.losses import Loss

X = np.random.RandomState(0).normal(size=(12, 3))
S = np.eye(3, dtype=int)[np.arange(12) % 3] | np.eye(3, dtype=int)[np.arange(12) // 4]
FRAME, SETS = pd.DataFrame(X, columns=list("abc")), pd.DataFrame(S, columns=list("xyz"))
NETWORKS = [CleanSEClassifier, PartialLabelClassifier]
CLOSED = [PLCGRClassifier, DPCLSClassifier]
ALL = [*NETWORKS, CleanSEKernelClassifier, *CLOSED]
DATES = pd.DataFrame({"a": pd.date_range("2020", periods=12)})


def changed(table, row, column, value):
    table = table.astype(object if isinstance(value, str) else float)
    table[row, column] = value
    return table


class NoParameters(torch.nn.Module):
    def __init__(self, n_features, n_classes):
        super().__init__()


class Returns(torch.nn.Module):
    """Return something of a wrong form."""

    def __init__(self, n_features, n_classes, what="string"):
        super().__init__()
        self.layer, self.what = torch.nn.Linear(n_features, n_classes + (what == "wide")), what

    def forward(self, X):
        logits = self.layer(X)
        others = {"string": "logits", "detached": logits.detach(), "wide": logits}
        return {**others, "short": (logits, logits[1:])}[self.what]


# What is passed, what the message has: for the estimators named.
DATA = {
    "text": (changed(X, 2, 1, "low"), S, ALL, "got text or categories in column 1.*OneHotEncoder"),
    "infinite": (changed(X, 2, 1, np.inf), S, ALL, "got inf in row 2, column 1.*Write NaN"),
    "huge": (changed(X, 2, 1, 1e200), S, ALL, r"must lie between.*1e\+200 in row 2, column 1"),
    "damaged": (replaced("csr", indptr=np.array([0, 9, 9, 5])), S, ALL, "Sparse X must be well-fo"),
    "dates": (DATES, S, ALL, "dates in column 'a'"),
    "dates as objects": (DATES.astype(object), S, ALL, "dates in column 'a'"),
    "one dimension": (X[:, 0], S, ALL, "Expected 2D array, got 1D array"),
    "fewer rows": (X[:-1], S, ALL, "11.*12|12.*11"),
    "other index": (FRAME, SETS[::-1], ALL, r"`y` must have the row labels of X.*y.loc\[X.index\]"),
    "Arrow": (FRAME, pa.table(SETS[::-1]), ALL, "`y` must have the row labels of X"),
    "Arrow X": (pa.table(FRAME[::-1]), SETS, ALL, "`y` must have the row labels of X"),
    "an empty set": (X, changed(S, 4, slice(None), 0), ALL, "row 4"),
    "out of range": (X, changed(S, 2, 0, 1.5), ALL, "got 1.5 in row 2, column 0"),
    "integers": (X, 3 * S, ALL, "got 3 in row 0"),
    "all positive": (X, np.full((12, 3), 0.3), ALL, "0.1"),
    "masked": (X, np.ma.masked_array(S, mask=S == 9), ALL, "masked"),
    "one class": (X, np.ones(12, dtype=int), ALL, "one class"),
    "no y": (X, None, ALL, "None"),
    "too many": (np.zeros((10**5, 1)), sp.eye_array(10**5), ALL, r"more than 8 GiB.*partial_fit"),
    "missing": (changed(X, 2, 1, np.nan), S, CLOSED, "NaN in row 2, column 1.*SimpleImputer"),
    "prior weights": (X, S * [0.2, 0.6, 0.9], CLOSED, "got prior weights. Pass S = weights > 0"),
    "images": (X[:, :, None], S, CLOSED, "dim 3|3 dim"),
}


@pytest.mark.parametrize(
    ("X", "S", "cls", "message"),
    [
        pytest.param(features, sets, cls, message, id=f"{name}-{cls.__name__}")
        for name, (features, sets, classes, message) in DATA.items()
        for cls in classes
    ],
)
def test_bad_data_raise_and_change_nothing(X, S, cls, message):
    fresh = cls()
    with pytest.raises((ValueError, TypeError, MemoryError), match=message):
        fresh.fit(X, S)
    assert vars(fresh) == fresh.get_params()


OUTSIDE = [  # values outside the constraints of a parameter
    ([CleanSEClassifier], "temperature", [0.5]),
    ([CleanSEClassifier], "voter", ["kernels"]),
    ([CleanSEClassifier], "voter_blend", [2]),
    ([CleanSEClassifier], "count_loss", ["intervals"]),
    ([CleanSEClassifier, CleanSEKernelClassifier], "noise_rate", [1.0]),
    (NETWORKS, "loss", [3]),
    (NETWORKS, "lr", [0]),
    (NETWORKS, "batch_size", [1]),
    (NETWORKS, "scaling", ["zscore"]),
    ([CleanSEKernelClassifier], "count_strength", [2.0, "none"]),
    ([CleanSEKernelClassifier, PLCGRClassifier], "n_components", [0]),
    ([CleanSEKernelClassifier, *CLOSED], "alpha", [0.0, np.nan, 10**400]),
    (CLOSED, "max_iter", [0, 10**400]),
    (CLOSED, "length_scale", [-1.0, 1e-300, 1e300]),
    (CLOSED, "normalize", ["minmax"]),
    (CLOSED, "verbose", ["loud"]),
    ([PLCGRClassifier], "cost_weight", [-0.1, 10**400]),
    ([PLCGRClassifier], "first_bonus", [-1, 10**400]),
    ([PLCGRClassifier], "cluster_ratio", [0, 1.5]),
    ([PLCGRClassifier], "balance", ["yes"]),
    ([PLCGRClassifier], "random_state", ["x"]),
    ([DPCLSClassifier], "dissimilarity_weight", [-1, 10**400]),
    ([DPCLSClassifier], "smoothness_weight", [-1, 1e5]),
    ([DPCLSClassifier], "n_neighbors", [0]),
    ([DPCLSClassifier], "tol", [-1]),
]
PARAMETERS = [
    *(
        (cls, {name: value}, f"'{name}' parameter of {cls.__name__}")
        for classes, name, values in OUTSIDE
        for cls in classes
        for value in values
    ),
    (PLCGRClassifier, {"n_components": True}, "`n_components` must be an integer, got True"),
    (DPCLSClassifier, {"n_neighbors": True}, "`n_neighbors` must be an integer, got True"),
    (ALL[0], {"voter": NeighborVoter(start=0.5, end=0.4)}, "`end` must be above `start`"),
    (ALL[0], {"voter": NeighborVoter(n_neighbors=0)}, "'n_neighbors' parameter"),
    (ALL[0], {"voter": CleanSEKernelClassifier(alpha=-1)}, "'alpha' parameter"),
    *((cls, {"loss": "prodenn"}, "Did you mean .proden.") for cls in NETWORKS),
    *((cls, {"loss": Loss("lws", gamma=1)}, "got 'gamma'") for cls in NETWORKS),
    *((cls, {"loss": torch.nn.CrossEntropyLoss}, "`loss` must be one of") for cls in NETWORKS),
    *((cls, {"callbacks": ["x"]}, r"`callbacks\[0\]` must be a skorch") for cls in NETWORKS),
    *((cls, {"hidden_layer_sizes": (10**9,)}, "from 1 to a million") for cls in NETWORKS),
    *((cls, {"hidden_layer_sizes": (0.5,)}, "from 1 to a million") for cls in NETWORKS),
    *((cls, {"hidden_layer_sizes": (10**6,) * 2}, "more than 8 GiB") for cls in NETWORKS),
    *((cls, {"module_params": {"width": 2}}, "must accept 3") for cls in NETWORKS),
    *((cls, {"module": "resnet34"}, "must get images") for cls in NETWORKS),
    *((cls, {"module": NoParameters}, "with parameters to train") for cls in NETWORKS),
    *((cls, {"module": Returns}, "must return logits") for cls in NETWORKS),
    *(
        (PartialLabelClassifier, {"module": Returns, "module_params": {"what": what}}, message)
        for what, message in [
            ("detached", "must pass gradients"),
            ("wide", r"logits of shape \(2, 3\)"),
            ("short", "one row per sample"),
        ]
    ),
    *(
        (cls, {"early_stopping": True, "validation_fraction": 0.99}, "must leave 2 rows")
        for cls in NETWORKS
    ),
    *(
        (cls, {"device": device}, "`device` must be available")
        for cls in [*NETWORKS, CleanSEKernelClassifier]
        for device in ("cuda:7", "meta", "gpu")
    ),
    *(
        (cls, {"class_prior": prior}, message)
        for cls in [*NETWORKS, CleanSEKernelClassifier]
        for prior, message in [
            ([1, 1], "3 non-negative numbers"),
            ([-1, 1, 1], "3 non-negative numbers"),
            (np.ma.array([1, 1, 1], mask=[0, 1, 0]), "3 non-negative numbers"),
            ({0: 1, 1: 1, 5: 1}, "got 5, which is not a class"),
            ({0: 1, 1: 1}, "got nothing for class 2"),
            (pd.Series([1, 1, 1, 1], index=[0, 1, 2, 2]), "a class twice"),
        ]
    ),
]


@pytest.mark.parametrize(("cls", "params", "message"), PARAMETERS)
def test_bad_parameters_raise_before_training(cls, params, message):
    with pytest.raises((ValueError, TypeError, MemoryError), match=message):
        cls(**params).fit(X, S)


WEIGHTS = [
    (np.r_[-1.0, np.ones(11)], "got -1.0 in row 0. Write 0"),
    (np.r_[np.ones(11), np.nan], "got nan in row 11. Write 0"),
    (np.r_[1e300, np.ones(11)], "row 0. Divide all by their mean"),
    ([1.0] * 11 + [10**400], "got 10+ in row 11. Divide"),
    (np.arange("2020", "2032", dtype="M8[Y]"), "got datetime.date.* in row 0"),
    (["1"] * 12, "got '1' in row 0"),
    (np.ones(11), "one number for each of 12 samples"),
    (np.zeros(12), "zero in every row"),
    (pd.Series(np.ones(12), index=range(12)[::-1]), "`sample_weight` must have the row labels"),
    (np.ma.masked_array(np.ones(12), mask=np.arange(12) == 3), "got None in row 3"),
]


@pytest.mark.parametrize(("weight", "message"), WEIGHTS)
@pytest.mark.parametrize("cls", NETWORKS)
def test_bad_weights_raise_in_fit_and_score(cls, weight, message):
    fitted = cls(max_epochs=1, hidden_layer_sizes=(4,)).fit(FRAME, SETS)
    for method in (cls().fit, fitted.score):
        with pytest.raises(ValueError, match=message):
            method(FRAME, SETS, sample_weight=weight)


@pytest.mark.parametrize("cls", ALL)
def test_new_rows_must_be_like_those_of_training(cls):
    quick = {"max_epochs": 1, "hidden_layer_sizes": (4,)} if cls in NETWORKS else {}
    fitted = cls(**quick).fit(FRAME, SETS)
    for new, message in [
        (X[:, :2], "2 features"),
        (FRAME.rename(columns={"a": "q"}), "feature names"),
        (changed(X, 3, 0, np.inf), "got inf in row 3"),
        (changed(X, 3, 0, 1e180), "row 3"),
        *([(changed(X, 3, 0, np.nan), "NaN in row 3")] if cls in CLOSED else []),
    ]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # X has no feature names
            with pytest.raises(ValueError, match=message):
                fitted.predict(new)
    for sets, message in [
        ([{"x"}] * 11, "11"),
        ([{"x", "w"}] * 12, "'w'"),
        (SETS.rename(columns={"x": "w"}), "'w'"),
    ]:
        with pytest.raises(ValueError, match=message):
            fitted.disambiguate(FRAME, sets)
    with pytest.raises(ValueError, match="type of the classes, 'x', 'y', 'z', got 0"):
        fitted.score(FRAME, [0, 1, 2] * 4)
    for method in ("predict", "predict_proba"):
        with pytest.raises(NotFittedError):
            getattr(cls(), method)(X)


@pytest.mark.parametrize("cls", ALL)
def test_the_same_numbers_in_another_layout_or_precision_give_the_same_model(cls):
    single = (np.round(8 * X) + 2**22).astype("f4")  # exact, but sums of these are not
    views = [single.astype(float), single[::-1].copy()[::-1], single[:, ::-1].copy()[:, ::-1]]
    quick = {"max_epochs": 2, "random_state": 0, "scaling": "standard"} if cls in NETWORKS else {}
    expected = cls(**quick).fit(single, S).predict_proba(single)
    for view in (*views, pd.DataFrame(single)[::-1][::-1]):
        found = cls(**quick).fit(view, S).predict_proba(view)
        np.testing.assert_allclose(found, expected, atol=1e-3)
