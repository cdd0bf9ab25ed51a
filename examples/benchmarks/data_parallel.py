"""One fit on several processes, each with a part of the rows.

Alone, ``python examples/benchmarks/data_parallel.py`` fits all rows in one process. Under torchrun,
``torchrun --nproc-per-node 2 examples/benchmarks/data_parallel.py``, each rank makes the same data,
keeps every n-th row and fits with the others: on GPUs if there is one for each rank, else on CPUs.
Rank 0 prints the accuracy on new rows, how long the fit took, whether all ranks have the same
weights, and saves the model if asked to.
"""

import argparse
import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist

from sklearn_cleanse import CleanSEClassifier
from sklearn_cleanse.datasets import make_partial_classification


def join_others():
    """Join the process group that torchrun prepares; return our rank and how many there are."""
    if "RANK" not in os.environ:
        return 0, 1
    here, n_here = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    on_gpus = torch.cuda.device_count() >= n_here
    if on_gpus:
        torch.cuda.set_device(here)
    backend = "nccl" if on_gpus else "gloo"
    dist.init_process_group(backend, timeout=timedelta(minutes=5))
    return dist.get_rank(), dist.get_world_size()


def main(n_samples, n_test, epochs, seeds, save):
    rank, size = join_others()
    for seed in range(seeds):
        X, S, y = make_partial_classification(
            n_samples + n_test, 40, 20, kind="flip", flip_proba=0.2, random_state=seed
        )
        own = slice(rank, n_samples, size)  # in a real job, a file of its own
        clf = CleanSEClassifier(max_epochs=epochs, random_state=seed)
        began = time.perf_counter()
        clf.fit(X[own], S[own])
        seconds = time.perf_counter() - began
        sums = [float(part.double().abs().sum()) for part in clf.net_.module_.state_dict().values()]
        everyone = [sums]
        if size > 1:
            everyone = [None] * size
            dist.all_gather_object(everyone, sums)
        if rank == 0:
            accuracy = (clf.predict(X[n_samples:]) == y[n_samples:]).mean()
            print(
                f"seed {seed}, {size} rank(s), {len(X[own])} rows on rank 0: accuracy "
                f"{accuracy:.3f}, votes' dependence {clf.dependence_:.3f}, {seconds:.1f} s, "
                f"{clf.history_[-1]['seconds']:.2f} s in the last epoch, equal weights: "
                f"{all(other == sums for other in everyone)}",
                flush=True,
            )
    if rank == 0 and save:
        clf.save(save)
    if size > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--n-samples", type=int, default=30_000)
    parser.add_argument("--n-test", type=int, default=5_000)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--save", help="file for the last model")
    main(**vars(parser.parse_args()))
