"""Toy problems and long-tailed versions of real ones."""

from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.datasets import make_classification
from sklearn.utils import check_random_state

from ._generate import check_rates, make_candidates

#: Most tags of a word.
_MOST_TAGS = 6


def make_partial_classification(
    n_samples: int = 100,
    n_features: int = 20,
    n_classes: int = 4,
    *,
    source: str = "flip",
    flip_proba: float = 0.3,
    clean_rate: float | None = None,
    noise_rate: float = 0.0,
    imbalance: float = 1.0,
    class_sep: float = 1.0,
    sparse_output: bool = False,
    random_state: Any = None,
) -> tuple[np.ndarray, Any, np.ndarray]:
    """Make a toy problem: one Gaussian cluster per class, and candidates around the truth.

    Parameters
    ----------
    n_samples : int, default=100
        Samples.
    n_features : int, default=20
        Features. The informative ones are half of them, or as many as the classes need; the
        others are noise.
    n_classes : int, default=4
        Classes.
    source : {"uniform", "flip", "class-dependent", "instance-dependent", "bag", "lexicon"}, \
            default="flip"
        Where wrong candidates come from; see `make_candidates`, which has further options for
        some sources.
    flip_proba : float in [0, 1], default=0.3
        The (mean) probability of a wrong label.
    clean_rate : float in [0, 1], default=None
        The proportion of samples with a single candidate; what ``source`` gives if None.
    noise_rate : float in [0, 1], default=0.0
        The proportion of samples whose true label is not a candidate.
    imbalance : float, default=1.0
        How many times larger the first class is than the last; sizes fall geometrically.
    class_sep : float, default=1.0
        How far the clusters lie apart.
    sparse_output : bool, default=False
        Whether the candidates are a csr_array.
    random_state : int, RandomState instance or None, default=None
        What determines the draws. Pass an int for reproducible output.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        Features.
    S : {ndarray, csr_array} of shape (n_samples, n_classes), dtype bool
        Candidates.
    y : ndarray of shape (n_samples,)
        True labels.

    Examples
    --------
    >>> from sklearn_cleanse.datasets import make_partial_classification
    >>> X, S, y = make_partial_classification(clean_rate=0.2, random_state=0)
    >>> X.shape, S.shape
    ((100, 20), (100, 4))
    >>> int((S.sum(axis=1) == 1).sum())
    20
    """
    _check_least(2, n_classes=n_classes)
    n_informative = max(n_features // 2, int(np.ceil(np.log2(n_classes))))
    if n_informative > n_features:
        least = f"{n_informative} for {n_classes} classes"
        raise ValueError(f"`n_features` must be at least {least}, got {n_features!r}.")
    rng = check_random_state(random_state)
    sizes: Any = {"n_informative": n_informative, "n_redundant": 0, "n_classes": n_classes}
    sizes |= {"n_clusters_per_class": 1, "flip_y": 0.0, "weights": _tail(n_classes, imbalance)}
    sizes["class_sep"] = class_sep
    X, y = make_classification(n_samples, n_features, random_state=rng, **sizes)
    rates: Any = {"flip_proba": flip_proba, "clean_rate": clean_rate, "noise_rate": noise_rate}
    known: Any = {"X": X, "classes": range(n_classes), "sparse_output": sparse_output}
    return X, make_candidates(y, source, random_state=rng, **rates, **known), y


def make_lexicon(
    n_samples: int = 1000,
    n_classes: int = 8,
    *,
    n_types: int = 300,
    n_features: int = 60,
    dominance: float = 0.8,
    imbalance: float = 20.0,
    random_state: Any = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Make a tagging problem: words in context, with all the tags that each word may have.

    Frequencies of words fall as 1/rank. A word has one to six tags, half of the words one;
    frequent tags are tags of many words. All features are binary: half of them are the
    word's form, which resembles that of words with the same dominant tag; the others are its
    context, and depend on the row's tag.

    Parameters
    ----------
    n_samples : int, default=1000
        Samples: words in context.
    n_classes : int, default=8
        Tags.
    n_types : int, default=300
        Words.
    n_features : int, default=60
        Features: form and context.
    dominance : float in [0, 1], default=0.8
        How often a word with several tags has its dominant one; the others are equally frequent.
    imbalance : float, default=20.0
        How many times likelier the first tag is than the last to be a tag of a word.
    random_state : int, RandomState instance or None, default=None
        What determines the draws. Pass an int for reproducible output.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        Features, 0 or 1.
    S : ndarray of shape (n_samples, n_classes), dtype bool
        Candidates: the tags of each row's word.
    y : ndarray of shape (n_samples,)
        True labels.

    Examples
    --------
    >>> from sklearn_cleanse.datasets import make_lexicon
    >>> X, S, y = make_lexicon(n_samples=500, random_state=0)
    >>> X.shape, S.shape, int(S.sum(axis=1).max())
    ((500, 60), (500, 8), 6)
    >>> bool(S[range(500), y].all())
    True
    """
    _check_least(1, n_samples=n_samples, n_types=n_types)
    _check_least(2, n_classes=n_classes, n_features=n_features)
    check_rates(dominance=dominance)
    rng = check_random_state(random_state)
    # The first ones of a random order that prefers frequent tags.
    order = np.argsort(rng.exponential(size=(n_types, n_classes)) / _tail(n_classes, imbalance))
    n_tags = np.minimum(rng.geometric(0.5, size=n_types), min(_MOST_TAGS, n_classes))
    frequency = 1 / np.arange(1.0, n_types + 1)
    words = rng.choice(n_types, n_samples, p=frequency / frequency.sum())
    others = 1 + np.floor(rng.uniform(size=n_samples) * (n_tags[words] - 1)).astype(int)
    is_other = (n_tags[words] > 1) & (rng.uniform(size=n_samples) >= dominance)
    y = order[words, np.where(is_other, others, 0)]
    S = np.zeros((n_types, n_classes), dtype=bool)
    np.put_along_axis(S, order, np.arange(n_classes) < n_tags[:, None], axis=1)
    rates = rng.beta(0.5, 1.0, size=(2, n_classes, n_features))  # of form and context features
    n_form = n_features // 2
    form = rng.uniform(size=(n_types, n_form)) < rates[0][order[:, 0], :n_form]
    context = rng.uniform(size=(n_samples, n_features - n_form)) < rates[1][y, n_form:]
    return np.hstack([form[words], context]).astype(float), S[words], y


def long_tail_rows(y: Any, imbalance: float, *, random_state: Any = None) -> np.ndarray:
    """Choose rows so that class sizes fall geometrically: a long-tailed version of a data set.

    Choose the rows first and draw candidates for them afterwards, by any source of
    `make_candidates`: then rare classes are rare in bags and lexicons as well.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        True labels.
    imbalance : float
        How many times larger the first class (in the order of the labels) is than the last.
    random_state : int, RandomState instance or None, default=None
        What determines the draws. Pass an int for reproducible output.

    Returns
    -------
    rows : ndarray of shape (n_chosen,), dtype int
        The rows chosen, in ascending order. The first class keeps as many rows as the proportions
        allow.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cleanse.datasets import long_tail_rows
    >>> y = np.repeat([0, 1, 2], 100)
    >>> np.bincount(y[long_tail_rows(y, imbalance=4, random_state=0)])
    array([100,  50,  25])

    Any source of candidates can follow:

    >>> from sklearn_cleanse.datasets import make_candidates
    >>> y = y[long_tail_rows(y, imbalance=4, random_state=0)]
    >>> S = make_candidates(y, "bag", clean_rate=0.2, random_state=0)
    >>> S.shape, int((S.sum(axis=1) == 1).sum())
    ((175, 3), 35)
    """
    rng = check_random_state(random_state)
    labels, columns = np.unique(np.asarray(y), return_inverse=True)
    proportions = _tail(len(labels), imbalance)
    sizes = np.bincount(columns)
    wanted = np.maximum(1, np.round((sizes / proportions).min() * proportions)).astype(int)
    chosen = [rng.permutation(np.flatnonzero(columns == j))[:n] for j, n in enumerate(wanted)]
    return np.sort(np.concatenate(chosen))


def _check_least(least: int, **params: Any) -> None:
    for name, value in params.items():
        if not isinstance(value, Integral) or int(value) < least:
            raise ValueError(f"`{name}` must be an integer of at least {least}, got {value!r}.")


def _tail(n_classes: int, imbalance: Any) -> np.ndarray:
    if not isinstance(imbalance, Real) or not 1 <= float(imbalance) < np.inf:
        raise ValueError(f"`imbalance` must be a number of at least 1, got {imbalance!r}.")
    proportions = float(imbalance) ** -np.linspace(0, 1, n_classes)
    return np.asarray(proportions / proportions.sum())
