"""Why a candidate was chosen: the training rows that are most similar, and their labels."""

from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.utils import gen_batches
from sklearn.utils._param_validation import Interval, validate_params

from ..calibration import temper
from ..candidates import Candidates
from ..features import check_features
from ..kernel import CleanSEKernelClassifier
from ..metrics._predictions import final_step
from ..votes._fixed_point import label_weights
from ._decide import CHECK, read_sets, row_labels
from ._explanation import NO_CANDIDATE, Explanation, percent

#: Rows explained at a time: each is compared with all rows that predictions are made from.
_BLOCK = 500

#: Least probability of a clear choice, least lead of one that is not a close call, and least
#: probability of a label outside the candidates that the text names.
_CLEAR, _CLOSE, _NAMED = 0.9, 0.1, 0.05

#: Dependence of candidates on features from which no choice among several is clear. On controlled
#: sets "clear" is right in 94 % below 0.1, 90 % up to 0.15, 86 % up to 0.2 and 74 % above. There a
#: higher probability is not more often right.
_DEPENDENT = 0.1

#: Least noise rate that is assumed: with none, no set could be wrong.
LEAST_NOISE = 0.05

#: Score above which a set looks wrong. On controlled sets, 5, 10 and 20 % of them wrong, whose
#: candidates do not depend on the features, `find_candidate_issues` lists 68, 66 and 72 % of the
#: wrong ones, and 77, 82 and 80 % of its rows are wrong; with none wrong it lists 1 % of all rows.
#: "No candidate fits" is right in 90, 94 and 97 %; with none wrong 0.5 % of all rows have it.
_LEAST_SCORE = 0.3

_SHARED = "Candidates depend on the features: similar rows may share a wrong one. Check this row."


@validate_params({"n_similar": [Interval(Integral, 1, None, closed="left")]}, **CHECK)
def explain(estimator: Any, X: Any, S: Any = None, *, n_similar: int = 5) -> list[Explanation]:
    """Show the training rows that are most similar to each sample, and how they were resolved.

    Parameters
    ----------
    estimator : classifier
        A fitted `CleanSEKernelClassifier`, a fitted `CleanSEClassifier` whose voter is one, a
        pipeline that ends in one of them, or a search that was refitted.
    X : array-like of shape (n_samples, n_features)
        Samples, as ``estimator.predict`` takes them.
    S : array-like, default=None
        Their candidates, in any form that `fit` takes. If None, every class is a candidate. Pass
        those of a training row: it is recognized by equal features and equal candidates, and then
        not shown as similar to itself.
    n_similar : int, default=5
        Number of similar rows to show.

    Returns
    -------
    explanations : list of Explanation
        One per sample. Print it for a table.

    Notes
    -----
    Similarity is that of the kernel that voted. With components, similar rows are searched among
    these.

    Examples
    --------
    >>> from sklearn_cleanse import CleanSEKernelClassifier
    >>> from sklearn_cleanse.inspection import explain
    >>> X = [[0.0], [0.1], [0.2], [0.8], [0.9], [1.0]]
    >>> S = [{"low"}, {"low", "high"}, {"low"}, {"high"}, {"low", "high"}, {"high"}]
    >>> model = CleanSEKernelClassifier().fit(X, S)
    >>> explain(model, [[0.05]], [{"low", "high"}], n_similar=3)[0].similar[["row", "resolved"]]
       row resolved
    0    0      low
    1    1      low
    2    2      low
    """
    inner, Z = final_step(estimator, X)
    kernel = getattr(inner, "voter_", inner)
    if not isinstance(kernel, CleanSEKernelClassifier):
        raise ValueError(
            f"`estimator` must have votes of a kernel to be explained, got {inner!r:.300}. Fit "
            "CleanSEKernelClassifier, or CleanSEClassifier with voter='kernel' and `temperature` "
            "above 1, which keeps its voter after `fit`, not after `partial_fit`."
        )
    checked = check_features(inner, Z, reset=False, allow_images=True)
    given = np.ones((len(checked), len(inner.classes_)), dtype=bool) if S is None else S
    candidates = read_sets(X, given, inner.classes_)
    proba = inner._candidate_proba_of(Z, candidates)
    predicted, labels, explanations = inner.predict(Z).tolist(), row_labels(X, S), []
    for rows in gen_batches(len(checked), _BLOCK):
        votes = Votes(kernel, checked[rows], candidates[rows], n_similar)
        parts = zip(labels[rows], proba[rows], predicted[rows], strict=True)
        explanations += [
            votes.explain(i, *part, inner is not kernel) for i, part in enumerate(parts)
        ]
    return explanations


