"""One run: fit an estimator on candidates, then measure it with what `fit` never saw."""

from __future__ import annotations

import platform
import sys
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

import numpy as np
import torch
from data import load_trial
from plan import Task, build, code_hash, describe_params, public_name, run_hash
from skorch.callbacks import Callback
from threadpoolctl import threadpool_limits
from torch.backends.cpu import get_cpu_capability

import sklearn_cleanse
from sklearn_cleanse import PartialLabelClassifier
from sklearn_cleanse.metrics import approximated_accuracy, covering_rate, disambiguation_accuracy

LAST_EPOCHS = 10


class LastEpochs(Callback):
    """Accuracy on test rows after each of the last epochs. It only looks: training goes on as ever.

    Parameters
    ----------
    X, y : ndarray
        Test rows, and the columns of their true labels.
    every : bool
        Whether to look after every epoch, as the last one is not known in advance.
    """

    def __init__(self, X, y, every):
        self.X, self.y, self.every = X, y, every

    def on_train_begin(self, net, **kwargs):
        self.accuracies_ = []

    def on_epoch_end(self, net, **kwargs):
        if self.every or len(net.history) > net.max_epochs - LAST_EPOCHS:
            predicted = net.most_likely(self.X)
            self.accuracies_.append(float((predicted == self.y).mean()))


def run(task: Task) -> dict:
    """Do a task; return its result line."""
    line = {
        "group": task.group,
        "dataset": task.dataset,
        "method": task.method,
        "setting": task.setting,
        "seed": task.seed,
        "run": run_hash(task),
        "code": code_hash(),
    }
    torch.set_num_threads(task.threads)
    with threadpool_limits(task.threads):
        trial = load_trial(
            task.dataset,
            task.seed,
            train_size=task.train_size,
            data_home=task.data_home,
            download=task.download,
        )
        line |= _measure(build(task), trial)
    return line | {
        "n_train": len(trial.X_train),
        "n_test": len(trial.X_test),
        "n_features": int(np.prod(trial.X_train.shape[1:])),
        "n_classes": trial.S_train.shape[1],
        "mean_candidates": float(trial.S_train.sum(axis=1).mean()),
        "clean_rate": float((trial.S_train.sum(axis=1) == 1).mean()),
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
        watch = LastEpochs(trial.X_test, trial.y_test, estimator.early_stopping)
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
    predicted = estimator.predict(trial.X_test)
    final = float((predicted == trial.y_test).mean())
    last = [final]
    if ours:
        callbacks = [callback for _, callback in estimator.net_.callbacks_]
        last = next(c for c in callbacks if isinstance(c, LastEpochs)).accuracies_[-LAST_EPOCHS:]
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


def _transductive(estimator, trial):
    """Share of training rows whose true label was picked out of the candidates, if it can be."""
    if hasattr(estimator, "candidate_proba_"):
        proba = estimator.candidate_proba_
        proba = proba.toarray() if hasattr(proba, "toarray") else proba
    elif hasattr(estimator, "predict_proba"):
        proba = estimator.predict_proba(trial.X_train)
    else:
        return None
    return disambiguation_accuracy(trial.S_train, proba, trial.y_train)


def _approximated(estimator, trial):
    if isinstance(estimator, PartialLabelClassifier):
        return approximated_accuracy(
            trial.S_test, estimator.predict_log_proba(trial.X_test), log=True
        )
    if hasattr(estimator, "predict_proba"):
        return approximated_accuracy(trial.S_test, estimator.predict_proba(trial.X_test))
    return None


@contextmanager
def _peak_memory():
    """Measure the largest resident size while inside; off Linux, that of the process so far."""
    peak = {"mb": None}
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # start the mark anew
    except OSError:
        pass
    yield peak
    try:
        with open("/proc/self/status") as file:
            mark = next(row for row in file if row.startswith("VmHWM"))
        peak["mb"] = round(int(mark.split()[1]) / 1024, 1)
    except (OSError, StopIteration):
        import resource

        unit = 2**20 if sys.platform == "darwin" else 2**10
        peak["mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit, 1)


def _cpu_model() -> str | None:
    try:
        with open("/proc/cpuinfo") as file:
            row = next(row for row in file if row.startswith("model name"))
        return row.partition(":")[2].strip()
    except (OSError, StopIteration):
        return platform.processor() or None


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "sklearn_cleanse": sklearn_cleanse.__version__}
    for package in ("numpy", "scipy", "scikit-learn", "torch", "skorch"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "unknown"
    return found
