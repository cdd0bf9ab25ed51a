"""Candidate sets that look wrong, as a table for the person who can put them right."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.base import clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from .candidates import check_candidates
from .kernel import CleanSEKernelClassifier
from .model_selection import CandidateKFold
from .votes._kernel_votes import missed_rate, outside_odds

try:
    import pandas as pd
except ImportError as error:
    raise ImportError(
        "find_candidate_issues returns a pandas DataFrame, and pandas is not installed; "
        'write pip install "sklearn-cleanse[data]"'
    ) from error

__all__ = ["find_candidate_issues"]


def __dir__() -> list[str]:
    return __all__  # without the imports of this file


#: Share of wrong sets that is reckoned with at least, or no set would ever be found wrong.
_LEAST_NOISE = 0.05

#: A candidate of less probability than this has nothing that supports it.
_UNSUPPORTED = 0.02

#: Labels are alike if, where one is believed, the other gets so many times what its own rows give.
_ALIKE = 0.5

_COLUMNS = ["row", "kind", "score", "label", "suggestion", "reason"]


class CandidateIssues(pd.DataFrame):
    """The table that `find_candidate_issues` returns: a DataFrame, with whole sentences in HTML."""

    @property
    def _constructor(self) -> type[CandidateIssues]:
        return CandidateIssues

    def _repr_html_(self) -> str | None:
        with pd.option_context("display.max_colwidth", None):
            return super()._repr_html_()


def find_candidate_issues(
    X: Any,
    S: Any,
    *,
    estimator: Any = None,
    cv: int | str = 5,
    noise: float | str = "auto",
    min_score: float = 0.05,
    random_state: Any = None,
) -> CandidateIssues:
    """Find rows whose candidates look wrong, worst first.

    By default all other rows vote on each row, which has no say itself, and may name labels outside
    its candidates: kernel votes, as in `CleanSEKernelClassifier`. Given plain labels, this finds
    label errors. No true label is needed.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Features.
    S : array-like
        Candidates, in any form that `fit` takes, or labels of shape (n_samples,).
    estimator : classifier with ``predict_proba``, default=None
        Whose out-of-fold probabilities stand in for the votes. It is cloned, fitted or not.
    cv : int or "prefit", default=5
        Number of (shuffled) folds for ``estimator``. "prefit" takes the probabilities of the fitted
        estimator as they are: only for one that has not seen these rows.
    noise : float in [0, 1) or "auto", default="auto"
        Share of sets that are wrong; "auto" estimates it. It weighs the votes, and the scores are
        true to it, but the order of the rows changes little.
    min_score : float in [0, 1], default=0.05
        Score from which a row's set is listed. 0 ranks all rows.
    random_state : int, RandomState instance or None, default=None
        Draws landmarks, or folds.

    Returns
    -------
    issues : DataFrame
        One row per issue, indexed as X or S is, if one of them is a DataFrame. Columns:

        - "row": the position in X.
        - "kind": "label outside set" (none of several candidates is right), "label contradicted"
          (the only candidate is not), "duplicates disagree" (rows with the same features, but no
          candidate in common) or "unsupported candidate" (the set is right, but nothing speaks for
          one of its labels).
        - "score": about the probability that the row's set is wrong.
        - "label": the candidate in question: the likeliest one, or the one that has no support.
        - "suggestion": the likeliest label instead, for a set that is fine the likeliest candidate.
        - "reason": a sentence.

        ``issues.attrs["labels_alike"]`` lists pairs of labels that the features do not tell apart,
        as (label, other label, likeness), likest first: merge them, or measure something else.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn_cleanse import find_candidate_issues
    >>> X, y = load_iris(return_X_y=True)
    >>> y[7] = 2  # it was 0
    >>> issues = find_candidate_issues(X, y)
    >>> int(issues.row.iloc[0]), issues.kind.iloc[0], int(issues.suggestion.iloc[0])
    (7, 'label contradicted', 0)
    >>> print(issues.reason.iloc[0])
    the other rows say 0 (98%), not 2 (1%): check the label
    """
    classes, candidates = check_candidates(S, n_samples=_num_samples(X))
    inside = candidates.toarray()
    if estimator is None:
        engine = CleanSEKernelClassifier(noise=noise, random_state=random_state).fit(X, S)
        if engine.noise_ < _LEAST_NOISE:
            engine.set_params(noise=_LEAST_NOISE).fit(X, S)
        belief, others = engine.label_proba_, engine.left_out_proba_
    else:
        others = _out_of_fold(estimator, X, S, classes, cv, random_state)
        belief = _widen(others, inside, noise)
    wrong = (belief * ~inside).sum(axis=1)
    twin = _disjoint_twins(X, candidates)
    # One of two that disagree is wrong for certain: it is the one that the others doubt more.
    accused = (twin >= 0) & (wrong >= wrong[twin])
    wrong = np.where(accused, np.maximum(wrong, 0.5), wrong)
    best_in = np.where(inside, belief, -1.0).argmax(axis=1)
    best_out = np.where(inside, -1.0, belief).argmax(axis=1)
    found = []
    for row in np.flatnonzero((wrong >= min_score) & ~inside.all(axis=1)):
        label, other = best_in[row], best_out[row]
        says = f"the other rows say {classes[other]} ({others[row, other]:.0%}), "
        if twin[row] >= 0:
            kind = "duplicates disagree"
            reason = (
                f"row {twin[row]} has the same features but no candidate in common: one of the two "
                f"is wrong; {says}not {classes[label]} ({others[row, label]:.0%})"
            )
        elif inside[row].sum() == 1:
            kind = "label contradicted"
            reason = f"{says}not {classes[label]} ({others[row, label]:.0%}): check the label"
        else:
            kind = "label outside set"
            reason = (
                f"{says}which is no candidate; the likeliest that is one is {classes[label]} "
                f"({others[row, label]:.0%}): check the set, or add {classes[other]}"
            )
        found.append((row, kind, wrong[row], classes[label], classes[other], reason))
    worst = np.where(inside, others, np.inf).argmin(axis=1)
    lonely = (others.min(axis=1, initial=1.0, where=inside) < _UNSUPPORTED) & (wrong < min_score)
    for row in np.flatnonzero(lonely & (inside.sum(axis=1) > 1)):
        label, other = worst[row], best_in[row]
        reason = (
            f"nothing in the other rows speaks for {classes[label]}; the likeliest candidate is "
            f"{classes[other]} ({others[row, other]:.0%}): rule {classes[label]} out, if you can"
        )
        issue = (row, "unsupported candidate", wrong[row], classes[label], classes[other], reason)
        found.append(issue)
    issues = CandidateIssues(found, columns=_COLUMNS).astype({"row": int, "score": float})
    frame = next((given for given in (X, S) if hasattr(given, "iloc")), None)
    if frame is not None:
        issues.index = frame.index[issues["row"]]
    issues = issues.iloc[np.argsort(-issues["score"].to_numpy(), kind="stable")]
    if frame is None:
        issues = issues.reset_index(drop=True)
    issues.attrs["labels_alike"] = _labels_alike(belief, others, classes)
    return issues


def _out_of_fold(
    estimator: Any, X: Any, S: Any, classes: np.ndarray, cv: int | str, random_state: Any
) -> np.ndarray:
    """Return each row's probabilities by an estimator that was not fitted on it."""
    if cv == "prefit":
        return _in_columns(estimator, X, classes)
    others = np.zeros((_num_samples(X), len(classes)))
    for train, test in CandidateKFold(cv, random_state=random_state).split(X, S):
        fitted = clone(estimator).fit(_safe_indexing(X, train), _safe_indexing(S, train))
        others[test] = _in_columns(fitted, _safe_indexing(X, test), classes)
    return others


