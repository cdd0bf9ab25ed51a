"""Candidate sets that look wrong, as a table for the person who can put them right."""

from __future__ import annotations

from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.base import clone
from sklearn.utils import _safe_indexing
from sklearn.utils._param_validation import Interval, StrOptions, validate_params
from sklearn.utils.validation import _num_samples

from ._rows import refuse_text, row_keys
from .candidates import check_graded, check_index, is_clean
from .candidates._grades import split_grades
from .kernel import CleanSEKernelClassifier
from .metrics._readers import read_labels
from .model_selection import CandidateKFold
from .votes._kernel_votes import likeliest_noise, outside_odds

if TYPE_CHECKING:
    from ._issue_table import CandidateIssues

__all__ = ["find_candidate_issues"]


def __dir__() -> list[str]:
    return __all__  # without the imports of this file


#: Least share of wrong sets that is assumed: with none, no set would ever be found wrong.
_NOISE_FLOOR = 0.05

#: A candidate of less probability than this has nothing that supports it.
_UNSUPPORTED = 0.02

#: Labels are alike if rows of the one give the other this share of what its own rows give it.
_ALIKE = 0.5

_COLUMNS = ["row", "kind", "score", "label", "suggestion", "reason"]


@validate_params(
    {
        "cv": [Interval(Integral, 2, None, closed="left"), StrOptions({"prefit"})],
        "noise": [Interval(Real, 0, 1, closed="left"), StrOptions({"auto"})],
        "min_score": [Interval(Real, 0, 1, closed="both")],
        "random_state": ["random_state"],
    },
    prefer_skip_nested_validation=False,
)
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
        Candidates, in any form that `fit` takes, graded ones too, or labels of shape (n_samples,).
    estimator : classifier with ``predict_proba``, default=None
        Whose out-of-fold probabilities stand in for the votes. It is cloned, fitted or not. Rows
        with equal features are in the same fold.
    cv : int or "prefit", default=5
        Number of (shuffled) folds for ``estimator``. "prefit" takes the probabilities of the fitted
        estimator as they are: only for one that has not seen these rows.
    noise : float in [0, 1) or "auto", default="auto"
        Share of sets that are wrong; "auto" estimates it. Less than 0.05, 0 included, counts as
        0.05: with no noise no set could be wrong. It moves the scores, the order of rows little.
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
        - "score": the belief that the row's set is wrong, from 0 to 1. It ranks rows; as a
          probability it is too low, and sets of a score of 0.1 are often wrong.
        - "label": the candidate in question: the likeliest one, or the one that has no support.
        - "suggestion": the likeliest label instead, for a set that is fine the likeliest candidate.
        - "reason": a sentence.

        ``issues.attrs["labels_alike"]`` lists pairs of labels that the features do not tell apart,
        as (label, other label, likeness), most alike first: merge them, or measure something else.

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
    from ._issue_table import CandidateIssues  # needs pandas, which a wheel alone does not bring

    check_index(X, S)
    inside, belief, others, classes = _beliefs(X, S, estimator, cv, noise, random_state)
    wrong = (belief * ~inside).sum(axis=1)
    twin = _disjoint_twins(row_keys(X), inside)
    # One of two that disagree is wrong for certain: it is the one that the others doubt more.
    accused = (twin >= 0) & (wrong >= wrong[twin])
    wrong = np.where(accused, np.maximum(wrong, 0.5), wrong)
    listed = (wrong >= min_score) & ~inside.all(axis=1)
    found = _wrong_sets(np.flatnonzero(listed), wrong, twin, inside, belief, others, classes)
    rest = np.flatnonzero(wrong < min_score)
    found += _unsupported(rest, wrong, inside, belief, others, classes)
    issues = _as_table(CandidateIssues(found, columns=_COLUMNS), X, S)
    issues.attrs["labels_alike"] = _labels_alike(belief, others, classes)
    return issues


