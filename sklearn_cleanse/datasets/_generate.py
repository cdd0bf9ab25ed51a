"""Candidates made from true labels, under the models of the literature."""

from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _num_samples

from ..candidates._labels import is_missing
from ..candidates._matrix import check_sparse
from ._labels import check_output, encode_labels
from ._sources import BY_GROUP, BY_ROW, Request, Rng, cut_blocks, share_sets


def make_candidates(
    y: Any,
    source: str = "uniform",
    *,
    flip_proba: float = 0.1,
    clean_rate: float | None = None,
    noise_rate: float = 0.0,
    confusion: Any = None,
    estimator: Any = None,
    X: Any = None,
    bag_size: Any = (1, 5),
    scenes: float = 0.0,
    n_types: int | None = None,
    groups: Any = None,
    classes: Any = None,
    as_frame: bool = False,
    sparse_output: bool = False,
    random_state: Any = None,
) -> Any:
    """Draw candidate sets around true labels.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        True labels.
    source : {"uniform", "flip", "class-dependent", "instance-dependent", "bag", "lexicon"}, \
            default="uniform"
        Where wrong candidates come from, m being the number of classes:

        - "uniform": the set's size is j with probability C(m, j) / (2^m − 2), j = 1 … m − 1, and
          its j − 1 wrong labels are drawn uniformly (the protocol of Feng et al. 2020, as the
          image benchmarks use it: for m = 10 the mean size is 5).
        - "flip": each wrong label joins with probability ``flip_proba``.
        - "class-dependent": label k joins the set of a sample of class j with probability
          ``confusion[j, k]``; by default the next class joins with probability ``flip_proba``.
        - "instance-dependent": the labels that a classifier finds likely for the sample join. A
          wrong label's probability is ``flip_proba`` times the classifier's, divided by the mean
          of the classifier's over the sample's wrong labels, and at most one.
        - "bag": rows are grouped in bags, and the candidates of a row are the labels of all rows
          in its bag, like the names in a caption for the faces in a photo. This is how the
          candidates of most real data sets arise. See ``bag_size`` and ``scenes``.
        - "lexicon": similar rows form a type and share a set, like the occurrences of a word
          and the tags that a dictionary lists for it. The set holds the labels of all rows of the
          type, and each other label with probability ``flip_proba``. The better X separates the
          classes, the more often a type's most frequent label is the true one. See ``n_types``.
    flip_proba : float in [0, 1], default=0.1
        The (mean) probability of a wrong label, as described above. Not used by "uniform" and
        "bag".
    clean_rate : float in [0, 1], default=None
        The proportion of clean samples, which have the true label as the only candidate. It is met
        exactly (to the nearest sample): so many samples drawn at random are clean, and the others
        follow ``source`` given that at least one wrong label joins. If None, it is what ``source``
        gives.

        For "bag", each clean sample has a bag of its own. The bags of the others have at least
        two rows, and a bag with a single label is merged with the next one.

        For "lexicon", and wherever ``groups`` are given, a clean sample stays in its group:
        its label remains a candidate of the others. Samples whose group has a single label (and
        no wrong one) are clean in any case, and are counted first.
    noise_rate : float in [0, 1], default=0.0
        The proportion of samples whose true label is *not* a candidate: in so many samples a wrong
        label takes its place, which leaves sizes as they are. (Where all labels are candidates
        the true one is just removed.) It is done row by row: the set of a noisy sample
        differs from that of its bag or type.
    confusion : array-like of shape (n_classes, n_classes), default=None
        Probabilities for "class-dependent"; the diagonal is not used. With any other source,
        ``confusion`` raises, as do ``estimator`` and ``n_types`` where they are not used.
    estimator : classifier with ``predict_proba``, default=None
        For "instance-dependent": a fitted classifier. If None, a logistic regression on
        standardized features is fitted to (X, y).
    X : array-like of shape (n_samples, n_features), default=None
        For "instance-dependent", and for "lexicon" unless ``groups`` are given: the features. Other
        sources ignore X.
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
        For "lexicon": the number of types. Each is represented by a row drawn at random, and
        every row belongs to the type whose representative is nearest in standardized features;
        equal rows are of equal type. If None, a tenth of the number of samples.
    groups : array-like of shape (n_samples,), default=None
        For "bag" and "lexicon": the bag or type of each row, such as its photo or word.
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
    (a lexicon).

    Examples
    --------
    >>> from sklearn_cleanse.datasets import make_candidates
    >>> S = make_candidates([0, 1, 2, 0], "flip", flip_proba=0.5, random_state=0)
    >>> S.shape
    (4, 3)
    >>> S[[0, 1, 2, 3], [0, 1, 2, 0]].all()
    np.True_

    Everybody in a photo is a candidate for each of its faces:

    >>> make_candidates([0, 1, 2, 0], "bag", groups=["p", "p", "q", "q"]).astype(int)
    array([[1, 1, 0],
           [1, 1, 0],
           [1, 0, 1],
           [1, 0, 1]])
    """
    labels, columns = _read_truth(y, classes, as_frame)
    check_rates(flip_proba=flip_proba, noise_rate=noise_rate, scenes=scenes)
    check_rates(clean_rate=0.0 if clean_rate is None else clean_rate)
    if source not in (known := [*BY_ROW, *BY_GROUP]):
        raise ValueError(f"`source` must be one of {', '.join(map(repr, known))}, got {source!r}.")
    if groups is not None and source in BY_ROW:
        raise ValueError(f'`source` must be "bag" or "lexicon" with `groups`, got {source!r}.')
    of = {"class-dependent": confusion, "instance-dependent": estimator, "lexicon": n_types}
    for other in of.keys() - {source}:
        if of[other] is not None:
            raise ValueError(f"Options of source={other!r} must be None with source={source!r}.")
    for name, values in (("X", X), ("groups", groups)):
        if isinstance(values, np.ma.MaskedArray):
            raise ValueError(f"`{name}` must not be masked. Fill or drop what is missing.")
    X = check_sparse(X, "X") if sp.issparse(X) else X
    needs_X = source == "instance-dependent" or (source == "lexicon" and groups is None)
    if needs_X and (n_rows := 0 if X is None else _num_samples(X)) != len(columns):
        raise ValueError(f"`X` must have {len(columns)} rows for source={source!r}, got {n_rows}.")
    n_samples, n_classes = len(columns), len(labels)
    check_output(n_samples, n_classes, sparse_output, as_frame)
    rng = np.random.default_rng(check_random_state(random_state).randint(2**31, size=4))
    is_clean = _choose(n_samples, clean_rate or 0.0, rng)
    is_noisy = _choose(n_samples, noise_rate, rng)
    options = (flip_proba, confusion, estimator, X, bag_size, scenes, n_types, groups)
    request = Request(columns, labels, is_clean, clean_rate is not None, rng, *options)
    if source in BY_ROW:
        draw = BY_ROW[source](request)
    else:
        draw, is_clean = share_sets(source, request)
    blocks: list[Any] = []
    for rows in cut_blocks(n_samples, n_classes):
        S = np.zeros((len(rows), n_classes), dtype=bool)
        drawn = ~is_clean[rows]
        if drawn.any():
            S[drawn] = draw(rows[drawn], request.partial)
        S[np.arange(len(rows)), columns[rows]] = True
        _add_noise(S, columns[rows], is_noisy[rows], rng)
        blocks.append(sp.csr_array(S) if sparse_output else S)
    S = sp.vstack(blocks, format="csr") if sparse_output else np.vstack(blocks)
    return pd.DataFrame(S, columns=pd.Index(labels, tupleize_cols=False)) if as_frame else S


