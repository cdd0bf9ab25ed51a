"""Fits in threads are as if each were alone; small steps use one thread."""

import copy
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from sklearn_cleanse import CleanSEClassifier, CleanSEKernelClassifier, PartialLabelClassifier, base

QUICK = {"hidden_layer_sizes": (32, 32), "max_epochs": 4}
ESTIMATORS = {
    "cleanse": CleanSEClassifier(**QUICK),
    "neighbors": CleanSEClassifier("proden", voter="neighbors", **QUICK),
    "plain": PartialLabelClassifier("rc", early_stopping=True, **QUICK),
    "kernel": CleanSEKernelClassifier(n_components=40),
}


def fit(estimator, seed, X, S):
    """Fit, continue if possible, and return what is predicted."""
    estimator = copy.deepcopy(estimator).set_params(random_state=seed).fit(X, S)
    if hasattr(estimator, "partial_fit"):
        estimator.partial_fit(X, S)
    return estimator.predict_proba(X)


@pytest.mark.parametrize("estimator", ESTIMATORS.values(), ids=ESTIMATORS)
def test_fits_in_threads_equal_fits_one_after_another(estimator, blobs):
    X, S, _ = blobs
    seeds = [0, 1, 2, 0]
    alone = [fit(estimator, seed, X, S) for seed in seeds]
    caller = torch.Generator()
    caller.set_state(torch.get_rng_state())
    with ThreadPoolExecutor(4) as pool:
        fits = [pool.submit(fit, estimator, seed, X, S) for seed in seeds]
        drawn = []
        while not all(future.done() for future in fits):  # the caller draws meanwhile
            drawn.append(torch.rand(1000))
        together = [future.result() for future in fits]
    np.testing.assert_array_equal(alone, together)
    assert not np.array_equal(alone[0], alone[1])
    for numbers in drawn:
        assert torch.equal(numbers, torch.rand(1000, generator=caller))


@pytest.fixture
def free_threads(monkeypatch):
    """As if torch had its default number of threads, which is more than one."""
    for kind in ("OMP", "MKL", "OPENBLAS"):
        monkeypatch.delenv(f"{kind}_NUM_THREADS", raising=False)
    monkeypatch.setattr(joblib, "cpu_count", lambda **kwargs: 6)
    before = torch.get_num_threads()
    torch.set_num_threads(6)
    yield
    torch.set_num_threads(before)


def test_as_many_threads_as_there_is_work_for(free_threads):
    for work, n_threads in ((1, 1), (61e6, 2), (1e12, 6), (float("inf"), 6)):
        with base.limit_threads(work):
            assert torch.get_num_threads() == n_threads
        assert torch.get_num_threads() == 6


def test_overlapping_limits_restore_what_was_before(free_threads):
    first, second = base.limit_threads(1), base.limit_threads(1)
    before = [pool["num_threads"] for pool in threadpool_info()]
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert [pool["num_threads"] for pool in threadpool_info()] == before


def test_a_users_setting_wins(free_threads, monkeypatch):
    with threadpool_limits(1):
        torch.set_num_threads(6)  # of the calling thread alone
        before = [pool["num_threads"] for pool in threadpool_info()]
        with base.limit_threads(100e6):
            now = [pool["num_threads"] for pool in threadpool_info()]
            assert all(a <= b for a, b in zip(now, before, strict=True))
    torch.set_num_threads(3)
    with base.limit_threads(1):
        assert torch.get_num_threads() == 3
    torch.set_num_threads(6)
    for kind in ("OMP", "MKL"):
        monkeypatch.setenv(f"{kind}_NUM_THREADS", "6")
        with base.limit_threads(1):
            assert torch.get_num_threads() == 6
        monkeypatch.delenv(f"{kind}_NUM_THREADS")


def test_a_small_fit_keeps_to_one_thread():
    """By the processor's clock, in a process of its own where no number of threads is set."""
    script = """
import time
import numpy as np
from sklearn_cleanse import PartialLabelClassifier
X, S = np.random.RandomState(0).normal(size=(3000, 50)), np.eye(3)[np.arange(3000) % 3]
clf = PartialLabelClassifier(scaling="standard", max_epochs=1, batch_size=64, random_state=0)
clf.fit(X[:300], S[:300])
own, everyone = time.thread_time(), time.process_time()
clf.set_params(max_epochs=6, warm_start=True).fit(X, S)
print((time.process_time() - everyone) / (time.thread_time() - own))
"""
    unset = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    run = [sys.executable, "-c", script]
    done = subprocess.run(run, capture_output=True, text=True, check=True, env=unset)
    assert float(done.stdout) < 1.25
