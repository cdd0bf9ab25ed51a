"""Cells of the tables: result lines gathered by data set, method and setting."""

from __future__ import annotations

from collections import defaultdict
from string import ascii_lowercase

import numpy as np
import pandas as pd
from lines import read_absent, read_lines
from plan import FRESH_SEEDS, GROUPS, METHOD_NAMES, SEEDS, plan, run_hash
from render import Table

from sklearn_cleanse import PAPER_SETTINGS, CleanSEClassifier
from sklearn_cleanse.comparison import rank_methods

_SET_NAMES = dict(lost="Lost", birdsong="BirdSong", msrcv2="MSRCv2", mnist="MNIST")
_SET_NAMES |= dict(soccer_player="Soccer Player", yahoo_news="Yahoo! News", cifar10="CIFAR-10")
_SET_NAMES |= dict(kmnist="Kuzushiji-MNIST", fashion_mnist="Fashion-MNIST")
RECIPES = {"ours": "our recipe for every network", "paper": "the paper's protocol"}
OTHER_TRIALS = "other trials than the fullest cells beside it: not compared"


def set_name(dataset: str) -> str:
    """Return the name of a data set as tables print it."""
    return _SET_NAMES.get(dataset.removesuffix(":fold0"), dataset)


def _base(dataset: str) -> str:
    return dataset.partition(":")[0]