def check_rates(**rates: Any) -> None:
    """Raise ValueError if a parameter is not a proportion or probability."""
    for name, value in rates.items():
        if not isinstance(value, Real) or not 0 <= np.clip(np.array(value), -1, 2) <= 1:
            raise ValueError(f"`{name}` must be a number from 0 to 1, got {value!r:.80}.")


def _read_truth(y: Any, classes: Any, as_frame: bool) -> tuple[list[Any], np.ndarray]:
    """Return the labels of the columns, and the column of each row's true label."""
    y = np.ma.asarray(y)  # what is masked has no label
    if y.ndim != 1 or not len(y):
        raise ValueError(f"`y` must hold one true label per sample, got shape {y.shape}.")
    truth = y.tolist()
    missing = [row for row, label in enumerate(truth) if is_missing(label)]
    if missing:
        raise ValueError(f"`y` must hold one true label per sample, got none in row {missing[0]}.")
    if y.dtype.kind == "f":
        check_classification_targets(np.asarray(y))
    labels, columns = encode_labels(truth, classes, "y", "in row {}".format)
    if classes is None and not as_frame and labels != list(range(len(labels))):
        last = labels[-1] + 1 if isinstance(labels[-1], int) else "n_classes"
        raise ValueError(
            f"`y` must hold the labels 0, 1, 2, …, to make a plain matrix, got {labels[:9]}. "
            f"Pass as_frame=True, or `classes`, such as range({last})."
        )
    return labels, columns


def _choose(n_samples: int, rate: float, rng: Rng) -> np.ndarray:
    chosen = np.zeros(n_samples, dtype=bool)
    chosen[rng.permutation(n_samples)[: round(rate * n_samples)]] = True
    return chosen


def _add_noise(S: np.ndarray, columns: np.ndarray, is_noisy: np.ndarray, rng: Rng) -> None:
    """Put a wrong label in the true one's place, in the rows given."""
    rows = np.flatnonzero(is_noisy)
    outside = ~S[rows]
    swap = outside.any(axis=1)
    stand_in = np.where(outside, rng.random(outside.shape), -1.0).argmax(axis=1)
    S[rows, columns[rows]] = False
    S[rows[swap], stand_in[swap]] = True
