"""Train on a file larger than one wants in memory: rows per second and peak memory.

A Parquet file of random rows with candidates is written by another process and learnt by
``partial_fit``, one batch after the other, on one thread. Memory is the peak of this process beyond
what it had after its imports, so that it counts all that reading and training need.
"""

import argparse
import resource
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from sklearn_cleanse import CleanSEClassifier, PartialLabelClassifier
from sklearn_cleanse.datasets import ParquetBatches


def make_centres(n_features, n_classes):
    return np.random.default_rng(2).normal(size=(n_classes, n_features)).astype(np.float32)


def write(path, n_rows, n_features, n_classes, part=20_000):
    rng, centres, writer = np.random.default_rng(0), make_centres(n_features, n_classes), None
    for start in range(0, n_rows, part):
        n = min(part, n_rows - start)
        y = rng.integers(n_classes, size=n)
        X = centres[y] + 3 * rng.standard_normal((n, n_features), dtype=np.float32)
        other = rng.integers(n_classes, size=n)
        sets = np.column_stack([y, other]).ravel()
        lists = pa.ListArray.from_arrays(np.arange(0, 2 * n + 1, 2, dtype=np.int32), sets)
        columns = {f"x{j}": X[:, j] for j in range(n_features)}
        table = pa.table({**columns, "candidates": lists})
        writer = writer or pq.ParquetWriter(path, table.schema, compression="none")
        writer.write_table(table)
    writer.close()


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # MiB on Linux


def main(rows, features, classes, batch_size, method):
    torch.set_num_threads(1)
    if method == "plain":
        clf = PartialLabelClassifier("proden", scaling="standard", random_state=0)
    else:
        clf = CleanSEClassifier(scaling="standard", n_landmarks=300, random_state=0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.parquet")
        writing = get_context("spawn").Process(target=write, args=(path, rows, features, classes))
        writing.start()
        writing.join()
        size, before = path.stat().st_size / 2**20, peak()
        batches = ParquetBatches(path, "candidates", np.arange(classes), batch_size=batch_size)
        began = time.perf_counter()
        for X, S in batches:
            clf.partial_fit(X, S)
        seconds = time.perf_counter() - began
    rng = np.random.default_rng(1)
    y = rng.integers(classes, size=5000)
    X = make_centres(features, classes)[y] + 3 * rng.standard_normal(
        (5000, features), dtype=np.float32
    )
    print(f"{method}: {rows} rows, {features} features, file {size:.0f} MiB")
    print(f"{rows / seconds:.0f} rows/s, {peak() - before:.0f} MiB beyond the {before:.0f} before")
    print(f"accuracy on new rows {100 * (clf.predict(X) == y).mean():.1f} %")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=100)
    parser.add_argument("--classes", type=int, default=50)
    parser.add_argument("--batch-size", type=int, default=16_384)
    parser.add_argument("--method", choices=["plain", "cleanse"], default="plain")
    main(**vars(parser.parse_args()))
