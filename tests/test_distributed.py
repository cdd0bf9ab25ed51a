"""Search on several processes and on a cluster gives what a single process gives."""

import os
import signal
import threading
import time

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


def test_a_killed_worker_does_not_change_the_result(cluster, blobs):
    X, S, _ = blobs
    pids = list(cluster.run(os.getpid).values())
    killed = []

    def kill():
        time.sleep(1.5)  # the search is under way: alone it takes longer than this
        os.kill(pids[0], signal.SIGKILL)
        killed.append(time.perf_counter())

    thread = threading.Thread(target=kill)
    thread.start()
    # A copy of the data on every worker: what only the dead one held would be lost with it.
    with joblib.parallel_config("dask", scatter=[X, S]):
        found = search(X, S, max_epochs=40)
    finished = time.perf_counter()
    thread.join()
    assert killed
    assert killed[0] < finished
    np.testing.assert_allclose(scores(found), scores(search(X, S, max_epochs=40)), atol=1e-6)
