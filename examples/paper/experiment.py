"""One run: fit an estimator on candidates, then measure it with what `fit` never saw."""

from __future__ import annotations

import platform
import re
import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from data import load_trial
from plan import Task, build, code_hash, describe_params, public_name, run_hash
from skorch.callbacks import Callback
from threadpoolctl import threadpool_limits
from torch.backends.cpu import get_cpu_capability

import sklearn_cleanse
from sklearn_cleanse import CleanSEClassifier, PartialLabelClassifier
from sklearn_cleanse.metrics import approximated_accuracy, covering_rate, disambiguation_accuracy

LAST_EPOCHS = 10


class LastEpochs(Callback):
    """Predictions of test rows after each of the last epochs. Training goes on as ever.

    Parameters
    ----------
    X : ndarray
        Test rows.
    every : bool
        Whether to predict after every epoch, as the last one is not known in advance.
    """

    def __init__(self, X, every):
        self.X, self.every = X, every

    def on_train_begin(self, net, **kwargs):
        self.log_proba_ = []

    def on_epoch_end(self, net, **kwargs):
        if self.every or len(net.history) > net.max_epochs - LAST_EPOCHS:
            self.log_proba_ = [*self.log_proba_, net.log_proba(self.X)][-LAST_EPOCHS:]


def run(task: Task, code: str | None = None) -> dict:
    """Do a task; return its result line. ``code`` is the hash of the sources, if it is known."""
    line = {name: getattr(task, name) for name in ("group", "dataset", "method", "setting", "seed")}
    line |= {"run": run_hash(task), "code": code or code_hash()}
    torch.set_num_threads(task.threads)
    with threadpool_limits(task.threads):
        where = {name: getattr(task, name) for name in ("train_size", "data_home", "download")}
        trial = load_trial(task.dataset, task.seed, **where)
        line |= _measure(build(task), trial)
    sizes = trial.S_train.sum(axis=1)
    return line | {
        "n_train": len(trial.X_train),
        "n_test": len(trial.X_test),
        "n_features": int(np.prod(trial.X_train.shape[1:])),
        "n_classes": trial.S_train.shape[1],
        "mean_candidates": float(sizes.mean()),
        "clean_rate": float((sizes == 1).mean()),
        "train_size": task.train_size,
        "threads": task.threads,
        "versions": _versions(),
        "machine": f"{platform.system()} {platform.machine()}",
        "cpu": {"capability": get_cpu_capability(), "model": _cpu_model()},
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _measure(estimator, trial) -> dict:
    line = {"estimator": public_name(type(estimator)), "params": describe_params(estimator)}
    ours = isinstance(estimator, PartialLabelClassifier)
    if ours:
        watch = LastEpochs(trial.X_test, estimator.early_stopping)
        estimator.set_params(callbacks=[*(estimator.callbacks or []), watch])
    with _peak_memory() as peak:
        began = time.perf_counter()
        try:
            estimator.fit(trial.X_train, trial.S_train)
        except MemoryError as error:
            if "max_memory" not in str(error):
                raise
            # an answer, too, and for good: a kernel method refuses data of this size
            return line | {"refused": str(error)}
        seconds = time.perf_counter() - began
    if ours:
        _check_finished(estimator)
    predicted = estimator.predict(trial.X_test)
    final = float((predicted == trial.y_test).mean())
    last = _last_accuracies(estimator, trial) if ours else [final]
    return line | {
        "accuracy_mean": float(np.mean(last)),
        "accuracy_sd": float(np.std(last)),
        "accuracy_final": final,
        "accuracy_last": last,
        "transductive": _transductive(estimator, trial),
        "covering_rate": covering_rate(trial.S_test, predicted),
        "approximated_accuracy": _approximated(estimator, trial),
        "epochs": getattr(estimator, "n_iter_", None) if ours else None,
        "scaling": getattr(estimator, "scaling_", None) if ours else None,
        "seconds": round(seconds, 3),
        "peak_memory_mb": peak["mb"],
    }


def _last_accuracies(estimator, trial) -> list[float]:
    """Score the model as it was after each of the last epochs, the kernel's say included."""
    callbacks = [callback for _, callback in estimator.net_.callbacks_]
    found = next(c for c in callbacks if isinstance(c, LastEpochs)).log_proba_
    if isinstance(estimator, CleanSEClassifier) and estimator._kernel_share():
        scores = estimator._kernel.scores(trial.X_test)
        found = [estimator._blend(log_proba, scores) for log_proba in found]
    return [float((log_proba.argmax(axis=1) == trial.y_test).mean()) for log_proba in found]


def _check_finished(estimator) -> None:
    short = estimator.n_iter_ < estimator.max_epochs and not estimator.early_stopping
    if short or estimator.interrupted_:
        raise RuntimeError(
            f"training ended after {estimator.n_iter_} of {estimator.max_epochs} epochs; an "
            "unfinished run is no result"
        )


def _transductive(estimator, trial):
    """Share of training rows whose true label was picked out of the candidates, if it can be."""
    proba = getattr(estimator, "candidate_proba_", None)
    if proba is None:
        if not hasattr(estimator, "predict_proba"):
            return None
        proba = estimator.predict_proba(trial.X_train)
    proba = proba.toarray() if hasattr(proba, "toarray") else proba
    return disambiguation_accuracy(trial.S_train, proba, trial.y_train)


def _approximated(estimator, trial):
    log = isinstance(estimator, PartialLabelClassifier)
    predict = getattr(estimator, "predict_log_proba" if log else "predict_proba", None)
    if predict is None:
        return None
    return approximated_accuracy(trial.S_test, predict(trial.X_test), log=log)


@contextmanager
def _peak_memory():
    """Measure the largest resident size while inside, in MB; None off Linux."""
    peak, process = {"mb": None}, Path("/proc/self")
    with suppress(OSError):
        (process / "clear_refs").write_text("5")  # start the mark anew
    yield peak
    with suppress(OSError, TypeError):
        mark = re.search(r"VmHWM:\s+(\d+)", (process / "status").read_text())
        peak["mb"] = round(int(mark[1]) / 1024, 1)


def _cpu_model() -> str | None:
    with suppress(OSError, TypeError):
        return re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())[1]
    return platform.processor() or None


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "sklearn_cleanse": sklearn_cleanse.__version__}
    packages = ("numpy", "scipy", "scikit-learn", "torch", "skorch")
    return found | {package: version(package) for package in packages}
