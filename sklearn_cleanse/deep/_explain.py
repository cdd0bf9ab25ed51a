"""Why a label is believed: the votes behind it, as a table."""

from __future__ import annotations

import scipy.sparse as sp
import torch
from sklearn.utils import Bunch

from ..losses import candidate_confidences, check_loss

__all__ = ["Explanation"]

#: Rows explained at a time: each is compared with every voter.
_BLOCK = 1000


class Explanation(Bunch):
    """The votes on one sample.

    Attributes
    ----------
    labels : ndarray of shape (n_candidates,)
        The sample's candidates.
    confidences : ndarray of shape (n_candidates,)
        How far the method believes in each: the network's softmax over them, unless the loss
        keeps confidences of another kind.
    votes : ndarray of shape (n_candidates,)
        The share of the neighbours' votes that each got; all zero if nobody voted.
    weights : ndarray of shape (n_candidates,)
        What a training step would weigh each with: Eq. (4).
    prediction : object
        The class the network predicts, candidate or not.
    neighbors : ndarray of shape (n_neighbors,), dtype int
        The voters, as row numbers of the training data, most similar first.
    similarity : ndarray of shape (n_neighbors,)
        Their cosine similarity.
    clean : ndarray of shape (n_neighbors,), dtype bool
        Whether each has a single candidate.
    ballots : list of dict
        What each voter believes: its candidates and the confidence in each.

    Examples
    --------
    >>> from sklearn_cleanse import CleanSEClassifier
    >>> X = [[0.0], [0.1], [0.9], [1.0]]
    >>> y = [{"low"}, {"low", "high"}, {"low", "high"}, {"high"}]
    >>> clf = CleanSEClassifier(n_neighbors=1, max_epochs=20, random_state=0).fit(X, y)
    >>> why = clf.explain([[0.02]], [{"low", "high"}])[0]
    >>> why.neighbors, why.clean
    (array([0]), array([ True]))
    >>> print(why)
    predicted: low
    candidate confidence  votes  weight
    high      ...  0.000 ...
    low       ...  1.000 ...
    voters (training row, similarity, clean, what it believes)
           0 ... clean  low 1.00
    """

    def __str__(self) -> str:
        width = max(9, *(len(str(label)) for label in self.labels))
        lines = [
            f"predicted: {self.prediction}",
            f"{'candidate':<{width}} confidence  votes  weight",
        ]
        lines += [
            f"{label!s:<{width}} {confidence:10.3f} {vote:6.3f} {weight:7.3f}"
            for label, confidence, vote, weight in zip(
                self.labels, self.confidences, self.votes, self.weights, strict=True
            )
        ]
        lines.append("voters (training row, similarity, clean, what it believes)")
        for row, similarity, clean, ballot in zip(
            self.neighbors, self.similarity, self.clean, self.ballots, strict=True
        ):
            believes = ", ".join(
                f"{label} {share:.2f}"
                for label, share in sorted(ballot.items(), key=lambda item: -item[1])
            )
            lines.append(f"{row:>8} {similarity:6.3f} {'clean' if clean else '     '}  {believes}")
        return "\n".join(lines)


def explain_votes(estimator, X, candidates) -> list[Explanation]:
    """Let the fitted estimator's voters vote on new rows, as in training."""
    explanations = []
    for start in range(0, len(X), _BLOCK):
        block = slice(start, start + _BLOCK)
        own = torch.ones(len(X[block]), len(estimator.classes_), dtype=torch.bool)
        if candidates is not None:
            own = torch.from_numpy(candidates[block].toarray())
        explanations += _explain_block(estimator, X[block], own)
    return explanations


def _explain_block(estimator, X, own) -> list[Explanation]:
    classes, net, voters = estimator.classes_, estimator.net_, estimator._voters
    directions = torch.from_numpy(net.directions(X, voters.calibration.neighbor_space))
    neighbors, similarity, votes = voters.vote_on(directions, own)
    keeps = check_loss(estimator.loss).confidences
    confidences = net.confidences(X, sp.csr_array(own.numpy()), keeps or candidate_confidences)
    confidences = confidences.toarray()
    weights = voters.calibration.weigh(torch.from_numpy(confidences) if keeps else None, own, votes)
    best, belief, is_clean = net.most_likely(X), voters.confidences, voters.is_clean
    explanations = []
    for i in range(len(X)):
        mine, who = own[i].numpy(), neighbors[i].numpy()
        ballots = [
            dict(zip(classes[row.indices].tolist(), row.data.tolist(), strict=True))
            for row in (belief[[position]] for position in who)
        ]
        explanations.append(
            Explanation(
                labels=classes[mine],
                confidences=confidences[i][mine],
                votes=votes[i].numpy()[mine],
                weights=weights[i].numpy()[mine],
                prediction=classes[best[i]],
                neighbors=voters.rows[who],
                similarity=similarity[i].numpy(),
                clean=is_clean[who],
                ballots=ballots,
            )
        )
    return explanations