class Results:
    """The lines of some folders, by cell: (group, setting, data set, method).

    Where a cell was run with several sets of parameters (the defaults changed, say), the one that
    `plan` has today counts; if there is none, the one with most trials; then, the newest. Of the
    fresh splits the last ten count: earlier ones have been seen.

    Parameters
    ----------
    lines : list of dict
        Result lines.
    absent : list of str
        Data sets known to be absent.
    """

    def __init__(self, lines, absent=()):
        self.absent = set(absent)
        last = max((line["seed"] // 10 for line in lines if line["group"] == "fresh"), default=0)
        variants = defaultdict(lambda: defaultdict(list))
        for line in sorted(lines, key=lambda line: line["seed"]):
            if line["group"] != "fresh" or line["seed"] // 10 == last:
                cell = (line["group"], line["setting"], line["dataset"], line["method"])
                variants[cell][str((line["params"], line.get("train_size")))].append(line)
        self.cells = {
            cell: next(iter(found.values())) if len(found) == 1 else _chosen(cell, found.values())
            for cell, found in variants.items()
        }

    @classmethod
    def read(cls, folders) -> Results:
        lines = [line for folder in folders for line in read_lines(folder)]
        return cls(lines, [name for folder in folders for name in read_absent(folder)])

    def lines(self, *cell) -> list[dict]:
        """Return the lines of a cell, by seed."""
        return self.cells.get(cell, [])

    def values(self, group, setting, dataset, method, measure="accuracy_mean") -> np.ndarray:
        """Return the values of a measure in the trials of a cell, where it has any."""
        found = (line.get(measure) for line in self.lines(group, setting, dataset, method))
        return np.array([value for value in found if value is not None], dtype=float)

    def mean(self, *cell) -> float:
        values = self.values(*cell)
        return float(values.mean()) if len(values) else np.nan

    def fastest(self, *cell) -> float:
        """Return the seconds of the fastest fit of a cell: the least disturbed by other work."""
        seconds = self.values(*cell, "seconds")
        return float(seconds.min()) if len(seconds) else np.nan

    def same_trials(self, cells) -> np.ndarray:
        """Return which of some cells have the trials of the fullest: the means of these compare."""
        lines = [[x for x in self.lines(*cell) if "refused" not in x] for cell in cells]
        seeds = [{line["seed"] for line in found} for found in lines]
        # Users' own methods do not set the measure: more trials of theirs change no table.
        known = [own for own, cell in zip(seeds, cells, strict=True) if cell[3] in METHOD_NAMES]
        fullest = max(known, key=len, default=set()) or max(seeds, key=len, default=set())
        return np.array([bool(own) and own == fullest for own in seeds], dtype=bool)

    def have(self, position, group, prefix="") -> list[str]:
        """List what occurs in a group at a position of the cell: 1 setting, 2 data, 3 method."""
        cells = (c for c in self.cells if c[0] == group and c[1].startswith(prefix))
        return list(dict.fromkeys(c[position] for c in cells))

    def columns(self, group, own) -> dict[str, str]:
        """Return the data sets of a group with their names: the paper's first, then any other."""
        found = self.have(2, group)
        names = [name for name in own if name in found or _base(name) in self.absent]
        return {name: set_name(name) for name in dict.fromkeys([*names, *found])}

    def why_empty(self, *cell) -> str:
        if _base(cell[2]) in self.absent:
            return "data absent"
        return "refused: memory" if any("refused" in x for x in self.lines(*cell)) else "not run"


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
    """Return the setting under which a method's lines are: users' own methods have but one."""
    return setting if method in METHOD_NAMES else "own"


def methods_of(results, group, setting) -> dict[str, str]:
    """Return the methods of a table with their names: the paper's order, then users' own."""
    other = "cleanse" if setting.startswith("paper") else "cleanse-paper"
    known = [method for method in GROUPS[group][2] if method != other]
    own = [method for method in results.have(3, group) if method not in METHOD_NAMES]
    return {method: METHOD_NAMES.get(method, method) for method in [*known, *own]}


class Notes(dict):
    """Footnotes: each text once, with its letter, or with none."""

    def __init__(self, first):
        super().__init__(dict.fromkeys(first, ""))

    def mark(self, texts) -> str:
        """Return the raised letters of some notes."""
        for text in texts:
            self.setdefault(text, ascii_lowercase[sum(map(bool, self.values())) % 26])
        marks = "".join(self[text] for text in dict.fromkeys(texts))
        return f"<sup>{marks}</sup>" if marks else ""

    def all(self) -> list[str]:
        ordered = sorted(self.items(), key=lambda note: note[1])
        return [f"({letter}) {text}" if letter else text for text, letter in ordered]


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
    full, whose = CleanSEClassifier().max_epochs, "the default is"
    if {group, setting[:5], method} & {"images", "as-published", "paper", "cleanse-paper"}:
        full, whose = PAPER_SETTINGS["max_epochs"], "the paper has"
    if 0 < epochs < full and setting != "own":
        notes.append(f"{epochs} epochs, {whose} {full}")
    if any(line.get("train_size") for line in lines):
        notes.append(f"{max(line['n_train'] for line in lines)} training rows")
    width = (lines[0].get("params", {}).get("module_params") or {}).get("width")
    if width:
        notes.append(f"ResNet-34 with {width} channels instead of 64 in its first stage")
    return notes


def mean_sd(values, scale=100) -> str:
    """Print the mean of values, and their standard deviation if there are several."""
    values = scale * np.asarray(values, dtype=float)
    return f"{values.mean():.2f}" + (f" ± {values.std(ddof=1):.2f}" if values.size > 1 else "")


def accuracy_table(
    name, title, results, columns, rows, *, ranked=True, notes=(), measure="accuracy_mean"
) -> Table:
    """Make a table of accuracies: mean ± sd, the paper's figure beside it, mean ranks at the end.

    Ranked, and bold as the best, are cells with the same trials only, if there are several.
    Columns without any line are left out, as are rows without one and without the paper's figure.

    Parameters
    ----------
    name, title : str
        Name and title of the table.
    results : Results
        The lines.
    columns : dict
        Heading of each column by its key.
    rows : dict
        By the heading of the row: cells by column, and the paper's figures by column.
    ranked : bool, default=True
        Whether rows compete.
    notes : tuple of str
        Notes below the table.
    measure : str, default="accuracy_mean"
        The field of the lines.
    """
    notes, shown, ranks, empty = Notes(notes), [], [], defaultdict(list)
    for key, heading in columns.items():
        cells = [row[key] for row, _ in rows.values()]
        if not any(results.lines(*cell) for cell in cells):
            empty[results.why_empty(*cells[0]) if cells else ""].append(heading)
            continue
        means, same = np.array([results.mean(*cell) for cell in cells]), results.same_trials(cells)
        rank = np.full(len(cells), np.nan)
        if ranked and same.sum() > 1:
            rank[same] = rank_methods(means[None, same])[0]
        best = rank == np.nanmin(rank, initial=np.inf)
        about = zip(cells, same, best, strict=True)
        texts = [_cell(results, *one, notes, measure) for one in about]
        shown.append((heading, texts))
        ranks.append(rank)
        printed = [f"{p[key]:.2f}" if key in p else "" for _, p in rows.values()]
        shown += [("paper", printed)] * any(printed)
    if ranked and len(ranks) > 1:
        texts = ["" if np.isnan(rank) else f"{rank:.1f}" for rank in np.mean(ranks, axis=0)]
        shown += [("mean rank", texts)] * any(texts)
    frame = pd.DataFrame(dict(enumerate(texts for _, texts in shown)), index=list(rows), dtype=str)
    frame.columns = [heading for heading, _ in shown]
    notes |= {f"{why.capitalize()}: {', '.join(names)}.": "" for why, names in empty.items() if why}
    is_empty = frame.isin(["", "not run", "data absent"]).all(axis=1)
    return Table(name, title, frame[~is_empty], notes.all())


def _cell(results, cell, same, best, notes, measure) -> str:
    values = results.values(*cell, measure)
    if not len(values):
        return results.why_empty(*cell)
    lines = [line for line in results.lines(*cell) if "refused" not in line]
    text = mean_sd(values, 1 if measure in ("seconds", "peak_memory_mb") else 100)
    if len(values) == 1 and measure == "accuracy_mean":  # the spread of its last epochs
        text += f" ± {100 * (lines[0].get('accuracy_sd') or 0):.2f}"
    marks = notes.mark(scale_notes(lines) + ([] if same else [OTHER_TRIALS]))
    return (f"**{text}**" if best else text) + marks
