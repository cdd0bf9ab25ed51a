"""Why a label is believed: the votes behind it, as a table."""

from __future__ import annotations

import html
from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.utils import Bunch
from torch import Tensor

from ._table import format_table, html_table
from .calibration import Voters
from .votes import KernelModel

__all__ = ["Explanation"]


def __dir__() -> list[str]:
    return __all__  # without the imports of this file


#: Rows explained at a time: each is compared with every voter.
_BLOCK = 1000


class Explanation(Bunch):
    """The votes on one sample.

    Attributes
    ----------
    labels : ndarray of shape (n_candidates,)
        The sample's candidates.
    confidences : ndarray of shape (n_candidates,)
        How far the fitted model believes in each, as `disambiguate` returns it.
    votes : ndarray of shape (n_candidates,)
        The votes for each; all zero if nobody voted.
    weights : ndarray of shape (n_candidates,)
        What training weighs each with, Eq. (4), before T fades.
    prediction : object
        The class predicted, candidate or not.
    neighbors : ndarray of shape (n_voters,), dtype int
        The voters that count most, as row numbers of the training data.
    similarity : ndarray of shape (n_voters,)
        How similar they are: cosine for neighbours, the kernel for kernel votes.
    clean : ndarray of shape (n_voters,), dtype bool
        Whether each has a single candidate.
    ballots : list of dict
        What each voter says of each label: a neighbour's confidence in its own candidates; for
        kernel votes how much the row speaks for, or if negative against, each candidate.
    signed : bool
        Whether ballots are of the latter kind.
    others : dict
        For kernel votes what all rows that are not shown add, and the mean of all votes. Large
        contributions may cancel; ballots and this sum up to what is said of each candidate.

    Examples
    --------
    >>> from sklearn_cleanse import CleanSEKernelClassifier
    >>> X = [[0.0], [0.1], [0.9], [1.0]]
    >>> y = [{"low"}, {"low", "high"}, {"low", "high"}, {"high"}]
    >>> clf = CleanSEKernelClassifier().fit(X, y)
    >>> why = clf.explain([[0.02]], [{"low", "high"}])[0]
    >>> why.neighbors[0], why.clean[0]
    (np.int64(0), np.True_)
    >>> print(why)
    predicted: low
    candidate  confidence  votes  weight
    high ...
    low ...
    voters (training row, similarity, clean, what it says)
    0 ... clean ... low +...
    """

    def __str__(self) -> str:
        voters = [
            (str(row), f"{similarity:.3f}", "clean" if clean else "", _say(ballot, self.signed))
            for row, similarity, clean, ballot in self._voters()
        ]
        lines = [
            f"predicted: {self.prediction}",
            format_table([_HEAD, *self._candidates()]),
            "voters (training row, similarity, clean, what it says)",
        ]
        lines += [format_table(voters)] if voters else []
        if self.signed:
            lines.append(f"all others: {_say(self.others, True)}")
            lines.append(f"together: {_say(self._together(), True)}")
        return "\n".join(lines)

    def _together(self) -> dict:
        sums = dict(self.others)
        for ballot in self.ballots:
            for label, share in ballot.items():
                sums[label] += share
        return sums

    def _repr_html_(self) -> str:
        rows = [
            (str(row), f"{similarity:.3f}", "yes" if clean else "", _say(ballot, self.signed))
            for row, similarity, clean, ballot in self._voters()
        ]
        voters = ("training row", "similarity", "clean", "says")
        if self.signed:
            rows.append(("all others", "", "", _say(self.others, True)))
            rows.append(("together", "", "", _say(self._together(), True)))
        return (
            f"<p>predicted: <b>{html.escape(str(self.prediction))}</b></p>"
            + html_table(_HEAD, self._candidates())
            + html_table(voters, rows)
        )

    def _candidates(self) -> list[tuple[str, ...]]:
        columns = (self.labels, self.confidences, self.votes, self.weights)
        return [
            (str(label), f"{confidence:.3f}", f"{vote:.3f}", f"{weight:.3f}")
            for label, confidence, vote, weight in zip(*columns, strict=True)
        ]

    def _voters(self) -> Iterator[tuple]:
        return zip(self.neighbors, self.similarity, self.clean, self.ballots, strict=True)


_HEAD = ("candidate", "confidence", "votes", "weight")


def _say(ballot: dict, signed: bool) -> str:
    if signed:
        return ", ".join(f"{label} {share:+.2f}" for label, share in ballot.items())
    strongest = sorted(ballot.items(), key=lambda item: -item[1])
    return ", ".join(f"{label} {share:.2f}" for label, share in strongest)


