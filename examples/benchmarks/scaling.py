"""Seconds per epoch and memory of CleanSE from a thousand to a million rows, with slopes.

Rows have 100 features, 50 classes and two candidates, one row in five a single one. Each size
runs in a process of its own, which makes the data (features in a file, candidates sparse), trains
for a few epochs with votes in all of them, and reports. Memory is the peak beyond what imports and
data take (read from /proc, so on Linux only). With ``--shapes``, data of the shapes of Soccer
Player and Yahoo! News instead, with and without votes and counts.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp

SHAPES = {"Soccer Player": (17472, 279, 171), "Yahoo! News": (22991, 163, 219)}
PLAIN = {"temperature": 1, "count_weight": 0}


def make(n_samples, n_features, n_classes, folder):
    """Write features block by block; return them mapped, and candidates as a sparse matrix."""
    random = np.random.default_rng(0)
    centers = random.normal(size=(n_classes, n_features)).astype(np.float32)
    y = random.integers(n_classes, size=n_samples)
    path = Path(folder) / "X.dat"
    with path.open("wb") as file:
        for start in range(0, n_samples, 10_000):
            block = centers[y[start : start + 10_000]]
            noise = random.standard_normal(block.shape, dtype=np.float32)
            file.write((block + 3 * noise).tobytes())
    X = np.memmap(path, dtype=np.float32, mode="r", shape=(n_samples, n_features))
    row = np.arange(n_samples)
    second = random.uniform(size=n_samples) < 0.8
    other = (y + random.integers(1, n_classes, size=n_samples)) % n_classes
    cells = np.concatenate([row, row[second]]), np.concatenate([y, other[second]])
    return X, sp.csr_array((np.ones(len(cells[0]), dtype=bool), cells), (n_samples, n_classes))


def peak_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def present_mib():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def measure(n_samples, n_features, n_classes, epochs, **params):
    """Train once, in this process; print what it took as JSON."""
    from sklearn_cleanse import CleanSEClassifier

    warm = np.random.RandomState(0).normal(size=(20, 3))
    CleanSEClassifier(max_epochs=1).fit(warm, np.eye(2)[[0, 1] * 10])  # imports and first calls
    with tempfile.TemporaryDirectory() as folder:
        X, S = make(n_samples, n_features, n_classes, folder)
        X.max()  # read all of it once: pages of the file count too
        before = present_mib()
        clf = CleanSEClassifier(
            max_epochs=epochs, vote_start=0, scaling="standard", random_state=0, **params
        ).fit(X, S)
    seconds = np.mean([epoch["seconds"] for epoch in clf.history_])
    found = {"seconds": seconds, "mib": peak_mib() - before, "X": X.nbytes / 2**20}
    print(json.dumps(found))


def in_own_process(*arguments):
    command = [sys.executable, __file__, "--measure", json.dumps(arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def scaling(sizes, epochs, picture):
    found = {}
    print(f"{'rows':>9}{'s/epoch':>10}{'MiB':>9}{'X, MiB':>9}")
    for n in sizes:
        found[n] = in_own_process({"n_samples": n, "n_features": 100, "n_classes": 50}, epochs, {})
        row = found[n]
        print(f"{n:>9}{row['seconds']:>10.3f}{row['mib']:>9.0f}{row['X']:>9.1f}", flush=True)
    slopes = {
        what: np.polyfit(np.log(sizes), np.log([found[n][what] for n in sizes]), 1)
        for what in ("seconds", "mib")
    }
    print(f"slopes: time {slopes['seconds'][0]:.2f}, memory {slopes['mib'][0]:.2f}")
    if picture:
        draw(found, slopes, picture)


def draw(found, slopes, picture):
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
    titles = {"seconds": "seconds per epoch", "mib": "memory beyond the data, MiB"}
    sizes = np.array(list(found))
    for ax, (what, title) in zip(axes, titles.items(), strict=True):
        ax.loglog(sizes, [row[what] for row in found.values()], "o", color="#0072B2")
        fitted = np.exp(np.polyval(slopes[what], np.log(sizes)))
        ax.loglog(sizes, fitted, color="#BBBBBB", zorder=0, label=f"slope {slopes[what][0]:.2f}")
        ax.set(title=title, xlabel="rows")
        ax.legend()
    figure.savefig(picture, dpi=120)
    print(f"picture: {picture}")


def shapes(epochs):
    heads = f"{'shape of':<16}{'rows':>7}{'features':>9}{'classes':>8}"
    print(heads + f"{'plain':>9}{'CleanSE':>9}{'ratio':>7}")
    for name, (n, d, m) in SHAPES.items():
        shape = {"n_samples": n, "n_features": d, "n_classes": m}
        plain, full = (in_own_process(shape, epochs, p)["seconds"] for p in (PLAIN, {}))
        print(f"{name:<16}{n:>7}{d:>9}{m:>8}{plain:>9.2f}{full:>9.2f}{full / plain:>7.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[10**3, 10**4, 10**5, 10**6])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--picture", help="where to save the log-log plot")
    parser.add_argument("--shapes", action="store_true", help="Soccer Player, Yahoo! News")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        shape, epochs, params = json.loads(args.measure)
        measure(**shape, epochs=epochs, **params)
    elif args.shapes:
        shapes(args.epochs)
    else:
        scaling(args.sizes, args.epochs, args.picture)
