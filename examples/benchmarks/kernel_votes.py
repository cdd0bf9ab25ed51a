"""What kernel votes cost and gain, exact and by components, and beside other voters.

    python examples/benchmarks/kernel_votes.py --out lines.jsonl
    python examples/benchmarks/kernel_votes.py --rows 16000 --components 100 300 1000 3000
    python examples/benchmarks/kernel_votes.py --part voters

Prints, for each number of rows and of components, the seconds and the peak memory (MiB) of a fit,
the percentage of ambiguous training rows in which the votes name the true label, and the accuracy
on new rows. Then, for each voter in a network, the same percentages and the seconds of a fit. Each
size runs in a process of its own, on one thread.
"""

import resource
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
from protocol import make_parser, report, use_one_thread

from sklearn_cleanse import (
    CleanSEClassifier,
    CleanSEKernelClassifier,
    NeighborVoter,
    PLCGRClassifier,
)
from sklearn_cleanse.datasets import make_partial_classification

VOTERS = {
    "none": None,
    "kernel": CleanSEKernelClassifier(),
    "neighbors": NeighborVoter(),
    "neighbors, hard": NeighborVoter(hard=True),
    "neighbors, in batches": NeighborVoter(within="batch"),
    "PL-CGR": PLCGRClassifier(),
}


def measure(model, n_samples, shape, seed):
    """Fit a model, and return its seconds and percentages as a row."""
    X, S, y = make_partial_classification(
        n_samples + 2000, *shape, flip_proba=2.5 / shape[1], random_state=seed
    )
    X, train, test = X.astype("float32"), slice(n_samples), slice(n_samples, None)
    began = time.process_time()
    model.fit(X[train], S[train])
    seconds = time.process_time() - began
    named = model.classes_[model.candidate_proba_.argmax(axis=1)]
    ambiguous = S[train].sum(axis=1) > 1
    return {
        "seconds": seconds,
        "named, %": 100 * np.mean((named == y[train])[ambiguous]),
        "accuracy, %": 100 * model.score(X[test], y[test]),
    }


def measure_kernel(n_samples, shape, n_components, seed):
    use_one_thread()
    X, S, _ = make_partial_classification(200, *shape, random_state=0)
    CleanSEKernelClassifier().fit(X, S)  # imports and first calls
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model = CleanSEKernelClassifier(n_components=n_components, random_state=seed)
    found = measure(model, n_samples, shape, seed)
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return {"rows": n_samples, "components": model.n_components_, "MiB": memory, **found}


def costs(rows, shape, components, seed):
    for n_samples in rows:
        for n_components in components:
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                given = n_samples, shape, n_components, seed
                yield pool.submit(measure_kernel, *given).result()


def voters(n_samples, shape, seed):
    for name, voter in VOTERS.items():
        clf = CleanSEClassifier(voter=voter, random_state=seed)
        yield {"voter": name, **measure(clf, n_samples, shape, seed)}


def main(part, rows, voter_rows, n_features, n_classes, components, seed, out):
    use_one_thread()
    shape = n_features, n_classes
    if part != "voters":
        report(costs(rows, shape, components or ["auto"], seed), out)
    if part != "costs":
        report(voters(voter_rows, shape, seed), out)


if __name__ == "__main__":
    parser = make_parser(__doc__)
    parser.add_argument("--part", choices=["all", "costs", "voters"], default="all")
    parser.add_argument("--rows", type=int, nargs="+", default=[1000, 5000, 20_000, 100_000])
    parser.add_argument("--voter-rows", type=int, default=2000)
    parser.add_argument("--n-features", type=int, default=100)
    parser.add_argument("--n-classes", type=int, default=50)
    parser.add_argument("--components", type=int, nargs="+", help="instead of the automatic ones")
    parser.add_argument("--seed", type=int, default=0)
    main(**vars(parser.parse_args()))
