"""How well do measures that need no true labels choose among the models of the experiments?"""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
from cells import set_name
from data import REAL
from plan import SEEDS
from render import Table
from scipy.stats import spearmanr

MEASURES = {"covering rate": 0, "approximated accuracy": 1}
_FIELDS = ("covering_rate", "approximated_accuracy", "accuracy_final")


def measured_models(results) -> dict[str, np.ndarray]:
    """Return, by real set, the measures in % of all models run on splits 0 to 4.

    Each array has shape (models, splits, measures): covering rate, approximated accuracy, accuracy.
    """
    runs: dict[str, dict] = {}
    for lines in results.cells.values():
        for line in lines:
            if line["dataset"] in REAL and line["seed"] in SEEDS:
                model = (
                    line.get("estimator", line["method"]),
                    json.dumps(line["params"], sort_keys=True),
                )
                runs.setdefault(line["dataset"], {}).setdefault(model, {})[line["seed"]] = line
    tables = {}
    for dataset in [name for name in REAL if name in runs]:
        whole = [
            [[by_seed[seed].get(field) for field in _FIELDS] for seed in SEEDS]
            for by_seed in runs[dataset].values()
            if len(by_seed) == len(SEEDS)
        ]
        whole = [model for model in whole if not any(None in split for split in model)]
        if len(whole) > 1:
            tables[dataset] = 100 * np.array(whole, dtype=float)
    return tables


def achieved(table, column) -> float:
    """Return the accuracy on each split of the model chosen on all others, on average."""
    accuracy = table[:, :, 2]
    if column is None:
        return float(accuracy.mean())
    n_splits = accuracy.shape[1]
    others = [np.delete(table[:, :, column], split, axis=1) for split in range(n_splits)]
    chosen = [other.mean(axis=1).argmax() for other in others]
    return float(np.mean([accuracy[model, split] for split, model in enumerate(chosen)]))


def label_free_table(results) -> Table:
    """Compare what is chosen without true labels with an oracle's choice, and with a draw."""
    tables = measured_models(results)
    rows = {
        f"chosen by {name}": {set_name(d): f"{achieved(t, column):.1f}" for d, t in tables.items()}
        for name, column in {**MEASURES, "oracle": 2, "a draw": None}.items()
    }
    counts = ", ".join(f"{len(table)} on {set_name(d)}" for d, table in tables.items())
    note = (
        f"Accuracy in % after the last epoch. Models: {counts}, of all groups of the experiments. "
        "A model is chosen on four splits and measured on the fifth, in turn; the oracle chooses "
        "by the true labels of the four, a draw is the mean of all models. CleanSE's defaults were "
        "settled by covering rates on these splits."
    )
    frame = pd.DataFrame.from_dict(rows, orient="index", dtype=str)
    return Table("label-free", "Choosing without true labels", frame, [note])


def draw_choices(table, title, ax) -> None:
    """Draw the models of one set: covering rate against accuracy, the choice, and the oracle's."""
    free, accuracy = table[:, :, 0].mean(axis=1), table[:, :, 2].mean(axis=1)
    ax.scatter(free, accuracy, s=18, alpha=0.6, color="#0072B2", linewidths=0)
    ring = {"s": 130, "facecolors": "none", "edgecolors": "#D55E00", "linewidths": 1.8}
    best = {"s": 90, "marker": "*", "color": "#009E73"}
    ax.scatter(free[free.argmax()], accuracy[free.argmax()], label="chosen without labels", **ring)
    ax.scatter(free[accuracy.argmax()], accuracy.max(), label="oracle", **best)
    rho = spearmanr(free, accuracy).statistic
    ax.set(title=f"{title}: rank correlation {rho:.2f}", xlabel="covering rate, %")
    ax.set_ylabel("accuracy by true labels, %")
    ax.grid(alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, loc="lower right", fontsize="small")
