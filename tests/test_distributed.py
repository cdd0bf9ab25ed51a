"""Searches in several processes, and one fit by several ranks."""

import os
import pickle
import signal
import socket
import threading

import joblib
import numpy as np
import pytest
import torch
import torch.distributed as dist
from conftest import make_blobs
from sklearn.model_selection import GridSearchCV

from sklearn_cleanse import CleanSEClassifier, CleanSEKernelClassifier, PartialLabelClassifier
from sklearn_cleanse.metrics import approximated_accuracy_scorer
from sklearn_cleanse.model_selection import CandidateKFold

GRID = {"temperature": [1.0, 3.0], "count_weight": [0.0, 1e-3]}
QUICK = {"hidden_layer_sizes": (16,), "random_state": 0}


# -- one fit by several ranks --------------------------------------------------------------------

CASES = {
    "cleanse": CleanSEClassifier(max_epochs=8, **QUICK),
    "neighbors": CleanSEClassifier("proden", voter="neighbors", max_epochs=8, **QUICK),
    "plain": PartialLabelClassifier("rc", max_epochs=8, random_state=None),
    "stopping": CleanSEClassifier(
        max_epochs=60, early_stopping=True, n_iter_no_change=2, schedule="constant", **QUICK
    ),
}


def train(rank, port, folder):
    """Train each case on one of two ranks, and write down what came out."""
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=2)
    X, S, _ = make_blobs(240)
    found = {}
    for name, clf in CASES.items():
        clf.fit(X, S).partial_fit(X, S)
        state = {key: value.numpy() for key, value in clf.net_.module_.state_dict().items()}
        found[name] = {"state": state, "proba": clf.predict_proba(X), "epochs": clf.n_iter_}
        found[name]["candidate_proba"] = clf.candidate_proba_
    try:
        CleanSEClassifier(voter=CleanSEKernelClassifier(alpha=-1), **QUICK).fit(X, S)
    except ValueError as error:
        found["error"] = str(error)
    (folder / f"{rank}.pickle").write_bytes(pickle.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(train, (port, folder), nprocs=2)
    return [pickle.loads((folder / f"{rank}.pickle").read_bytes()) for rank in range(2)]


@pytest.mark.parametrize("name", CASES)
def test_two_ranks_end_with_equal_weights_and_train_well(name, ranks):
    one, other = (found[name] for found in ranks)
    assert one["epochs"] == other["epochs"]
    for key, value in one["state"].items():
        np.testing.assert_array_equal(value, other["state"][key], err_msg=key)
    np.testing.assert_array_equal(one["proba"], other["proba"])
    np.testing.assert_array_equal(one["candidate_proba"], other["candidate_proba"])
    assert one["state"]["body.1.num_batches_tracked"] > 0  # batch norm has trained
    assert (one["proba"].argmax(axis=1) == make_blobs(240)[2]).mean() > 0.9


def test_what_rank_0_cannot_fit_raises_on_all(ranks):
    one, other = (found["error"] for found in ranks)
    assert one == other
    assert "alpha" in one


# -- searches ------------------------------------------------------------------------------------


def search(X, S, n_jobs=None, max_epochs=3):
    return GridSearchCV(
        CleanSEClassifier(max_epochs=max_epochs, **QUICK),
        GRID,
        scoring=approximated_accuracy_scorer,
        cv=CandidateKFold(3, random_state=0),
        n_jobs=n_jobs,
        refit=False,
    ).fit(X, S)


def scores(search):
    return np.array([search.cv_results_[f"split{i}_test_score"] for i in range(3)])


def test_processes_agree_with_one_and_share_the_cores(blobs):
    X, S, _ = blobs
    np.testing.assert_allclose(scores(search(X, S, n_jobs=2)), scores(search(X, S)), atol=1e-6)
    threads = joblib.Parallel(n_jobs=2)(joblib.delayed(torch.get_num_threads)() for _ in range(4))
    assert max(threads) <= max(1, joblib.cpu_count() // 2)


@pytest.fixture
def cluster(tmp_path):
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            host="127.0.0.1",
            local_directory=str(tmp_path),
            silence_logs=50,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


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


@pytest.mark.slow
def test_a_search_on_a_cluster_survives_the_death_of_a_worker(cluster, blobs):
    X, S, _ = blobs
    pids = cluster.run(os.getpid)
    lost, over = [], threading.Event()

    def kill():
        while not lost and not over.wait(0.05):
            lost.extend(cluster.run_on_scheduler(kill_a_busy_worker, pids))

    thread = threading.Thread(target=kill)
    thread.start()
    # A copy of the data on each worker: what only the dead one held would be lost with it.
    with joblib.parallel_config("dask", scatter=[X, S]):
        found = search(X, S, max_epochs=5)
    over.set()
    thread.join()
    assert lost  # some fits were done, and these were not
    np.testing.assert_allclose(scores(found), scores(search(X, S, max_epochs=5)), atol=1e-6)
