"""One run: fit an estimator on candidates, then measure it with what `fit` never saw."""

import os
import platform
import re
import subprocess
import threading
import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from data import load_trial
from plan import GROUPS, Task, build, code_hash, describe_params, run_hash
from skorch.callbacks import Callback
from threadpoolctl import threadpool_limits

import sklearn_cleanse
from sklearn_cleanse import PartialLabelClassifier
from sklearn_cleanse.metrics import disambiguation_accuracy, expected_calibration_error

LAST_EPOCHS = 10
_HERE = Path(__file__).resolve().parent


class LastEpochs(Callback):
    """Predict the test rows after each of the last epochs. Training goes on unchanged.

    Parameters
    ----------
    X : ndarray
        Test rows.
    """

    def __init__(self, X):
        self.X = X

    def on_train_begin(self, net, **kwargs):
        self.predicted_ = []

    def on_epoch_end(self, net, dataset_train=None, **kwargs):
        if len(net.history) > net.max_epochs - LAST_EPOCHS:
            parts = (dataset_train.scaler(X).float() for X in torch.from_numpy(self.X).split(1000))
            logits = torch.cat([net.outputs(part)[0].mean(dim=1) for part in parts])
            self.predicted_.append(logits.argmax(dim=1).numpy())


def attempt(task: Task, parent: int | None = None, **options) -> tuple[Task, dict | None, str]:
    """Do a task in any process; what it raises becomes a text and does not end the others."""
    if parent not in (None, os.getpid()):
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    try:
        return task, run(task, **options), ""
    except (Exception, SystemExit) as error:
        return task, None, f"{type(error).__name__}: {error}"


def _end_with(parent: int) -> None:
    """End this process when the runner is gone, as its result would be lost."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def run(task: Task, *, threads=1, data_home=None, download=False) -> dict:
    """Do a task; return its result line."""
    line = {name: getattr(task, name) for name in Task._fields if name != "params"}
    torch.set_num_threads(threads)
    with threadpool_limits(threads):
        options = {"train_size": task.train_size, "data_home": data_home, "download": download}
        trial = load_trial(task.dataset, task.seed, **options)
        line |= {"run": run_hash(task)} | _measure(task, trial)
    sizes = trial.S_train.sum(axis=1)
    return line | {
        "n_train": len(trial.X_train),
        "n_test": len(trial.X_test),
        "n_features": int(np.prod(trial.X_train.shape[1:])),
        "n_classes": trial.S_train.shape[1],
        "mean_candidates": float(sizes.mean()),
        "clean_rate": float((sizes == 1).mean()),
        "command": command_of(task),
        "commit": commit(),
        "code": code_hash(),
        "versions": _versions(),
        "threads": threads,
        "cpu": [platform.machine(), torch.backends.cpu.get_cpu_capability(), _cpu_model()],
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _measure(task, trial) -> dict:
    estimator = build(task)
    line = {"estimator": type(estimator).__qualname__, "params": describe_params(estimator)}
    is_network = isinstance(estimator, PartialLabelClassifier)
    # The schedule of our recipe ends at a rate of zero: there the final model is what counts.
    is_watched = is_network and GROUPS[task.group].last and task.method != "cleanse"
    if is_watched:
        estimator.set_params(callbacks=[("last_epochs", LastEpochs(trial.X_test))])
    with _peak_memory() as peak:
        began = time.perf_counter()
        estimator.fit(trial.X_train, trial.S_train)
        seconds = time.perf_counter() - began
    if is_network and estimator.n_iter_ < estimator.max_epochs and not estimator.early_stopping:
        raise RuntimeError(f"training ended after {estimator.n_iter_} epochs")
    line |= {"accuracy": float((estimator.predict(trial.X_test) == trial.y_test).mean())}
    if is_watched:
        last = dict(estimator.net_.callbacks_)["last_epochs"].predicted_
        found = [float((predicted == trial.y_test).mean()) for predicted in last]
        line |= {"accuracy_last": float(np.mean(found)), "accuracy_last_sd": float(np.std(found))}
    if hasattr(estimator, "predict_proba"):
        proba, classes = estimator.predict_proba(trial.X_test), estimator.classes_
        line["ece"] = expected_calibration_error(trial.y_test, proba, classes=classes)
    if hasattr(estimator, "candidate_proba_"):
        proba = estimator.candidate_proba_
        line["identified"] = disambiguation_accuracy(trial.S_train, proba, trial.y_train)
    epochs = estimator.n_iter_ if is_network else None
    return line | {"epochs": epochs, "seconds": round(seconds, 3), "peak_memory_mb": peak["mb"]}


def command_of(task: Task) -> str:
    """Return the command that runs a task alone."""
    options = f"--group {task.group} --dataset {task.dataset} --method {task.method}"
    return f"python examples/paper/run.py {options} --seeds {task.seed}"


@cache
def commit() -> str | None:
    """Return the commit of this checkout, with a plus sign if the package has changes."""
    git = ["git", "-C", str(_HERE)]
    with suppress(OSError, subprocess.CalledProcessError):
        options = {"capture_output": True, "text": True, "check": True}
        head = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], **options).stdout.strip()
        package = str(_HERE.parents[1] / "sklearn_cleanse")
        status = subprocess.run([*git, "status", "--porcelain", package], **options).stdout
        return head + "+" * bool(status)
    return None


@contextmanager
def _peak_memory():
    """Measure the largest resident size while inside, in MB; None where /proc is missing."""
    peak, process = {"mb": None}, Path("/proc/self")
    with suppress(OSError):
        (process / "clear_refs").write_text("5")  # resets the mark
    yield peak
    with suppress(OSError, TypeError):
        mark = re.search(r"VmHWM:\s+(\d+)", (process / "status").read_text())
        peak["mb"] = round(int(mark[1]) / 1024, 1)


@cache
def _cpu_model() -> str | None:
    with suppress(OSError, TypeError):
        return re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())[1]
    return platform.processor() or None


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "sklearn_cleanse": sklearn_cleanse.__version__}
    packages = ("numpy", "scipy", "scikit-learn", "torch", "skorch")
    return found | {package: version(package) for package in packages}
