"""Cells of the tables: result lines gathered by data set, method and setting."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from lines import read_absent, read_lines
from render import Cell

from sklearn_cleanse.comparison import rank_methods

METHOD_NAMES = {
    "cc": "CC",
    "rc": "RC",
    "proden": "PRODEN",
    "lws": "LWS",
    "cavl": "CAVL",
    "scarce": "SCARCE",
    "pl-cgr": "PL-CGR",
    "dpcls": "DPCLS",
    "cleanse": "CleanSE",
    "cleanse-paper": "CleanSE, paper's form",
}
SET_NAMES = {
    "lost": "Lost",
    "birdsong": "BirdSong",
    "msrcv2": "MSRCv2",
    "soccer_player": "Soccer Player",
    "yahoo_news": "Yahoo! News",
    "mnist": "MNIST",
    "kmnist": "Kuzushiji-MNIST",
    "fashion_mnist": "Fashion-MNIST",
    "cifar10": "CIFAR-10",
    "digits_images": "Digits as images",
}
RECIPES = {"ours": "our recipe for every network", "paper": "the paper's protocol"}
PAPER_EPOCHS = 250


class Results:
    """The lines of a folder, by cell.

    Where a cell was run with several sets of parameters (the defaults changed, say), the set that
    was finished last counts.

    Parameters
    ----------
    lines : list of dict
        Result lines.
    absent : list of str
        Data sets known to be absent.
    """

    def __init__(self, lines, absent=()):
        self.absent = set(absent)
        variants = defaultdict(lambda: defaultdict(list))
        for line in lines:
            cell = (line["group"], line["setting"], line["dataset"], line["method"])
            variants[cell][str((line["params"], line["train_size"]))].append(line)
        self.cells = {
            cell: max(found.values(), key=lambda ls: max(line["finished"] for line in ls))
            for cell, found in variants.items()
        }

    @classmethod
    def read(cls, folder) -> Results:
        return cls(read_lines(folder), read_absent(folder))

    def lines(self, group, setting, dataset, method) -> list[dict]:
        """Lines of a cell, by seed."""
        found = self.cells.get((group, setting, dataset, method), [])
        return sorted(found, key=lambda line: line["seed"])

    def values(self, group, setting, dataset, method, measure="accuracy_mean") -> np.ndarray:
        """Values of a measure in the trials of a cell, where it has any."""
        found = (line.get(measure) for line in self.lines(group, setting, dataset, method))
        return np.array([value for value in found if value is not None], dtype=float)

    def mean(self, *cell, measure="accuracy_mean") -> float:
        values = self.values(*cell, measure=measure)
        return float(values.mean()) if len(values) else np.nan

    def have(self, position, group, prefix="") -> list[str]:
        """Names that occur in a group at a position of the cell: 1 setting, 2 data, 3 method."""
        cells = (c for c in self.cells if c[0] == group and c[1].startswith(prefix))
        return list(dict.fromkeys(c[position] for c in cells))

    def columns(self, group, own) -> list[str]:
        """Data sets of a group: the paper's, unless none of them was run, then any other."""
        found = self.have(2, group)
        shown = list(own) if not found or set(found) & set(own) else []
        return shown + [name for name in found if name not in own]

    def why_empty(self, dataset, *cell) -> str:
        if dataset in self.absent:
            return "data absent"
        lines = self.lines(*cell)
        return "refused: memory" if any("refused" in line for line in lines) else "not run"


class Notes:
    """Footnotes: each text once, with a letter.

    Parameters
    ----------
    first : tuple of str
        Notes without a letter.
    """

    def __init__(self, *first):
        self.first, self.letters = list(first), {}

    def mark(self, texts) -> str:
        return "".join(
            self.letters.setdefault(t, "abcdefghijklmnop"[len(self.letters)]) for t in texts
        )

    def all(self) -> list[str]:
        return self.first + [f"({letter}) {text}" for text, letter in self.letters.items()]


def scale_notes(lines, expected_trials, paper_epochs) -> list[str]:
    """Say how a cell's runs were smaller than the paper's."""
    notes = []
    if len(lines) < expected_trials:
        notes.append(f"{len(lines)} of {expected_trials} trials")
    epochs = {line["epochs"] for line in lines if line.get("epochs")}
    if paper_epochs and epochs and max(epochs) < PAPER_EPOCHS:
        notes.append(f"{max(epochs)} epochs, the paper has {PAPER_EPOCHS}")
    if any(line["train_size"] for line in lines):
        notes.append(f"{max(line['n_train'] for line in lines)} training rows")
    return notes


def percent(mean, sd=None) -> str:
    if mean is None or np.isnan(mean):
        return ""
    return f"{100 * mean:.2f}" if sd is None else f"{100 * mean:.2f} ± {100 * sd:.2f}"


def spread(values) -> float:
    return float(values.std(ddof=1)) if len(values) > 1 else 0.0


def accuracy_cells(results, group, settings, columns, methods, beside, notes, trials, of_paper):
    """Make the rows of an accuracy table: mean ± sd (rank) for each method and column.

    ``settings`` gives the setting of each column, ``beside(method, column)`` the paper's text.
    """
    cells = [[(group, s, c, m) for s, c in zip(settings, columns, strict=True)] for m in methods]
    means = np.array([[results.mean(*cell) for cell in row] for row in cells])
    rows = []
    for i, method in enumerate(methods):
        row = []
        for j, cell in enumerate(cells[i]):
            known = ~np.isnan(means[:, j])
            if not known[i]:
                row.append(Cell(results.why_empty(cell[2], *cell), paper=beside(method, j)))
                continue
            ranks = np.full(len(methods), np.nan)
            if known.sum() > 1:
                ranks[known] = rank_methods(means[None, known, j])[0]
            lines = [line for line in results.lines(*cell) if "refused" not in line]
            sd = spread(results.values(*cell)) if len(lines) > 1 else lines[0]["accuracy_sd"]
            rank = "" if np.isnan(ranks[i]) else f" ({ranks[i]:g})"
            row.append(
                Cell(
                    percent(means[i, j], sd) + rank,
                    bold=means[i, j] == np.nanmax(means[:, j]),
                    paper=beside(method, j),
                    mark=notes.mark(scale_notes(lines, trials, of_paper)),
                )
            )
        rows.append((METHOD_NAMES.get(method, method), row))
    return rows