def blocks_to_explain(
    X: np.ndarray,
    candidates: sp.csr_array | None,
    grades: sp.csr_array | None,
    n_classes: int,
) -> Iterator[tuple[np.ndarray, Tensor, Tensor | None]]:
    """Cut samples into blocks, each with its candidates as a mask; every class if there are none.

    Parameters
    ----------
    X : ndarray of shape (n_samples, ...)
    candidates, grades : csr_array of shape (n_samples, n_classes) or None
    n_classes : int

    Yields
    ------
    X : ndarray of shape (n_rows, ...)
    own : Tensor of shape (n_rows, n_classes), dtype bool
    grades : Tensor of shape (n_rows, n_classes) or None
    """
    for start in range(0, len(X), _BLOCK):
        block = slice(start, start + _BLOCK)
        own = torch.ones(len(X[block]), n_classes, dtype=torch.bool)
        if candidates is not None:
            own = torch.from_numpy(candidates[block].toarray())
        odds = None if grades is None else torch.from_numpy(grades[block].toarray())
        yield X[block], own, odds


def poll_neighbors(
    voters: Voters, directions: Tensor, own: Tensor, classes: np.ndarray
) -> tuple[Tensor, list[dict]]:
    """Let neighbours vote on a block as in training.

    Parameters
    ----------
    voters : Voters
    directions : Tensor of shape (n_rows, n_dimensions)
        Where the rows are.
    own : Tensor of shape (n_rows, n_classes), dtype bool
        Their candidates.
    classes : ndarray of shape (n_classes,)

    Returns
    -------
    votes : Tensor of shape (n_rows, n_classes)
    parts : list of dict
        Who voted on each row: ``neighbors``, ``similarity``, ``clean``, ``ballots``, ``signed``
        and ``others`` of an `Explanation`.
    """
    neighbors, similarity, votes = voters.vote_on(directions, own)
    belief, parts = voters.confidences, []
    for who, near in zip(neighbors.numpy(), similarity.numpy(), strict=True):
        ballots = [
            dict(zip(classes[row.indices].tolist(), row.data.tolist(), strict=True))
            for row in (belief[[position]] for position in who)
        ]
        parts.append(
            {
                "neighbors": voters.rows[who],
                "similarity": near,
                "clean": voters.is_clean[who],
                "ballots": ballots,
                "signed": False,
                "others": {},
            }
        )
    return votes, parts


def poll_kernel(
    model: KernelModel, X: np.ndarray, own: Tensor, classes: np.ndarray, n_voters: int = 10
) -> tuple[Tensor, Tensor, list[dict]]:
    """Let all other rows vote on a block as before training.

    Parameters
    ----------
    model : KernelModel
    X : ndarray of shape (n_rows, ...)
    own : Tensor of shape (n_rows, n_classes), dtype bool
        The rows' candidates.
    classes : ndarray of shape (n_classes,)
    n_voters : int, default=10
        Voters to show, those that say most about the candidates.

    Returns
    -------
    scores : Tensor of shape (n_rows, n_classes)
        What the others say, before counts weigh it.
    votes : Tensor of shape (n_rows, n_classes)
    parts : list of dict
        Who said most about each row: ``neighbors``, ``similarity``, ``clean``, ``ballots``,
        ``signed`` and ``others`` of an `Explanation`.
    """
    scores, myself = model.left_out_scores(X, own)
    similarity, parts = model.similarity(X), []
    for i, (mine, coef) in enumerate(zip(own, model.left_out_coef(myself), strict=True)):
        said = similarity[i, :, None] * coef[:, mine]
        weight = said.abs().sum(dim=1)
        if myself[i] >= 0:
            weight[myself[i]] = -1.0
        top = weight.topk(min(n_voters, len(weight) - int(myself[i] >= 0))).indices
        labels = classes[mine.numpy()].tolist()
        others = scores[i, mine] - said[top].sum(dim=0).to(scores.dtype)
        parts.append(
            {
                "neighbors": model.rows[top.numpy()],
                "similarity": similarity[i, top].numpy(),
                "clean": model.is_clean[top.numpy()],
                "ballots": [dict(zip(labels, row.tolist(), strict=True)) for row in said[top]],
                "signed": True,
                "others": dict(zip(labels, others.tolist(), strict=True)),
            }
        )
    return scores, model.vote_on(scores, own), parts


def assemble(
    classes: np.ndarray,
    own: Tensor,
    confidences: np.ndarray,
    votes: Tensor,
    weights: Tensor,
    best: np.ndarray,
    parts: list[dict],
) -> list[Explanation]:
    """Put the explanations of a block together; arrays have a row per sample."""
    return [
        Explanation(
            labels=classes[mine],
            confidences=confidences[i][mine],
            votes=votes[i].numpy()[mine],
            weights=weights[i].numpy()[mine],
            prediction=classes[best[i]],
            **parts[i],
        )
        for i, mine in enumerate(own.numpy())
    ]