class Votes:
    """The votes on a block of samples, and the training rows that are similar to them."""

    def __init__(
        self, kernel: CleanSEKernelClassifier, X: np.ndarray, candidates: Candidates, n_similar: int
    ) -> None:
        self.candidates, self.model, self.index = candidates, kernel.model_, kernel.index_
        mask, prior, model = candidates.mask, candidates.prior, self.model
        self.scores, self.own = model.left_out_scores(X, prior)
        #: what other rows suggest, candidates or not
        self.label_proba = calibrated(kernel, kernel._normalize(self.scores.numpy()))
        self.is_wrong = doubt(self.label_proba, candidates, kernel.noise_rate_)[2]
        self.is_dependent = kernel.instance_dependence_ >= _DEPENDENT
        even = (mask / mask.sum(axis=1, keepdims=True)).astype(np.float32)
        self.vote = kernel._vote_on(self.scores, prior)
        #: choices by scores alone, by scores and counts, and by these and the prior weights
        by_score = np.where(mask, self.scores.numpy(), -np.inf).argmax(axis=1)
        by_count = model.vote_on(self.scores, even).numpy().argmax(axis=1)
        self.choices = np.stack([by_score, by_count, self.vote.argmax(axis=1)], axis=1)
        # With noise, votes may have resolved a training row as a label outside its candidates.
        resolved = kernel.label_proba_ if kernel.noise_rate_ else kernel.candidate_proba_
        self.resolved = resolved[model.rows]
        some = f"{len(model.rows)} components, training rows that represent all"
        self.searched = [] if model.is_exact else [f"Similar rows are searched among {some}."]
        similarity = model.similarity(X)
        known = torch.nonzero(self.own >= 0)[:, 0]
        similarity[known, self.own[known]] = -1.0  # a training row is not similar to itself
        values, top = similarity.topk(min(n_similar, similarity.shape[1]), dim=1)
        self.similar = [near[value > -1].numpy() for near, value in zip(top, values, strict=True)]
        self.similarity = similarity.numpy()

    def explain(
        self, i: int, row: Any, proba: np.ndarray, prediction: Any, is_network: bool
    ) -> Explanation:
        """Explain the sample at position i of the block."""
        names, mask = self.candidates.classes, self.candidates.mask[i]
        others, resolved = self.label_proba[i], self.resolved[self.similar[i]]
        counts = np.bincount(resolved.argmax(axis=1), minlength=len(names))

        def table(name: str, columns: np.ndarray, proba: np.ndarray) -> pd.DataFrame:
            columns = columns[np.argsort(-proba[columns], kind="stable")]
            given = {name: names[columns], "probability": proba[columns]}
            return pd.DataFrame(given | {"n_similar": counts[columns]}, index=columns)

        inside = table("candidate", np.flatnonzero(mask), proba)
        if is_network:
            inside["vote"] = self.vote[i, inside.index]
        outside = table("label", np.flatnonzero(~mask), others)
        best, first = inside.index[0], inside["probability"].to_numpy()
        is_outside, is_dependent = ~mask[others.argmax()], self.is_dependent and len(first) > 1
        is_clear = first[0] >= _CLEAR and not (is_outside or is_dependent)
        verdict = "clear" if is_clear else "not certain"
        if len(first) > 1 and first[0] - first[1] < _CLOSE:
            verdict = "close call"
        if self.is_wrong[i]:
            verdict = NO_CANDIDATE
        reasons = [_check_note(outside, len(resolved))] if is_outside else []
        if verdict != NO_CANDIDATE:
            reasons += self._disagreement(i, best, counts, resolved.sum(axis=0))
            reasons += [_SHARED] * is_dependent
        elif self.own[i] >= 0 and prediction in inside["candidate"].tolist():
            reasons.append("predict() has seen this row's candidates in training.")
        return Explanation(
            row=row,
            verdict=verdict,
            label=names.tolist()[best],
            probability=float(proba[best]),
            prediction=prediction,
            candidates=inside.reset_index(drop=True),
            similar=self._similar_table(i),
            outside=outside.reset_index(drop=True),
            reasons=reasons,
            remarks=[*_outside_note(outside, verdict), *self.searched],
            _votes=self,
            _position=i,
        )

    def _similar_table(self, i: int) -> pd.DataFrame:
        near, names = self.similar[i], self.candidates.classes
        rows, best = self.model.rows[near], self.resolved[near].argmax(axis=1)
        return pd.DataFrame(
            {
                "row": rows if self.index is None else self.index[rows],
                "similarity": self.similarity[i, near],
                "candidates": [names[prior > 0].tolist() for prior in self.model.prior[near]],
                "resolved": names[best],
                "probability": self.resolved[near, best],
            }
        )

    def _disagreement(self, i: int, chosen: int, counts: np.ndarray, sums: np.ndarray) -> list[str]:
        """Return why the choice is not the candidate that most similar rows were resolved as."""
        mask, n = self.candidates.mask[i], len(self.similar[i])
        names, prior = self.candidates.classes, self.candidates.prior[i]
        if n == 0 or mask.sum() == 1:
            return []
        if not counts[mask].any():
            return [f"None of the {n} similar rows was resolved as a candidate."]
        # sums of probabilities decide between equal counts
        favored = int(np.where(mask, counts + sums / (n + 1), -1).argmax())
        if counts[favored] == counts[chosen]:
            return []
        by_score, by_count, vote = self.choices[i]
        if vote != chosen:
            why = f"The votes before training chose {names[vote]}; training changed this."
        elif by_score == chosen:
            why = f"All rows together favor {names[chosen]}: more distant rows decide."
        elif by_count == chosen:
            often = (
                f"its rows more often have these candidates, or {names[favored]} is common enough"
            )
            why = f"Label counts decide for {names[chosen]}: {often}."
        else:
            weights = f"{percent(prior[chosen])} against {percent(prior[favored])}"
            why = f"Prior weights decide for {names[chosen]}: {weights}."
        more = f"More similar rows were resolved as {names[favored]} than as {names[chosen]}."
        return [more, why]

    @cached_property
    def contributions(self) -> list[pd.DataFrame]:
        """Contributions to the score of each sample; to leave rows out takes a factorization."""
        coefs = self.model.left_out_coef(self.own)
        return [self._contribution(i, coef.numpy()) for i, coef in enumerate(coefs)]

    def _contribution(self, i: int, coef: np.ndarray) -> pd.DataFrame:
        mask, near = self.candidates.mask[i], self.similar[i]
        parts = self.similarity[i, near, None] * coef[near][:, mask]
        rest = self.scores[i].numpy()[mask] - parts.sum(axis=0)
        rows = [*self._similar_table(i)["row"], "all other rows"]
        columns = pd.Index(self.candidates.classes[mask], tupleize_cols=False)
        return pd.DataFrame(np.vstack([parts, rest]), index=rows, columns=columns)


