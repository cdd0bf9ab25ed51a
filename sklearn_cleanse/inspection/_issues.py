"""Rows whose candidates look wrong, for the person who can correct them."""

import re
from itertools import pairwise
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import _safe_indexing
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions, validate_params
from sklearn.utils.validation import _num_samples

from ..candidates import Candidates
from ..features import check_features, row_keys
from ..kernel import CleanSEKernelClassifier
from ..metrics._predictions import final_step
from ..model_selection import CandidateKFold
from ..votes._fixed_point import likeliest_noise_rate
from ._decide import read_sets, row_labels
from ._explain import LEAST_NOISE, calibrated, doubt
from ._explanation import percent

#: A candidate of less probability than this is not supported by other rows.
_UNSUPPORTED = 0.02

#: Labels are alike if rows of the one give the other this part of what its own rows give it.
_ALIKE = 0.5

_NEEDS = (
    "`estimator` must take candidates, got {!r:.300}, which reads {}. Pass an estimator of this "
    "package such as CleanSEClassifier, alone or in a pipeline, or pass labels as S."
)


@validate_params(
    {
        "estimator": [HasMethods(["fit", "predict_proba"]), None],
        "cv": [Interval(Integral, 2, None, closed="left")],
        "noise_rate": [Interval(Real, 0, 1, closed="left"), StrOptions({"auto"})],
        "include": [StrOptions({"wrong", "all"})],
        "random_state": ["random_state"],
    },
    prefer_skip_nested_validation=False,
)
def find_candidate_issues(
    X: Any,
    S: Any,
    *,
    estimator: Any = None,
    cv: int = 5,
    noise_rate: float | str = "auto",
    include: str = "wrong",
    random_state: Any = None,
) -> pd.DataFrame:
    """Find rows whose candidates look wrong, worst first.

    These are rows to correct. Given plain labels, the function finds label errors. It needs no true
    label. For rows to label next, see `rank_for_labeling`.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Features.
    S : array-like
        Candidates, in any form that `fit` takes, or labels of shape (n_samples,).
    estimator : classifier with ``predict_proba``, default=None
        A fitted `CleanSEKernelClassifier`, or a pipeline or search that ends in one, is used as it
        is if X and S are its training rows: all other rows have voted on each row. Any other
        classifier is cloned and fitted out of fold, with rows of equal features in the same fold.
        None fits a `CleanSEKernelClassifier` whose votes may name labels outside the sets.
    cv : int, default=5
        Number of shuffled folds for an estimator that is fitted out of fold.
    noise_rate : float in [0, 1) or "auto", default="auto"
        Proportion of sets that are wrong; "auto" estimates it. At least 0.05 is assumed: without
        noise no set could be wrong. The higher it is, the more rows are listed.
    include : {"wrong", "all"}, default="wrong"
        Whether to list rows whose set looks wrong, or to rank all rows.
    random_state : int, RandomState instance or None, default=None
        Draws components, or folds.

    Returns
    -------
    issues : DataFrame
        Worst first. Columns:

        - "row": by the index of X or S if one of them has an index, otherwise the position.
        - "given": the candidates, a list; the label if every row has a single one.
        - "suggested": the likeliest label outside the set; of a set that looks right, the likeliest
          candidate.
        - "score": from 0 to 1, high if the set looks wrong. Sets above 0.3 are listed, if other
          rows suggest a label outside. It ranks rows and is not a probability.
        - "reason": in words.

        ``issues.attrs["labels_alike"]`` lists pairs of labels that the features do not
        distinguish, as (label, other label, likeness), most alike first: merge them, or measure
        something else.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn_cleanse.inspection import find_candidate_issues
    >>> X, y = load_iris(return_X_y=True)
    >>> y[7] = 2  # it was 0
    >>> issues = find_candidate_issues(X, y)
    >>> issues.loc[0, ["row", "given", "suggested"]].tolist()
    [7, 2, 0]
    >>> print(issues.reason[0])
    other rows suggest 0 (...), not 2 (...)
    """
    candidates = read_sets(X, S)
    others, rate = _by_others(X, candidates, estimator, cv, noise_rate, random_state)
    proba, score, is_wrong = doubt(others, candidates, rate)
    mask, twin = candidates.mask, _disjoint_twins(_group_equal(X), candidates.mask)
    rows = np.flatnonzero(is_wrong) if include == "wrong" else np.arange(len(mask))
    rows = rows[np.argsort(-score[rows], kind="stable")]
    inside = np.where(mask, proba, -1.0).argmax(axis=1)
    suggested = np.where(is_wrong, np.where(mask, -1.0, proba).argmax(axis=1), inside)
    labels, names = row_labels(X, S), candidates.classes
    given = [names[mask[row]].tolist() for row in rows]
    if candidates.is_clean.all():
        given = [only for (only,) in given]
    reasons = []
    for row in rows:
        both, proba_of = (inside[row], suggested[row]), others[row]
        label, other = (f"{names[column]} ({percent(proba_of[column])})" for column in both)
        if not is_wrong[row]:
            weak = mask[row] & (proba_of < _UNSUPPORTED) & (names != names[inside[row]])
            weakly = f", not {', '.join(map(str, names[weak]))}" * bool(weak.any())
            reasons.append(f"other rows support {label}{weakly}")
        elif twin[row] >= 0:
            reasons.append(f"row {labels[twin[row]]} has equal features but other candidates")
        else:
            reasons.append(f"other rows suggest {other}, not {label}")
    columns = {"row": labels[rows], "given": given, "suggested": names[suggested[rows]]}
    issues = pd.DataFrame({**columns, "score": score[rows], "reason": reasons})
    issues.attrs["labels_alike"] = _labels_alike(proba, others, names)
    return issues


