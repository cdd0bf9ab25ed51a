"""What the benchmarks share: data with true labels, one thread, and result lines.

"digits" and "wine" come with scikit-learn; any other name is ``dev/<name>.npz`` (X and y) in the
data folder: ``--data-home`` or the variable SKLEARN_CLEANSE_DATA.
"""

import argparse
import json
import os
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits, load_wine
from threadpoolctl import threadpool_limits

SETS = ["digits", "segment", "satimage", "vowel", "vehicle"]
SOURCES = ["flip", "bag", "instance-dependent", "lexicon"]


def make_parser(docstring, data=False):
    """Return a parser with the options that all scripts have."""
    parser = argparse.ArgumentParser(
        description=docstring, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", help="file to which result lines are appended, as JSON")
    if data:
        parser.add_argument("--data-home", default=os.environ.get("SKLEARN_CLEANSE_DATA"))
    return parser


def use_one_thread():
    torch.set_num_threads(1)
    threadpool_limits(1)


def load(name, data_home=None):
    """Return features and labels 0, 1, 2, … of all rows."""
    bundled = {"digits": load_digits, "wine": load_wine}
    if name in bundled:
        return bundled[name](return_X_y=True)
    home = Path(data_home or "~/scikit_learn_data").expanduser()
    with np.load(home / "dev" / f"{name}.npz") as arrays:
        return arrays["X"].astype(float), np.unique(arrays["y"], return_inverse=True)[1]


def split(X, y, seed, most=2000):
    """Return training and test rows: four fifths and one fifth of the rows, of many the first."""
    rows = np.random.RandomState(seed).permutation(len(X))[: most * 5 // 4]
    n_train = len(rows) * 4 // 5
    train, test = rows[:n_train], rows[n_train:]
    return X[train], y[train], X[test], y[test]


def report(rows, out=None):
    """Print each row (a dict) as it comes, append it to `out` as a JSON line, and return all."""
    printed, columns = [], None
    for row in rows:
        if columns != (columns := list(row)):
            print("\n" + "".join(_cell(name, name, row[name]) for name in columns))
        print("".join(_cell(name, value, value) for name, value in row.items()), flush=True)
        if out:
            with open(out, "a", encoding="utf-8") as file:
                file.write(json.dumps(row, default=float) + "\n")
        printed.append(row)
    return printed


def _cell(name, shown, value):
    if isinstance(value, str):
        return f"  {shown:<27}"
    width = max(14, len(name) + 2)
    return f"{shown:>{width}.5g}" if isinstance(shown, float) else f"{shown:>{width}}"
