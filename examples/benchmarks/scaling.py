"""Seconds per epoch and memory of CleanSE from a thousand to a million rows.

    python examples/benchmarks/scaling.py --picture scaling.png --out lines.jsonl
    python examples/benchmarks/scaling.py --shapes --out lines.jsonl

Prints a line for each number of rows: seconds per epoch, peak memory beyond what imports and data
take (MiB, read from /proc, so on Linux only) and the size of X; then the slopes on logarithmic
scales. Rows have 100 features, 50 classes and two candidates, one row in five a single one. Each
size runs in a process of its own on one thread, with X in a file. With ``--shapes``, data of the
shapes of Soccer Player and Yahoo! News instead, with and without votes and counts.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp
from protocol import make_parser, report, use_one_thread

from sklearn_cleanse import CleanSEClassifier

SHAPES = {"Soccer Player": (17472, 279, 171), "Yahoo! News": (22991, 163, 219)}
METHODS = {"plain": {"voter": None, "count_weight": 0}, "CleanSE": {}}


def make(n_samples, n_features, n_classes, folder):
    """Write features block by block; return them mapped, and candidates as a sparse matrix."""
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(n_classes, n_features)).astype(np.float32)
    y = rng.integers(n_classes, size=n_samples)
    path = Path(folder) / "X.dat"
    with path.open("wb") as file:
        for start in range(0, n_samples, 10_000):
            block = centers[y[start : start + 10_000]]
            file.write((block + 3 * rng.standard_normal(block.shape, np.float32)).tobytes())
    X = np.memmap(path, dtype=np.float32, mode="r", shape=(n_samples, n_features))
    row = np.arange(n_samples)
    second = rng.uniform(size=n_samples) < 0.8
    other = (y + rng.integers(1, n_classes, size=n_samples)) % n_classes
    cells = np.concatenate([row, row[second]]), np.concatenate([y, other[second]])
    return X, sp.csr_array((np.ones(len(cells[0]), dtype=bool), cells), (n_samples, n_classes))


def measure(shape, epochs, params):
    """Train once, in this process; print what it took as JSON."""
    use_one_thread()
    warm = np.random.RandomState(0).normal(size=(20, 3))
    CleanSEClassifier(max_epochs=1).fit(warm, np.eye(2)[[0, 1] * 10])  # imports and first calls
    with tempfile.TemporaryDirectory() as folder:
        X, S = make(*shape, folder)
        X.max()  # read all of it once: pages of the file count too
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        before = pages * resource.getpagesize() / 2**20
        clf = CleanSEClassifier(max_epochs=epochs, scaling="standard", random_state=0, **params)
        clf.fit(X, S)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    seconds = np.mean([epoch["seconds"] for epoch in clf.history_])
    print(json.dumps({"s/epoch": seconds, "MiB": peak - before, "X, MiB": X.nbytes / 2**20}))


def in_own_process(*arguments):
    command = [sys.executable, __file__, "--measure", json.dumps(arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def by_size(sizes, epochs):
    for n in sizes:
        yield {"rows": n, **in_own_process((n, 100, 50), epochs, {})}


def by_shape(epochs):
    for name, shape in SHAPES.items():
        seconds = {}
        for method, params in METHODS.items():
            found = in_own_process(shape, epochs, params)
            seconds[method] = found["s/epoch"]
            ratio = seconds[method] / seconds["plain"]
            yield {"shape of": name, "method": method, **found, "ratio": ratio}


def draw(rows, slopes, picture):
    figure, axes = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
    sizes = np.array([row["rows"] for row in rows])
    for ax, (name, fit) in zip(axes, slopes.items(), strict=True):
        ax.loglog(sizes, [row[name] for row in rows], "o")
        fitted = np.exp(np.polyval(fit, np.log(sizes)))
        ax.loglog(sizes, fitted, color="0.7", zorder=0, label=f"slope {fit[0]:.2f}")
        ax.set(title=name, xlabel="rows")
        ax.legend()
    figure.savefig(picture, dpi=120)


def main(sizes, epochs, shapes, picture, out):
    if shapes:
        report(by_shape(epochs), out)
        return
    rows = report(by_size(sizes, epochs), out)
    if len(rows) > 1:
        log_sizes = np.log(sizes)
        slopes = {
            name: np.polyfit(log_sizes, np.log([row[name] for row in rows]), 1)
            for name in ("s/epoch", "MiB")
        }
        print(*(f"slope of {name}: {fit[0]:.2f}" for name, fit in slopes.items()), sep="\n")
        if picture:
            draw(rows, slopes, picture)


if __name__ == "__main__":
    parser = make_parser(__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10**3, 10**4, 10**5, 10**6])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--picture", help="where to save the log-log plot")
    parser.add_argument("--shapes", action="store_true", help="Soccer Player, Yahoo! News")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    args = vars(parser.parse_args())
    given = args.pop("measure")
    if given:
        measure(*json.loads(given))
    else:
        main(**args)
