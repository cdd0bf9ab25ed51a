"""The field's real data sets, by name."""

from __future__ import annotations

from pathlib import Path

from sklearn.model_selection import KFold
from sklearn.utils import Bunch

from ._catalogue import PLL_SETS, PLLSet, find_record, names_of
from ._fetch import clear_stale, data_folder, download, find_file, verify
from ._mat import read_mat

__all__ = ["fetch_pll", "load_pll"]


def fetch_pll(
    name,
    *,
    data_home=None,
    download_if_missing=True,
    return_X_S_y=False,
    as_frame=False,
    sparse_output=False,
):
    """Return a real partial-label data set; download it if needed.

    =================  =======  ========  =======  ===============
    name               samples  features  classes  mean candidates
    =================  =======  ========  =======  ===============
    "lost"                1122       108       16             2.23
    "birdsong"            4998        38       13             2.18
    "msrcv2"              1758        48       23             3.16
    "soccer_player"      17472       279      171             2.09
    "yahoo_news"         22991       163      219             1.91
    "fg_net"              1002       262       78             7.48
    =================  =======  ========  =======  ===============

    The file is looked for in ``data_home`` and its subfolder ``pll``, and if it is in neither, it
    is downloaded once, from a public copy pinned to a commit. Its checksum is compared at each
    call, so that a file that was damaged later is not used either. The data may be used
    for academic purposes only; see ``DESCR``.

    ``load_pll`` is another name for this function.

    Parameters
    ----------
    name : str
        The data set's name; case, spaces and punctuation do not matter.
    data_home : str or path-like, default=None
        The folder with the data. If None, the environment variable SKLEARN_CLEANSE_DATA names it,
        and if that is not set, it is scikit-learn's data home, usually ``~/scikit_learn_data``.
    download_if_missing : bool, default=True
        Whether a missing file is downloaded. If False, it is an error that says which file to put
        where.
    return_X_S_y : bool, default=False
        Whether to return ``(data, candidates, target)`` instead of a Bunch.
    as_frame : bool, default=False
        Whether data, candidates and target are pandas objects, and ``frame`` holds them all.
    sparse_output : bool, default=False
        Whether the candidates are a csr_array, which suits the sets with many classes.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        With these entries, or, if ``return_X_S_y`` is True, the first three as a tuple:

        data : {ndarray, DataFrame} of shape (n_samples, n_features)
            The features, in the file's own scale.
        candidates : {ndarray, csr_array, DataFrame} of shape (n_samples, n_classes), dtype bool
            The candidates.
        target : {ndarray, Series} of shape (n_samples,)
            True labels, 0 to n_classes − 1. They are for scoring, not for fitting.
        frame : DataFrame or None
            Everything in one table; only if ``as_frame`` is True.
        cv : list of (train, test) index arrays
            Five folds: those in the file or, as PALM's files store none, those of the
            five-fold files in circulation, ``KFold(5, shuffle=True, random_state=0)``. The clean
            rates that are usually published are those of the first one's training part.
        feature_names, target_names : list of str, ndarray of str
            Names of the columns of data and candidates.
        layout, filename, DESCR : str
            The file's layout and path; what the data are, and their terms of use.

    Raises
    ------
    ValueError
        If there is no such data set, or the file found is damaged or another one.
    FileNotFoundError
        If the file is missing and ``download_if_missing`` is False.
    OSError
        If the download fails, or its result is not the expected file.

    Examples
    --------
    ``X, S, y = fetch_pll("lost", return_X_S_y=True)`` is all it takes. A wrong name is answered
    with the right one:

    >>> from sklearn_cleanse.datasets import fetch_pll
    >>> fetch_pll("losst")
    Traceback (most recent call last):
    ...
    ValueError: name is 'losst', which is no known data set; did you mean 'lost'? Known: ...
    """
    key, record = find_record(name, PLL_SETS)
    path = _locate(key, record, data_home, download_if_missing)
    try:
        verify(path, record)
        bunch = read_mat(path, as_frame=as_frame, sparse_output=sparse_output)
        _check_shape(bunch, record)
    except ValueError as error:
        raise ValueError(
            f"{str(path)!r} is not {record.title}, or is damaged: {error}. Remove this file, and "
            "the next call downloads it again; if it is another version, read it with read_mat"
        ) from error
    if bunch.cv is None:
        bunch.cv = list(KFold(5, shuffle=True, random_state=0).split(bunch.data))
    bunch.DESCR = _describe(record)
    return (bunch.data, bunch.candidates, bunch.target) if return_X_S_y else bunch


load_pll = fetch_pll


def _locate(key: str, record: PLLSet, data_home, download_if_missing: bool) -> Path:
    home = data_folder(data_home)
    clear_stale(home / "pll")
    path = find_file((home, home / "pll"), names_of(key, record), (".mat",))
    if path is not None:
        return path
    target = home / "pll" / record.filename
    if not download_if_missing:
        raise FileNotFoundError(
            f"{record.title} is not there: put the file {record.filename!r} into "
            f"{str(target.parent)!r}, pass the data_home it is in, or download_if_missing=True"
        )
    return download(record, target, lambda part: _check_shape(read_mat(part), record))


def _check_shape(bunch: Bunch, record: PLLSet) -> None:
    shape = (*bunch.data.shape, bunch.candidates.shape[1])
    if shape != record.shape or bunch.target is None:
        raise ValueError(
            f"this is not {record.title}: samples, features and classes are {shape}, expected "
            f"{record.shape} and true labels"
        )


def _describe(record: PLLSet) -> str:
    n_samples, n_features, n_classes = record.shape
    verified = "checksum" if record.digest else "pinned commit and shape; no checksum is published"
    return (
        f"{record.title}\n\n{record.about}\n\n"
        f"Samples: {n_samples}. Features: {n_features}. Classes: {n_classes}.\n\n"
        f"Paper: {record.citation}\n\nTerms of use: {record.terms}\n\n"
        f"Downloads are verified by {verified}.\n"
    )