def _beliefs(
    X: Any, S: Any, estimator: Any, cv: int | str, noise: float | str, random_state: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the sets, the belief in each label, what others say of it, and the labels."""
    if estimator is not None and not hasattr(estimator, "predict_proba"):
        raise ValueError(
            f"estimator is {estimator!r}, which has no predict_proba; wrap it in "
            "CalibratedClassifierCV of sklearn.calibration, or take another one"
        )
    if estimator is None:
        refuse_text(
            X, CleanSEKernelClassifier.__name__, "find_candidate_issues(X, S, estimator={})"
        )
        classes, candidates, grades = check_graded(S, n_samples=_num_samples(X))
        params = {"graded": grades is not None, "random_state": random_state}
        asked = noise if noise == "auto" else max(float(noise), _NOISE_FLOOR)
        engine = CleanSEKernelClassifier(noise=asked, **params).fit(X, S)
        if engine.noise_ < _NOISE_FLOOR:
            engine.set_params(noise=_NOISE_FLOOR).fit(X, S)
        return candidates.toarray(), engine.label_proba_, engine.left_out_proba_, classes
    if cv == "prefit":  # it may know labels that these rows lack, and the other way round
        sets, grades = split_grades(S)
        classes, candidates, _ = read_labels(sets, estimator.classes_, n_samples=_num_samples(X))
        others = _in_columns(estimator, X, classes)
    else:
        classes, candidates, grades = check_graded(S, n_samples=_num_samples(X))
        others = _out_of_fold(estimator, X, S, classes, candidates, cv, random_state)
    inside = candidates.toarray()
    belief = _widen(others, inside, noise)
    if grades is not None:
        odds = np.ones_like(belief)
        odds[inside] = (grades / grades.max(axis=1).toarray().reshape(-1, 1)).tocsr().data
        belief = belief * odds
        belief /= belief.sum(axis=1, keepdims=True)
    return inside, belief, others, classes


def _out_of_fold(
    estimator: Any,
    X: Any,
    S: Any,
    classes: np.ndarray,
    candidates: sp.csr_array,
    cv: int | str,
    random_state: Any,
) -> np.ndarray:
    """Return each row's probabilities by an estimator fitted neither on it nor on its copies."""
    if is_clean(candidates).all():
        S = classes[candidates.indices]  # which any classifier takes
    elif not _takes_grades(estimator):
        S, _ = split_grades(S)
    _, first, group = np.unique(
        np.array(row_keys(X), dtype=object), return_index=True, return_inverse=True
    )
    of_first = np.argsort(np.argsort(first))[group]  # groups in the order of their first rows
    first = np.sort(first)
    others = np.zeros((_num_samples(X), len(classes)))
    for train, test in CandidateKFold(cv, random_state=random_state).split(
        first, candidates[first]
    ):
        train, test = (np.flatnonzero(np.isin(of_first, part)) for part in (train, test))
        fitted = _fit(clone(estimator), _safe_indexing(X, train), _safe_indexing(S, train))
        others[test] = _in_columns(fitted, _safe_indexing(X, test), classes)
    return others


def _takes_grades(estimator: Any) -> bool:
    """Return whether an estimator, or one inside it, is told to take graded candidates."""
    params = estimator.get_params().items()
    return any(value is True for name, value in params if name.split("__")[-1] == "graded")


def _fit(estimator: Any, X: Any, S: Any) -> Any:
    try:
        return estimator.fit(X, S)
    except (TypeError, ValueError) as error:
        if getattr(S, "ndim", 2) == 1 and np.asarray(S).dtype != object:
            raise  # labels are not the matter
        raise ValueError(
            f"estimator={estimator!r} cannot be fitted to these candidates: {error}. If it takes "
            "labels only, give it labels, or an estimator that takes sets, such as "
            "CleanSEClassifier"
        ) from error


def _in_columns(estimator: Any, X: Any, classes: np.ndarray) -> np.ndarray:
    """Return probabilities with a column for each class, also for those it was not fitted on."""
    found = estimator.predict_proba(X)
    if isinstance(found, list) or np.shape(found)[1:] != np.shape(estimator.classes_):
        raise ValueError(
            f"estimator={estimator!r} takes several labels of a row for several answers, not for "
            "candidates; give it labels, or take one that takes sets, such as CleanSEClassifier"
        )
    place = {label: column for column, label in enumerate(classes.tolist())}
    proba = np.zeros((_num_samples(X), len(classes)))
    proba[:, [place[label] for label in estimator.classes_.tolist()]] = found
    return proba


def _widen(others: np.ndarray, inside: np.ndarray, noise: float | str) -> np.ndarray:
    """Weigh probabilities by whether a label is a candidate, which may be wrong."""
    sets = torch.from_numpy(inside)
    if noise == "auto":
        noise = likeliest_noise(torch.from_numpy(others), sets)
    odds = outside_odds(sets.double(), max(float(noise), _NOISE_FLOOR)).numpy()
    belief = np.maximum(others, 1e-12) * np.where(inside, 1.0, odds)
    return belief / belief.sum(axis=1, keepdims=True)


def _disjoint_twins(keys: list[bytes], inside: np.ndarray) -> np.ndarray:
    """Return for each row another with equal features and no candidate in common, -1 if none."""
    groups: dict[bytes, dict[bytes, list[int]]] = {}
    for row, (key, own) in enumerate(zip(keys, inside, strict=True)):
        groups.setdefault(key, {}).setdefault(own.tobytes(), []).append(row)
    twin = np.full(len(inside), -1)
    for group in groups.values():
        if len(group) > 1:  # compare the sets that differ, however many rows have them
            first = np.array([rows[0] for rows in group.values()])
            sets = inside[first].astype(np.float32)
            for own, rows in zip(sets, group.values(), strict=True):
                disjoint = sets @ own == 0
                if disjoint.any():
                    twin[rows] = first[disjoint.argmax()]
    return twin


def _wrong_sets(
    rows: np.ndarray,
    wrong: np.ndarray,
    twin: np.ndarray,
    inside: np.ndarray,
    belief: np.ndarray,
    others: np.ndarray,
    classes: np.ndarray,
) -> list[tuple]:
    """Describe rows none of whose candidates seems right."""
    found = []
    for row in rows:
        label = np.where(inside[row], belief[row], -1.0).argmax()
        other = np.where(inside[row], -1.0, belief[row]).argmax()
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
    return found


def _unsupported(
    rows: np.ndarray,
    wrong: np.ndarray,
    inside: np.ndarray,
    belief: np.ndarray,
    others: np.ndarray,
    classes: np.ndarray,
) -> list[tuple]:
    """Describe candidates that nothing speaks for, in sets that seem right otherwise."""
    found = []
    for row in rows[inside[rows].sum(axis=1) > 1]:
        label = np.where(inside[row], others[row], np.inf).argmin()
        if others[row, label] >= _UNSUPPORTED:
            continue
        other = np.where(inside[row], belief[row], -1.0).argmax()
        reason = (
            f"nothing in the other rows speaks for {classes[label]}; the likeliest candidate is "
            f"{classes[other]} ({others[row, other]:.0%}): rule {classes[label]} out, if you can"
        )
        issue = (row, "unsupported candidate", wrong[row], classes[label], classes[other], reason)
        found.append(issue)
    return found


def _as_table(issues: CandidateIssues, X: Any, S: Any) -> CandidateIssues:
    """Return the issues, worst first, with the row names of a frame."""
    issues = issues.astype({"row": int, "score": float})
    frame = next((given for given in (X, S) if hasattr(given, "iloc")), None)
    if frame is not None:
        issues.index = frame.index[issues["row"]]
    issues = issues.iloc[np.argsort(-issues["score"].to_numpy(), kind="stable")]
    return issues.reset_index(drop=True) if frame is None else issues


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
