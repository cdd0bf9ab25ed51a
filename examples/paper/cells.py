"""Cells of the tables: result lines gathered by data set, method and setting."""

from __future__ import annotations

from collections import defaultdict
from string import ascii_lowercase

import numpy as np
from lines import read_absent, read_lines
from plan import FRESH_SEEDS, GROUPS, SEEDS, plan, run_hash
from render import Cell

from sklearn_cleanse import PAPER_SETTINGS, CleanSEClassifier
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
OTHER_TRIALS = "other trials than the fullest cells beside it: not compared"


class Results:
    """The lines of a folder, by cell.

    Where a cell was run with several sets of parameters (the defaults changed, say), the one that
    `plan` has today counts; if there is none, the one with most trials; then, the newest.

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
            cell: next(iter(found.values())) if len(found) == 1 else _chosen(cell, found.values())
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

    def same_trials(self, cells) -> list[bool]:
        """Tell which of some cells have the trials of the fullest: the means of these compare."""
        seeds = [
            {x["seed"] for x in self.lines(*cell) if x.get("accuracy_mean") is not None}
            for cell in cells
        ]
        # Users' own methods do not set the measure: more trials of theirs change no table.
        known = [own for own, cell in zip(seeds, cells, strict=True) if cell[3] in METHOD_NAMES]
        fullest = max(known, key=len, default=set()) or max(seeds, key=len, default=set())
        return [bool(own) and own == fullest for own in seeds]

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


def _chosen(cell, variants) -> list[dict]:
    """Choose among the sets of parameters that a cell was run with."""
    group, setting, dataset, method = cell
    seeds = sorted({line["seed"] for lines in variants for line in lines})
    only = {"datasets": [dataset], "methods": [method], "settings": [setting], "seeds": seeds}
    try:
        planned = {run_hash(task) for task in plan(group, **only)} if group in GROUPS else set()
    except ImportError:  # a method of one's own that is not here any more
        planned = set()

    def worth(lines):
        newest = max(line["finished"] for line in lines)
        return any(line["run"] in planned for line in lines), len(lines), newest

    return max(variants, key=worth)


def setting_of(method, setting) -> str:
    """Tell the setting under which a method's lines are: users' own methods have but one."""
    return setting if method in METHOD_NAMES else "own"


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
            self.letters.setdefault(text, ascii_lowercase[len(self.letters)])
            for text in dict.fromkeys(texts)
        )

    def all(self) -> list[str]:
        return self.first + [f"({letter}) {text}" for text, letter in self.letters.items()]


def scale_notes(lines) -> list[str]:
    """Say how a cell's runs were smaller than planned, or than the paper's where they follow it."""
    if not lines:
        return []
    notes = []
    group, setting, method = (lines[0][name] for name in ("group", "setting", "method"))
    trials = {"fresh": len(FRESH_SEEDS), "images": 1}.get(group, len(SEEDS))
    if len(lines) < trials:
        notes.append(f"{len(lines)} of {trials} trials")
    epochs = max(line.get("epochs") or 0 for line in lines)
    of_paper = group == "images" or setting.startswith("paper") or method == "cleanse-paper"
    full = PAPER_SETTINGS["max_epochs"] if of_paper else CleanSEClassifier().max_epochs
    if 0 < epochs < full and setting != "own":
        whose = "the paper has" if of_paper else "the default is"
        notes.append(f"{epochs} epochs, {whose} {full}")
    if any(line["train_size"] for line in lines):
        notes.append(f"{max(line['n_train'] for line in lines)} training rows")
    return notes


def percent(mean, sd=None) -> str:
    if mean is None or np.isnan(mean):
        return ""
    return f"{100 * mean:.2f}" if sd is None else f"{100 * mean:.2f} ± {100 * sd:.2f}"


def spread(values) -> float:
    return float(values.std(ddof=1)) if len(values) > 1 else 0.0


def accuracy_cells(results, group, settings, columns, methods, beside, notes):
    """Make the rows of an accuracy table: mean ± sd (rank) for each method and column.

    ``settings`` gives the setting of each column, ``beside(method, column)`` the paper's text.
    Ranked, and bold as the best, are cells with the same trials only, if there are several.
    """
    pairs = list(zip(settings, columns, strict=True))
    cells = [[(group, setting_of(m, s), c, m) for s, c in pairs] for m in methods]
    means = np.array([[results.mean(*cell) for cell in row] for row in cells])
    same = np.array([results.same_trials(column) for column in zip(*cells, strict=True)]).T
    ranks = np.full(means.shape, np.nan)
    for j in range(len(columns)):
        if same[:, j].sum() > 1:
            ranks[same[:, j], j] = rank_methods(means[None, same[:, j], j])[0]
    best = np.min(ranks, axis=0, initial=np.inf, where=~np.isnan(ranks))
    rows = []
    for i, method in enumerate(methods):
        row = []
        for j, cell in enumerate(cells[i]):
            if np.isnan(means[i, j]):
                row.append(Cell(results.why_empty(cell[2], *cell), paper=beside(method, j)))
                continue
            lines = [line for line in results.lines(*cell) if "refused" not in line]
            sd = spread(results.values(*cell)) if len(lines) > 1 else lines[0]["accuracy_sd"]
            rank = "" if np.isnan(ranks[i, j]) else f" ({ranks[i, j]:g})"
            about = scale_notes(lines) + ([] if same[i, j] else [OTHER_TRIALS])
            row.append(
                Cell(
                    percent(means[i, j], sd) + rank,
                    bold=bool(ranks[i, j] == best[j]),
                    paper=beside(method, j),
                    mark=notes.mark(about),
                )
            )
        rows.append((METHOD_NAMES.get(method, method), row))
    return rows