def _in_columns(estimator: Any, X: Any, classes: np.ndarray) -> np.ndarray:
    """Return probabilities with a column for each class, also for those it was not fitted on."""
    place = {label: column for column, label in enumerate(classes.tolist())}
    proba = np.zeros((_num_samples(X), len(classes)))
    proba[:, [place[label] for label in estimator.classes_.tolist()]] = estimator.predict_proba(X)
    return proba


def _widen(others: np.ndarray, inside: np.ndarray, noise: float | str) -> np.ndarray:
    """Weigh probabilities by whether a label is a candidate, which may be wrong."""
    sets = torch.from_numpy(inside)
    if noise == "auto":
        noise = missed_rate(torch.from_numpy(others), sets)
    odds = outside_odds(sets.double(), max(float(noise), _LEAST_NOISE)).numpy()
    belief = np.maximum(others, 1e-12) * np.where(inside, 1.0, odds)
    return belief / belief.sum(axis=1, keepdims=True)


def _disjoint_twins(X: Any, candidates: sp.csr_array) -> np.ndarray:
    """Return for each row another with equal features and no candidate in common, -1 if none."""
    twin = np.full(candidates.shape[0], -1)
    if sp.issparse(X):
        rows = X.tocsr().sorted_indices()
        parts = zip(rows.indptr[:-1], rows.indptr[1:], strict=True)
        keys = [(rows.indices[a:b].tobytes(), rows.data[a:b].tobytes()) for a, b in parts]
    else:
        keys = [tuple(row) for row in np.asarray(X).reshape(len(twin), -1).tolist()]
    equal: dict[Any, list[int]] = {}
    for row, key in enumerate(keys):
        equal.setdefault(key, []).append(row)
    for rows in equal.values():
        if len(rows) > 1:
            common = (candidates[rows] @ candidates[rows].T).toarray()
            for row, shared in zip(rows, common, strict=True):
                if not shared.all():
                    twin[row] = rows[int(np.argmin(shared))]
    return twin


def _labels_alike(
    belief: np.ndarray, others: np.ndarray, classes: np.ndarray
) -> list[tuple[Any, Any, float]]:
    """List pairs of labels that the others take for each other."""
    taken = belief.T @ others / np.maximum(belief.sum(axis=0), 1e-9)[:, None]
    own = taken.diagonal()
    likeness = (taken + taken.T) / np.maximum(own[:, None] + own, 1e-9)
    pairs = np.argwhere(np.triu(likeness >= _ALIKE, k=1))
    ordered = sorted(pairs.tolist(), key=lambda pair: -likeness[tuple(pair)])
    names = classes.tolist()
    return [(names[a], names[b], round(float(likeness[a, b]), 3)) for a, b in ordered]
