"""The field's real data sets, by name."""

import os
from typing import Any

from sklearn.model_selection import KFold

from ._catalogue import PALM_TERMS, find_record, names_of
from ._fetch import clear_stale, data_folder, download, find_file, verify
from ._mat import read_mat


def fetch_pll(
    name: str,
    *,
    data_home: str | os.PathLike[str] | None = None,
    download_if_missing: bool = True,
    return_X_S_y: bool = False,
    as_frame: bool = False,
    sparse_output: bool = False,
) -> Any:
    """Return a real partial-label data set; download it if it is missing.

    =================  =======  ========  =======  ===============
    name               samples  features  classes  mean candidates
    =================  =======  ========  =======  ===============
    "lost"                1122       108       16             2.23
    "birdsong"            4998        38       13             2.18
    "msrcv2"              1758        48       23             3.16
    "soccer_player"      17472       279      171             2.09
    "yahoo_news"         22991       163      219             1.91
    =================  =======  ========  =======  ===============

    The file is looked for in ``data_home`` and its subfolder ``pll``. If it is in neither, it is
    downloaded once, from a public copy pinned to a commit. Its digest is compared at each call, so
    that a file that was damaged later is not used either. The data may be used for academic
    purposes only; see ``DESCR``.

    Parameters
    ----------
    name : str
        The data set's name; case, spaces and punctuation do not matter.
    data_home : str or path-like, default=None
        The folder with the data. If None, the environment variable SKLEARN_CLEANSE_DATA names it,
        and if that is not set, it is scikit-learn's data home, usually ``~/scikit_learn_data``.
    download_if_missing : bool, default=True
        Whether to download a missing file. If False, a missing file raises an error that names
        the file and its folder.
    return_X_S_y : bool, default=False
        Whether to return ``(data, candidates, target)`` instead of a Bunch.
    as_frame : bool, default=False
        Whether data, candidates and target are pandas objects, and ``frame`` holds them all.
    sparse_output : bool, default=False
        Whether the candidates are a csr_array.

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
            rates that are usually published are those of the first fold's training part.
        feature_names, target_names : list of str, ndarray of str
            Names of the columns of data and candidates.
        layout, filename, DESCR : str
            The file's layout and path; what the data are, and their terms of use.

    Raises
    ------
    ValueError
        If the name is unknown, or the file found is damaged or another one.
    FileNotFoundError
        If the file is missing and ``download_if_missing`` is False.
    OSError
        If the download fails, or its result is not the expected file.

    Examples
    --------
    ``X, S, y = fetch_pll("lost", return_X_S_y=True)`` is all it takes.

    >>> from sklearn_cleanse.datasets import fetch_pll
    >>> fetch_pll("losst")
    Traceback (most recent call last):
    ...
    ValueError: `name` must be one of 'lost', ..., got 'losst'. Did you mean 'lost'?
    """
    key, record = find_record(name, "pll")
    home = data_folder(data_home)
    clear_stale(home / "pll")
    path = find_file((home, home / "pll"), {f"{known}mat" for known in names_of(key, record)})
    target = home / "pll" / record["filename"]
    if path is None and not download_if_missing:
        remedy = f"Put the file {target.name!r} into {str(target.parent)!r}"
        raise FileNotFoundError(f"{record['title']} is missing. {remedy}, or download it.")
    path = path or download(record, target)
    try:
        verify(path, record)
    except ValueError as error:
        raise ValueError(
            f"{str(path)!r} is not {record['title']}, or is damaged: {error}. Remove the file, and "
            "the next call downloads it again. If it is another version, read it with `read_mat`."
        ) from error
    bunch = read_mat(path, as_frame=as_frame, sparse_output=sparse_output)
    if bunch.cv is None:
        bunch.cv = list(KFold(5, shuffle=True, random_state=0).split(bunch.data))
    n_samples, n_features, n_classes = record["shape"]
    bunch.DESCR = (
        f"{record['title']}\n\n{record['about']}\n\n"
        f"Samples: {n_samples}. Features: {n_features}. Classes: {n_classes}.\n\n"
        f"Paper: {record['citation']}\n\nTerms of use: {PALM_TERMS}\n"
    )
    return (bunch.data, bunch.candidates, bunch.target) if return_X_S_y else bunch