def calibrated(kernel: CleanSEKernelClassifier, proba: np.ndarray) -> np.ndarray:
    """Return probabilities of labels at the temperature of `predict_proba`."""
    return np.asarray(np.exp(temper(np.log(proba), kernel.proba_temperature_)))


def doubt(others: np.ndarray, candidates: Candidates, rate: float) -> tuple[np.ndarray, ...]:
    """Return how likely labels are by other rows and sets, scores of sets, and which look wrong."""
    prior = torch.from_numpy(candidates.prior).double()
    proba = np.maximum(others, 1e-12) * label_weights(prior, max(rate, LEAST_NOISE)).numpy()
    proba /= proba.sum(axis=1, keepdims=True)
    score = (proba * ~candidates.mask).sum(axis=1)
    is_outside = ~candidates.mask[np.arange(len(proba)), others.argmax(axis=1)]
    return proba, score, (score > _LEAST_SCORE) & is_outside


def _outside_note(outside: pd.DataFrame, verdict: str) -> list[str]:
    named = outside[outside["probability"] >= _NAMED]
    if named.empty or verdict == NO_CANDIDATE:
        return []
    parts = [f"{row.label} ({percent(row.probability)})" for row in named.itertuples()]
    parts += [f"others below {percent(_NAMED)}"] * (len(named) < len(outside))
    return [f"Not candidates, in percent of all labels: {', '.join(parts)}."]


def _check_note(outside: pd.DataFrame, n: int) -> str:
    label, _, count = next(outside.itertuples(index=False))  # keeps integer labels
    seen = f"all other rows together suggest {label}"
    if count > n / 2:
        how_many = f"all {n}" if count == n else f"{count} of {n}"
        seen = f"{how_many} similar rows were resolved as {label}"
    return f"Check this row: {seen}, which is not a candidate."
