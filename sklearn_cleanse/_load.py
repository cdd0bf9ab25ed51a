"""From a file to a fitted estimator."""

from __future__ import annotations

from ._model_file import ModelFile

__all__ = ["load"]

#: The estimators that a file may hold, and their rooms, which are entered when first asked for.
ESTIMATORS = {
    "CleanSEClassifier": "deep",
    "CleanSEKernelClassifier": "kernel",
    "DPCLSClassifier": "kernel",
    "PLCGRClassifier": "kernel",
    "PartialLabelClassifier": "deep",
}


def load(path, *, allow=(), device=None):
    """Load a model that an estimator's ``save`` has written.

    Nothing in the file is run: it holds numbers and names. A file that is damaged, of another
    format or of a later form, that lacks something or holds more than its estimator has, is
    refused. A module or loss of your own is kept as the name to import it by, and imported only
    if you allow that name.

    Parameters
    ----------
    path : str or path-like
        The file.
    allow : list of str, classes and functions, or dict, default=()
        What the file may refer to: import paths such as ``"mypackage.networks.Wide"``, or the
        classes and functions themselves. A dict maps paths in the file to these, for what has
        moved since.
    device : str, default=None
        Where the network goes, in place of the ``device`` it was saved with; one that is not here
        is refused. By default the latter, or the CPU if that is not here.

    Returns
    -------
    estimator : object
        The fitted estimator. Its predictions are those of the one saved, to the last bit on the
        same kind of machine.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn_cleanse import PartialLabelClassifier, load
    >>> X, y = [[0.0], [0.1], [0.9], [1.0]], [{"low"}, {"low", "high"}, {"low", "high"}, {"high"}]
    >>> clf = PartialLabelClassifier(max_epochs=20, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "model.safetensors")
    ...     _ = clf.save(path)
    ...     again = load(path)
    >>> bool((again.predict_proba(X) == clf.predict_proba(X)).all())
    True
    """
    try:
        file = ModelFile(path, allow)
        params = file.params()
        if device is not None and "device" in params:
            from ._device import choose_device  # which needs torch

            choose_device(device)
            params["device"] = device
        estimator = _make(file.estimator, params)
        estimator._restore(file)
        file.finish()
    except (ArithmeticError, MemoryError, RecursionError, RuntimeError, TypeError, ValueError) as e:
        raise ValueError(f"cannot load {path}: {e}") from e
    return estimator


def _make(name, params):
    if name not in ESTIMATORS:
        raise ValueError(f"it holds a {name!r:.80}, and the estimators are {', '.join(ESTIMATORS)}")
    if ESTIMATORS[name] == "deep":
        from . import deep as room
    else:
        from . import kernel as room
    cls = getattr(room, name)
    expected = set(cls._get_param_names())
    if set(params) != expected:
        wrong = ", ".join(sorted(expected ^ set(params))[:3])
        raise ValueError(f"its parameters are not those of this version's {name}: {wrong}")
    return cls(**params)