def _by_others(
    X: Any, candidates: Candidates, estimator: Any, cv: int, noise_rate: Any, random_state: Any
) -> tuple[np.ndarray, float]:
    """Return the probability of each label by other rows alone, and the noise rate."""
    if estimator is None:
        engine = CleanSEKernelClassifier(noise_rate=noise_rate, random_state=random_state)
        if engine.fit(X, candidates).noise_rate_ < LEAST_NOISE:
            engine.set_params(noise_rate=LEAST_NOISE).fit(X, candidates)
        return calibrated(engine, engine.loo_proba_), engine.noise_rate_
    others = _left_out(estimator, X, candidates)
    if others is None:
        others = _out_of_fold(estimator, X, candidates, cv, random_state)
    if noise_rate == "auto":
        noise_rate = likeliest_noise_rate(*map(torch.from_numpy, (others, candidates.mask)))
    return others, float(noise_rate)


def _left_out(estimator: Any, X: Any, candidates: Candidates) -> np.ndarray | None:
    """Return ``loo_proba_`` of an estimator that was fitted to these very rows, otherwise None."""
    try:
        inner, _ = final_step(estimator)
    except NotFittedError:
        return None
    same = isinstance(inner, CleanSEKernelClassifier) and len(inner.loo_proba_) == len(candidates)
    if not same or not np.array_equal(inner.classes_, candidates.classes):
        return None
    Z = check_features(inner, final_step(estimator, X)[1], reset=False, allow_images=True)
    model = inner.model_
    position = model.left_out_scores(Z, candidates.prior)[1].numpy()
    # Of the other rows, components do not keep the features.
    kept = slice(None) if model.is_exact else model.rows
    expected = inner._position if model.is_exact else np.arange(len(model.rows))
    return calibrated(inner, inner.loo_proba_) if np.array_equal(position[kept], expected) else None


def _out_of_fold(
    estimator: Any, X: Any, candidates: Candidates, cv: int, random_state: Any
) -> np.ndarray:
    """Return each row's probabilities by an estimator fitted neither on it nor on its copies."""
    S = candidates.to_frame()
    if candidates.is_clean.all():
        S = candidates.classes[candidates.mask.argmax(axis=1)]  # which any classifier takes
    group = _group_equal(X)
    first = np.unique(group, return_index=True)[1]
    others = np.zeros(candidates.mask.shape)
    folds = CandidateKFold(cv, random_state=random_state)
    for train, test in folds.split(first, candidates[first]):
        train, test = (np.flatnonzero(np.isin(group, part)) for part in (train, test))
        try:
            fitted = clone(estimator).fit(_safe_indexing(X, train), _safe_indexing(S, train))
        except (ValueError, NotImplementedError) as error:
            if not re.search("1d array|[Mm]ulti-?(output|label)", str(error)):
                raise
            raise ValueError(_NEEDS.format(estimator, "labels only")) from error
        others[test] = _in_columns(fitted, _safe_indexing(X, test), candidates.classes)
    return others


def _in_columns(estimator: Any, X: Any, classes: np.ndarray) -> np.ndarray:
    """Return probabilities with a column for each class, also for those it was not fitted on."""
    found = estimator.predict_proba(X)
    if isinstance(found, list) or np.shape(found)[1:] != np.shape(estimator.classes_):
        raise ValueError(_NEEDS.format(estimator, "several labels of a row as several outputs"))
    place = {label: column for column, label in enumerate(classes.tolist())}
    proba = np.zeros((_num_samples(X), len(classes)))
    proba[:, [place[label] for label in estimator.classes_.tolist()]] = found
    return proba


def _group_equal(X: Any) -> np.ndarray:
    """Return for each row of features, in any form, a number that equal rows share."""
    if sp.issparse(X):
        X = sp.csr_array(X).sorted_indices()
        rows = [slice(*ends) for ends in pairwise(X.indptr)]
        keys = [X.indices[row].tobytes() + X.data[row].tobytes() for row in rows]
    elif hasattr(X, "iloc") or np.asarray(X).dtype.kind == "O":
        keys = pd.util.hash_pandas_object(pd.DataFrame(X), index=False).tolist()
    else:
        keys = row_keys(np.asarray(X))
    return np.asarray(pd.factorize(np.array(keys, dtype=object))[0])


def _disjoint_twins(group: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return for each row another with equal features and no candidate in common, -1 if none."""
    twin = np.full(len(mask), -1)
    for rows in pd.Series(group).groupby(group).indices.values():
        if len(rows) > 1:  # compare the sets that differ, however many rows have them
            found = np.unique(mask[rows], axis=0, return_index=True, return_inverse=True)
            sets, first, own = found[0].astype(np.float32), rows[found[1]], found[2].ravel()
            disjoint = sets @ sets.T == 0
            twin[rows] = np.where(disjoint.any(axis=1), first[disjoint.argmax(axis=1)], -1)[own]
    return twin


def _labels_alike(
    proba: np.ndarray, others: np.ndarray, classes: np.ndarray
) -> list[tuple[Any, Any, float]]:
    """List pairs of labels that other rows mistake for each other."""
    taken = proba.T @ others / np.maximum(proba.sum(axis=0), 1e-9)[:, None]
    own = taken.diagonal()
    likeness = (taken + taken.T) / np.maximum(own[:, None] + own, 1e-9)
    pairs = np.argwhere(np.triu(likeness >= _ALIKE, k=1))
    ordered = sorted(pairs.tolist(), key=lambda pair: -likeness[tuple(pair)])
    names = classes.tolist()
    return [(names[a], names[b], round(float(likeness[a, b]), 3)) for a, b in ordered]
