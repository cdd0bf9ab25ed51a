"""The numbers that the paper prints, to show beside ours: accuracies in %.

G. Wang, C.-M. Vong, J. Huang. Exploiting the Potential Supervision Information of Clean Samples in
Partial Label Learning. A script copied ``paper_numbers.csv`` from the source of the paper, with its
slips:

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

#: The Friedman table: average ranks over the 25 cases, and what the paper computes from them.
AVERAGE_RANKS = {"cc": 3.56, "rc": 3.00, "lws": 3.16, "cavl": 5.36}
AVERAGE_RANKS |= {"scarce": 6.24, "pl-cgr": 6.52, "dpcls": 7.08, "cleanse": 1.12}
F_STATISTIC, CRITICAL_VALUE, CRITICAL_DIFFERENCE = 69.4, 2.06, 1.864
