"""Search on several processes and on a cluster gives what a single process gives."""

import os
import signal
import threading

import joblib
import numpy as np
import pytest
import torch
from sklearn.model_selection import GridSearchCV

from sklearn_cleanse import CleanSEClassifier
from sklearn_cleanse.metrics import approximated_accuracy_scorer
from sklearn_cleanse.model_selection import CandidateKFold

GRID = {"temperature": [1.0, 3.0], "count_weight": [0.0, 1e-3]}


def search(X, S, n_jobs=None, max_epochs=3):
    estimator = CleanSEClassifier(hidden_layer_sizes=(16,), max_epochs=max_epochs, random_state=0)
    return GridSearchCV(
        estimator,
        GRID,
        scoring=approximated_accuracy_scorer,
        cv=CandidateKFold(3, random_state=0),
        n_jobs=n_jobs,
        refit=False,
    ).fit(X, S)


def scores(search):
    folds = [f"split{i}_test_score" for i in range(3)]
    return np.array([search.cv_results_[fold] for fold in folds])


def threads_in_worker():
    return torch.get_num_threads()


def test_processes_agree_with_one_and_share_the_cores(blobs):
    X, S, _ = blobs
    np.testing.assert_allclose(scores(search(X, S, n_jobs=2)), scores(search(X, S)), atol=1e-6)
    threads = joblib.Parallel(n_jobs=2)(joblib.delayed(threads_in_worker)() for _ in range(4))
    assert max(threads) <= max(1, joblib.cpu_count() // 2)


@pytest.fixture
def cluster(tmp_path):
    from distributed import Client, LocalCluster

    cluster = LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        dashboard_address=None,
        host="127.0.0.1",
        local_directory=str(tmp_path),
        silence_logs=50,
    )
    client = Client(cluster)
    try:
        yield client
    finally:
        client.close()
        cluster.close()


def test_the_same_search_runs_on_a_cluster(cluster, blobs):
    X, S, _ = blobs
    with joblib.parallel_config("dask"):
        found = search(X, S)
    np.testing.assert_allclose(scores(found), scores(search(X, S)), atol=1e-6)


def kill_a_busy_worker(pids, dask_scheduler):
    """Once a fit is done and a worker is at another, kill it; return the tasks it was at.

    Nothing changes on the scheduler between the look and the kill: both are one step of its loop.
    """
    fits = [p for name, p in dask_scheduler.task_prefixes.items() if "fit_and_score" in name]
    if not sum(prefix.state_counts["memory"] for prefix in fits):
        return []
    for address, worker in dask_scheduler.workers.items():
        if worker.processing and address in pids:
            os.kill(pids[address], signal.SIGKILL)
            return [str(task.key) for task in worker.processing]
    return []


def times_interrupted(dask_scheduler):
    """How often a task was lost with the worker that was at it."""
    return sum(prefix.suspicious for prefix in dask_scheduler.task_prefixes.values())


def test_a_killed_worker_does_not_change_the_result(cluster, blobs):
    X, S, _ = blobs
    pids = cluster.run(os.getpid)
    lost, over = [], threading.Event()

    def kill():
        while not lost and not over.wait(0.05):
            lost.extend(cluster.run_on_scheduler(kill_a_busy_worker, pids))

    thread = threading.Thread(target=kill)
    thread.start()
    # A copy of the data on every worker: what only the dead one held would be lost with it.
    with joblib.parallel_config("dask", scatter=[X, S]):
        found = search(X, S, max_epochs=5)
    over.set()
    thread.join()
    assert lost  # some fits were done, and these were not
    assert cluster.run_on_scheduler(times_interrupted) >= 1
    np.testing.assert_allclose(scores(found), scores(search(X, S, max_epochs=5)), atol=1e-6)
