"""The paper's own numbers, to stand beside ours: accuracies in %, as its tables print them.

G. Wang, C.-M. Vong, J. Huang. Exploiting the Potential Supervision Information of Clean Samples in
Partial Label Learning. ``paper_numbers.csv`` was copied by a script from the paper's source, slips
included:

- Three printed ranks do not follow from the printed accuracies: CC on KMNIST at batch 256 (printed
  3, is 4), and CAVL on CIFAR-10 at batch 64 and 128 (printed 5, is 4).
- The average ranks are those of the printed ranks, and so sum to 36.04 instead of 36.
"""

import csv
from pathlib import Path

#: (mean, sd, printed rank) by case and method. A case is (data set, batch size), the latter None
#: for real data; methods that ran out of memory are missing.
ACCURACY: dict[tuple, dict[str, tuple[float, float, int]]] = {}
with Path(__file__).with_name("paper_numbers.csv").open(newline="") as _file:
    for _row in csv.DictReader(_file):
        _case = _row["dataset"], int(_row["batch_size"] or 0) or None
        _printed = float(_row["mean"]), float(_row["sd"]), int(_row["rank"])
        ACCURACY.setdefault(_case, {})[_row["method"]] = _printed

#: Accuracy with and without votes and counts, by real data set.
_SETS = ("lost", "birdsong", "msrcv2", "soccer_player", "yahoo_news")
ABLATION = {
    "neither": dict(zip(_SETS, (62.66, 70.11, 50.11, 54.81, 65.18), strict=True)),
    "votes": dict(zip(_SETS, (67.66, 73.13, 53.22, 57.13, 65.97), strict=True)),
    "counts": dict(zip(_SETS, (64.23, 72.61, 53.01, 56.46, 65.31), strict=True)),
    "both": dict(zip(_SETS, (69.33, 75.21, 55.05, 58.9, 66.97), strict=True)),
}

#: Instances, features, classes, mean candidates, clean rate in %.
CHARACTERISTICS = {
    "mnist": (70000, "28x28", 10, 4.9992, 0.93),
    "fashion_mnist": (70000, "28x28", 10, 5.0078, 0.94),
    "kmnist": (70000, "28x28", 10, 5.0028, 1.03),
    "cifar10": (60000, "32x32", 10, 4.9968, 0.95),
    "lost": (1122, "108", 16, 2.23, 6.24),
    "birdsong": (4998, "38", 13, 2.18, 33.22),
    "msrcv2": (1758, "48", 23, 3.16, 7.54),
    "soccer_player": (17472, "279", 171, 2.09, 30.45),
    "yahoo_news": (22991, "163", 219, 1.91, 28.99),
}

#: The Friedman table: average ranks over the 25 cases, and what the paper computes from them.
AVERAGE_RANKS = {"cc": 3.56, "rc": 3.00, "lws": 3.16, "cavl": 5.36}
AVERAGE_RANKS |= {"scarce": 6.24, "pl-cgr": 6.52, "dpcls": 7.08, "cleanse": 1.12}
F_STATISTIC, CRITICAL_VALUE, CRITICAL_DIFFERENCE = 69.4, 2.06, 1.864
