"""Candidates made from true labels, under the models of the literature."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state

from ..candidates import check_candidates
from ._bunch import check_columns, output_candidates
from ._by_group import BY_GROUP
from ._by_row import BY_ROW, cut_blocks

__all__ = ["make_candidates"]


def make_candidates(
    y,
    kind="uniform",
    *,
    flip_proba=0.1,
    clean_rate=None,
    noise=0.0,
    confusion=None,
    estimator=None,
    X=None,
    bag_size=(1, 5),
    scenes=0.0,
    n_types=None,
    groups=None,
    classes=None,
    as_frame=False,
    sparse_output=False,
    random_state=None,
):
    """Draw candidate sets around true labels.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        True labels.
    kind : {"uniform", "flip", "confusable", "instance", "bag", "dictionary"}, default="uniform"
        How wrong labels join, m being the number of classes:

        - "uniform": the set's size is j with probability C(m, j) / (2^m − 2), j = 1 … m − 1, and
          its j − 1 wrong labels are drawn uniformly (the protocol of Feng et al. 2020, as the
          image benchmarks use it: for m = 10 the mean size is 5).
        - "flip": each wrong label joins with probability ``flip_proba``.
        - "confusable": label k joins the set of a sample of class j with probability
          ``confusion[j, k]``; by default the next class joins with probability ``flip_proba``.
        - "instance": the labels that a classifier finds likely for the sample join. A wrong
          label's probability is ``flip_proba`` times the classifier's, divided by the mean of
          the classifier's over the sample's wrong labels, and at most one.
        - "bag": rows are grouped in bags, and the candidates of a row are the labels of all rows
          in its bag, like the names in a caption for the faces in a photo. This is how the
          candidates of most real data sets arise. See ``bag_size`` and ``scenes``.
        - "dictionary": similar rows form a type and share a set, like the occurrences of a word
          and the tags that a dictionary lists for it. The set holds the labels of all rows of the
          type, and each other label with probability ``flip_proba``. The better X tells the
          classes apart, the more often a type's most frequent label is the true one. See
          ``n_types``.
    flip_proba : float in [0, 1], default=0.1
        The (mean) probability of a wrong label, as said above. Not used by "uniform" and "bag".
    clean_rate : float in [0, 1], default=None
        The share of samples to be clean, that is, to have the true label as the only candidate.
        It is met exactly (to the nearest sample): so many samples drawn at random are clean, and
        the others follow ``kind`` given that at least one wrong label joins. If None, it is what
        ``kind`` gives.

        For "bag", each clean sample has a bag of its own. The bags of the others have at least
        two rows, and a bag with a single label is merged with the next one.

        For "dictionary", and wherever ``groups`` are given, a clean sample stays in its group:
        its label remains a candidate of the others. Samples whose group has a single label (and
        no wrong one) are clean in any case, and are counted first.
    noise : float in [0, 1], default=0.0
        The share of samples whose true label is *not* a candidate: in so many samples a wrong
        label takes its place, which leaves sizes as they are. (Where all labels are candidates
        the true one is just removed.) It is done row by row: the set of a noisy sample
        differs from that of its bag or type.
    confusion : array-like of shape (n_classes, n_classes), default=None
        Probabilities for "confusable"; the diagonal is not used.
    estimator : classifier with ``predict_proba``, default=None
        For "instance": a fitted classifier. If None, a logistic regression on standardised
        features is fitted to (X, y).
    X : array-like of shape (n_samples, n_features), default=None
        For "instance", and for "dictionary" unless ``groups`` are given: the features.
    bag_size : int or pair of int (smallest, largest), default=(1, 5)
        For "bag": the number of rows in a bag, fixed or drawn uniformly from smallest to largest.
        The last bag (with ``scenes``, the last one of each scene) may be smaller.
    scenes : float in [0, 1], default=0.0
        For "bag": how strongly labels occur together. The labels are divided at random into
        scenes of two or three, and each bag belongs to a scene. A row goes to a bag of its own
        label's scene with probability ``scenes``, and else to any bag: at 0 bags are drawn at
        random, at 1 all labels of a bag are from one scene. (Up to three labels are one scene.
        With ``clean_rate``, a scene whose rows have a single label is merged with another.)
    n_types : int, default=None
        For "dictionary": the number of types. Each is represented by a row drawn at random, and
        every row belongs to the type whose representative is nearest in standardised features;
        equal rows are of equal type. If None, a tenth of the number of samples.
    groups : array-like of shape (n_samples,), default=None
        For "bag" and "dictionary": the bag or type of each row, such as its photo or word.
        ``bag_size``, ``scenes`` and ``n_types`` are then not used.
    classes : array-like of shape (n_classes,), default=None
        The labels of the columns, which may include some that ``y`` never has. If None, the
        labels in ``y``, which must then be 0 … m − 1 unless ``as_frame`` is True.
    as_frame : bool, default=False
        Whether to return a DataFrame with the labels as column names.
    sparse_output : bool, default=False
        Whether to return a csr_array.
    random_state : int, RandomState instance or None, default=None
        What determines the draws. Pass an int for reproducible output.

    Returns
    -------
    S : {ndarray, csr_array, DataFrame} of shape (n_samples, n_classes), dtype bool
        The candidates.

    References
    ----------
    L. Feng et al. Provably consistent partial-label learning. NeurIPS 2020.

    N. Xu et al. Instance-dependent partial label learning. NeurIPS 2021.

    T. Cour, B. Sapp, B. Taskar. Learning from partial labels. JMLR 2011 (bags: faces in a scene).

    L. Liu, T. Dietterich. A conditional multinomial mixture model for superset label learning.
    NIPS 2012 (bags: birds in a recording, regions of a picture).

    B. Merialdo. Tagging English text with a probabilistic model. Computational Linguistics 1994
    (a dictionary).

    Examples
    --------
    >>> from sklearn_cleanse.datasets import make_candidates
    >>> S = make_candidates([0, 1, 2, 0], kind="flip", flip_proba=0.5, random_state=0)
    >>> S.shape
    (4, 3)
    >>> S[[0, 1, 2, 3], [0, 1, 2, 0]].all()
    np.True_

    Everybody in a photo is a candidate for each of its faces:

    >>> make_candidates([0, 1, 2, 0], kind="bag", groups=["p", "p", "q", "q"]).astype(int)
    array([[1, 1, 0],
           [1, 1, 0],
           [1, 0, 1],
           [1, 0, 1]])
    """
    classes, columns = _check_labels(y, classes, as_frame)
    for parameter, value in (("flip_proba", flip_proba), ("noise", noise), ("scenes", scenes)):
        _check_share(parameter, value)
    if clean_rate is not None:
        _check_share("clean_rate", clean_rate)
    if kind not in BY_ROW and kind not in BY_GROUP:
        known = ", ".join(map(repr, [*BY_ROW, *BY_GROUP]))
        raise ValueError(f"kind is {kind!r}; expected one of {known}")
    if groups is not None and kind in BY_ROW:
        raise ValueError(
            f"groups is given, but kind={kind!r} draws each row by itself; "
            f"use kind={' or '.join(map(repr, BY_GROUP))}"
        )
    rng = np.random.default_rng(check_random_state(random_state).randint(2**31, size=4))
    n_samples, n_classes = len(columns), len(classes)
    partial = clean_rate is not None
    is_clean = _choose(n_samples, clean_rate or 0.0, rng)
    is_noisy = _choose(n_samples, noise, rng)
    if kind in BY_GROUP:
        draw, is_clean = BY_GROUP[kind](
            columns,
            classes,
            is_clean,
            partial,
            rng,
            flip_proba=flip_proba,
            X=X,
            bag_size=bag_size,
            scenes=scenes,
            n_types=n_types,
            groups=groups,
        )
    else:
        draw = BY_ROW[kind](
            columns, classes, flip_proba=flip_proba, confusion=confusion, estimator=estimator, X=X
        )
    blocks = []
    for rows in cut_blocks(n_samples, n_classes):
        S = np.zeros((len(rows), n_classes), dtype=bool)
        drawn = ~is_clean[rows]
        if drawn.any():
            S[drawn] = draw(rows[drawn], partial, rng)
        S[np.arange(len(rows)), columns[rows]] = True
        _add_noise(S, columns[rows], is_noisy[rows], rng)
        blocks.append(sp.csr_array(S))
    candidates = sp.vstack(blocks, format="csr")
    return output_candidates(classes, candidates, sparse_output=sparse_output, as_frame=as_frame)


def _check_labels(y: Any, classes: Any, as_frame: bool) -> tuple[np.ndarray, np.ndarray]:
    y = np.asarray(y)
    if y.ndim != 1:
        raise ValueError(f"y has shape {y.shape}; expected one true label per sample, 1-D")
    if classes is not None:
        classes = np.asarray(classes)
        if classes.ndim != 1 or len(set(classes.tolist())) != len(classes):
            raise ValueError("classes holds a label twice; expected each label once, in a row")
        columns = check_candidates(y, classes=classes)[1].indices
        return classes, columns.astype(np.int64)
    classes, truth = check_candidates(y)
    check_columns(classes, as_frame)
    return classes, truth.indices.astype(np.int64)


def _check_share(parameter: str, value: Any) -> None:
    if not isinstance(value, Real) or not 0 <= value <= 1:
        raise ValueError(f"{parameter} is {value!r}; expected a number from 0 to 1")


def _choose(n_samples: int, share: float, rng: np.random.Generator) -> np.ndarray:
    chosen = np.zeros(n_samples, dtype=bool)
    chosen[rng.permutation(n_samples)[: round(share * n_samples)]] = True
    return chosen


def _add_noise(
    S: np.ndarray, columns: np.ndarray, noisy: np.ndarray, rng: np.random.Generator
) -> None:
    """Put a wrong label in the true one's place, in the rows given."""
    rows = np.flatnonzero(noisy)
    outside = ~S[rows]
    swap = outside.any(axis=1)
    stand_in = np.where(outside, rng.random(outside.shape), -1.0).argmax(axis=1)
    S[rows, columns[rows]] = False
    S[rows[swap], stand_in[swap]] = True
