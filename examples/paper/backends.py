"""Where runs take place: in this process, in worker processes, or on a dask cluster.

A backend takes tasks and yields ``(task, line, error)`` as they finish: a line, or an error text.
"""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import sys
import threading
import traceback
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool

from plan import Task

Outcome = tuple[Task, dict | None, str | None]


def attempt(task: Task) -> tuple[dict | None, str | None]:
    """Do a task; an exception becomes its text, so that it can travel and does not end the rest."""
    try:
        from experiment import run

        return run(task), None
    except Exception:
        return None, traceback.format_exc()


def run_here(tasks: list[Task]) -> Iterator[Outcome]:
    """Do one after the other in this process."""
    for task in tasks:
        yield task, *attempt(task)


def run_processes(tasks: list[Task], jobs: int) -> Iterator[Outcome]:
    """Do so many at a time, each in a worker process. A run that kills its worker costs itself."""
    left, suspects = list(tasks), []
    while left or suspects:
        alone = bool(suspects)  # whoever was under way when a worker died is tried on its own
        batch = suspects[:1] if alone else left
        pool = concurrent.futures.ProcessPoolExecutor(
            1 if alone else jobs,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_die_with_parent,
        )
        try:
            for outcome in _drain(pool, list(batch), jobs):
                (suspects if alone else left).remove(outcome[0])
                yield outcome
        except _WorkerDied as death:
            if alone:
                yield suspects.pop(0), None, "its worker process died, twice (out of memory?)"
            else:
                suspects = death.under_way
                left = [task for task in left if task not in suspects]
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


class _WorkerDied(Exception):
    def __init__(self, under_way):
        self.under_way = under_way


def _drain(pool, tasks: list[Task], jobs: int) -> Iterator[Outcome]:
    """Keep the pool busy, handing over no more than it works on: so little is lost with it."""
    waiting = iter(tasks)
    under_way = {}
    while True:
        while len(under_way) < jobs:
            task = next(waiting, None)
            if task is None:
                break
            try:
                under_way[pool.submit(attempt, task)] = task
            except BrokenProcessPool:
                raise _WorkerDied(list(under_way.values())) from None
        if not under_way:
            return
        finished, _ = concurrent.futures.wait(
            under_way, return_when=concurrent.futures.FIRST_COMPLETED
        )
        for future in sorted(finished, key=lambda f: f.exception() is not None):  # results first
            if isinstance(future.exception(), BrokenProcessPool):
                raise _WorkerDied(list(under_way.values()))
            yield under_way.pop(future), *future.result()


def _die_with_parent() -> None:
    """End this worker when the runner is killed: nobody would take its result."""

    def watch():
        multiprocessing.parent_process().join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def run_dask(tasks: list[Task], scheduler: str | None, jobs: int) -> Iterator[Outcome]:
    """Do the tasks on a dask cluster: the one at an address, or one started here."""
    try:
        import cloudpickle
        from distributed import Client, LocalCluster, as_completed
    except ImportError as error:
        raise SystemExit(
            '--backend dask needs distributed: pip install "sklearn-cleanse[dask]"'
        ) from error
    import data
    import experiment
    import plan

    # The workers have the package, but not this folder. (Cached functions cannot travel so.)
    for module in (sys.modules[__name__], data, experiment, plan):
        cloudpickle.register_pickle_by_value(module)
    where = scheduler or LocalCluster(n_workers=jobs, threads_per_worker=1, dashboard_address=None)
    with Client(where) as client:
        futures = {
            client.submit(_attempt_on_cluster, experiment.run, task, pure=False): task
            for task in tasks
        }
        for future in as_completed(futures):
            task = futures[future]
            if future.status == "finished":
                yield task, *future.result()
            else:
                yield task, None, f"{future.status}: {future.exception()}"
            del futures[future]
            future.release()
    if scheduler is None:
        where.close()


def _attempt_on_cluster(run, task):
    import traceback

    try:
        return run(task), None
    except Exception:
        return None, traceback.format_exc()
