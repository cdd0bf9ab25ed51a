"""Where runs take place: in worker processes on this machine, or on a dask cluster.

A backend takes tasks and yields ``(task, line, error)`` as they finish: a line, or an error text.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from multiprocessing.connection import wait

import data
import experiment
import plan

Outcome = tuple[plan.Task, dict | None, str | None]


def attempt(run, *arguments) -> tuple[dict | None, str | None]:
    """Do a run; whatever it raises becomes a text, which can travel and does not end the rest."""
    try:
        return run(*arguments), None
    except BaseException:  # a method may call sys.exit
        return None, traceback.format_exc()


def run_processes(tasks: list[plan.Task], jobs: int) -> Iterator[Outcome]:
    """Do so many at a time, each in a process, so that a run that kills its own costs only itself.

    Leaving the loop over the outcomes, as Ctrl-C does, ends the processes at once.
    """
    context = _start_context()
    code = plan.code_hash()  # now: files may change while runs are under way
    waiting, idle, busy = list(reversed(tasks)), [], {}
    try:
        while waiting or busy:
            while waiting and len(busy) < jobs:
                worker = idle.pop() if idle else _Worker(context, code)
                busy[worker.pipe] = worker, waiting.pop()
                worker.pipe.send(busy[worker.pipe][1])
            for pipe in wait(busy):
                worker, task = busy.pop(pipe)
                try:
                    outcome = pipe.recv()
                    idle.append(worker)
                except (EOFError, OSError):
                    worker.process.join()
                    outcome = None, f"its process died with exit code {worker.process.exitcode}"
                yield task, *outcome
    finally:
        for worker, _ in busy.values():
            worker.process.kill()
        for worker in [*idle, *(worker for worker, _ in busy.values())]:
            worker.pipe.close()
            worker.process.join()


def _start_context():
    """Return how to start processes: where possible, forked from one that has imported torch."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    from multiprocessing import forkserver

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch._dynamo", "sklearn_cleanse.deep"])
    # Ctrl-C is for the runner alone: what is ignored at the start is so in all that is forked.
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    forkserver.ensure_running()
    signal.signal(signal.SIGINT, handler)
    return context


class _Worker:
    """A process that does one task after the other."""

    def __init__(self, context, code):
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, code))
        self.process.start()
        theirs.close()  # so that the pipe ends with the process


def _serve(pipe, code) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # if there is no forkserver to do so
    threading.Thread(target=_die_with_parent, daemon=True).start()
    with contextlib.suppress(EOFError):  # the runner has closed its end
        while True:
            pipe.send(attempt(experiment.run, pipe.recv(), code))


def _die_with_parent() -> None:
    """End this worker when the runner is killed: nobody would take its result."""
    multiprocessing.parent_process().join()
    os._exit(1)


def run_dask(tasks: list[plan.Task], scheduler: str | None, jobs: int) -> Iterator[Outcome]:
    """Do the tasks on a dask cluster: the one at an address, or one started here."""
    try:
        import cloudpickle
        from distributed import Client, LocalCluster, as_completed
    except ImportError as error:
        raise SystemExit(
            '--backend dask needs distributed: pip install "sklearn-cleanse[dask]"'
        ) from error
    for module in TRAVELLING:
        cloudpickle.register_pickle_by_value(module)
    where = scheduler or LocalCluster(n_workers=jobs, threads_per_worker=1, dashboard_address=None)
    with Client(where) as client:
        futures = {client.submit(attempt, experiment.run, task, pure=False): task for task in tasks}
        for future in as_completed(futures):
            task = futures.pop(future)
            if future.status == "finished":
                yield task, *future.result()
            else:
                yield task, None, f"{future.status}: {future.exception()}"
            future.release()
    if scheduler is None:
        where.close()


#: Modules that travel with a task: a cluster's workers have the package, but not this folder.
TRAVELLING = [sys.modules[__name__], data, experiment, plan]
