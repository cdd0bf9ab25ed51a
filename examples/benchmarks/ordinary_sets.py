"""Ordinary data with true labels, for experiments whose candidates are generated.

"digits" and "wine" come with scikit-learn; any other name is ``dev/<name>.npz`` (X and y) in the
data folder: ``--data-home`` or the variable SKLEARN_CLEANSE_DATA.
"""

import os
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits, load_wine

SETS = ["digits", "segment", "satimage", "vowel", "vehicle"]


def load(name, data_home=None):
    """Return features and labels 0, 1, 2, … of all rows."""
    own = {"digits": load_digits, "wine": load_wine}
    if name in own:
        return own[name](return_X_y=True)
    home = data_home or os.environ.get("SKLEARN_CLEANSE_DATA", "~/scikit_learn_data")
    with np.load(Path(home).expanduser() / "dev" / f"{name}.npz") as arrays:
        return arrays["X"].astype(float), np.unique(arrays["y"], return_inverse=True)[1]


def split(X, y, seed, most=2000):
    """Return training and test rows: four fifths and one fifth of the rows, of many the first."""
    rows = np.random.RandomState(seed).permutation(len(X))[: most * 5 // 4]
    n_train = len(rows) * 4 // 5
    train, test = rows[:n_train], rows[n_train:]
    return X[train], y[train], X[test], y[test]
