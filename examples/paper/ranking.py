"""Statistics over cases: average ranks, Friedman, Bonferroni–Dunn, Wilcoxon, win/tie/loss."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
import paper_numbers as paper
from cells import RECIPES, methods_of, scale_notes, setting_of
from plan import BATCH_SIZES, METHOD_NAMES
from render import Table

from sklearn_cleanse.comparison import (
    critical_difference,
    friedman_from_ranks,
    friedman_test,
    rank_methods,
    wilcoxon_holm,
    win_tie_loss,
)

NEAR_COPIES = (
    "batch sizes or kinds of candidates of one set are near-copies of each other, which makes the "
    "test far too sure."
)


class Cases(NamedTuple):
    """Scores of methods in cases: a data set, or an image set at a batch size."""

    name: str
    title: str
    methods: list[str]
    headings: list[str]
    control: int
    cells: list[tuple]  # (group, setting, data set) of each case
    scores: np.ndarray  # cases × methods; NaN where a kernel method cannot run
    left_out: list[str]  # users' own methods that were not run in all of them

    def cell(self, case: int, method: int) -> tuple:
        """Return the cell of one method in one case."""
        (group, setting, dataset), name = self.cells[case], self.methods[method]
        return group, setting_of(name, setting), dataset, name


def gather(results) -> list[Cases]:
    """Find, per recipe and group, the cases that every network was run in alike."""
    found = [
        _gather(results, "fresh", "fresh splits", ("fresh",), "ours"),
        _gather(results, "controlled", "controlled candidates", ("controlled",), "ours"),
        *(_gather(results, r, RECIPES[r], ("real", "images"), r) for r in RECIPES),
    ]
    return [cases for cases in found if cases is not None]


def _gather(results, name, title, groups, recipe) -> Cases | None:
    methods = {m: h for g in groups for m, h in methods_of(results, g, recipe).items()}
    cells = []
    for group in groups:
        sizes = [f"-batch-{size}" for size in BATCH_SIZES] if group == "images" else [""]
        cells += [(group, recipe + s, d) for d in results.have(2, group) for s in sizes]
    scores = np.full((len(cells), len(methods)), np.nan)
    for i, (group, setting, dataset) in enumerate(cells):
        row = [(group, setting_of(m, setting), dataset, m) for m in methods]
        for j in np.flatnonzero(results.same_trials(row)):
            scores[i, j] = results.mean(*row[j])
    frame = pd.DataFrame(scores, columns=list(methods)).dropna(axis=1, how="all")  # run nowhere
    own = "cleanse-paper" if recipe == "paper" else "cleanse"
    if own not in frame or frame.shape[1] < 3:
        return None
    # On image sets kernel methods do not fit into memory; elsewhere a hole means "not yet". DPCLS,
    # slow on large sets, and users' own methods take part if they were run in all cases.
    is_image = np.array([group == "images" for group, *_ in cells])[:, None]
    is_there = frame.notna() | (is_image & frame.columns.isin(["pl-cgr", "dpcls"]))
    needed = frame.columns.isin([name for name in METHOD_NAMES if name != "dpcls"])
    is_whole = (is_there | ~needed).all(axis=1)
    if is_whole.sum() < 2:
        return None
    takes_part = needed | is_there[is_whole].all()
    left_out = [methods[m] for m in frame.columns[~takes_part]]
    frame = frame.loc[is_whole, takes_part]
    names = list(frame.columns)
    kept = [cell for cell, whole in zip(cells, is_whole, strict=True) if whole]
    headings = [methods[m] for m in names]
    return Cases(name, title, names, headings, names.index(own), kept, frame.to_numpy(), left_out)


def average_ranks(cases: Cases) -> np.ndarray:
    """Return the average ranks; what could not run shares the worst, as in the paper."""
    return rank_methods(cases.scores, missing="worst").mean(axis=0)


def paper_table() -> Table:
    """Recompute the paper's Friedman table from its printed ranks and from its accuracies."""
    methods, n = list(paper.AVERAGE_RANKS), len(paper.ACCURACY)
    scores = [[case.get(m, [np.nan])[0] for m in methods] for case in paper.ACCURACY.values()]
    corrected = friedman_test(scores, missing="worst")
    columns = {
        "from printed ranks": friedman_from_ranks(list(paper.AVERAGE_RANKS.values()), n),
        "from printed accuracies": friedman_from_ranks(corrected.average_ranks, n),
        "the same, corrected for ties": corrected,
    }
    cd = critical_difference(len(methods), n, test="bonferroni-dunn")
    tests = ["Friedman chi2", "F_F", "critical value", "critical difference"]
    frame = pd.DataFrame(index=[*(METHOD_NAMES[m] for m in methods), *tests])
    for heading, r in columns.items():
        numbers = [*r.average_ranks, r.chi2, r.f_statistic, r.critical_value]
        frame[heading] = [f"{number:.2f}" for number in numbers] + [f"{cd:.3f}"]
    printed = [paper.F_STATISTIC, paper.CRITICAL_VALUE, paper.CRITICAL_DIFFERENCE]
    ranks = [f"{rank:.2f}" for rank in paper.AVERAGE_RANKS.values()]
    frame["paper"] = [*ranks, "", *map(str, printed)]
    notes = [
        "Three printed ranks do not follow from the printed accuracies (CC on KMNIST at batch 256, "
        "CAVL on CIFAR-10 at batch 64 and 128), so that the printed averages sum to 36.04, not 36.",
        "The kernel methods share ranks 7 and 8 in all 20 image cases, where they were not run.",
        f"The {n} cases are not {n} data sets: {NEAR_COPIES}",
    ]
    return Table("friedman-of-paper", "The paper's Friedman table, recomputed", frame, notes)


def ranking_table(results, cases: Cases) -> Table:
    """Compare CleanSE with each method over a set of cases."""
    result = friedman_test(cases.scores, missing="worst")
    k, n, control = len(cases.methods), len(cases.cells), cases.control
    cd = critical_difference(k, n, test="bonferroni-dunn")
    # Scores that are missing count as worst here, too: any number below all others does.
    wilcoxon = wilcoxon_holm(np.nan_to_num(cases.scores, nan=-1.0), control)
    # Splits share training rows and are corrected for it; an image set has its one test part.
    trials, images = _trials(results, cases), np.array([c[0] == "images" for c in cases.cells])
    counts = win_tie_loss(trials[~images], control, test_share=0.1)
    counts += win_tie_loss(trials[images], control)
    rows, best = {}, result.average_ranks.min()
    for i, heading in enumerate(cases.headings):
        rank = result.average_ranks[i]
        away = rank - result.average_ranks[control]
        printed = paper.AVERAGE_RANKS.get("cleanse" if i == control else cases.methods[i])
        rows[heading] = {
            "average rank": f"**{rank:.2f}**" if rank == best else f"{rank:.2f}",
            "paper": f"{printed:.2f}" if printed else "",
            "ranks behind CleanSE": f"{away:+.2f}" + (", differs" if abs(away) > cd else ""),
            "Wilcoxon p (Holm)": f"{wilcoxon.adjusted[i]:.3g}",
            "CleanSE wins/ties/losses": "/".join(map(str, counts[i])),
        }
        if i == control:
            rows[heading] |= dict.fromkeys(list(rows[heading])[2:], "–")
    frame = pd.DataFrame.from_dict(rows, orient="index", dtype=str)
    if cases.name == "controlled":  # nothing of the paper's to compare with
        frame = frame.drop(columns="paper")
    notes = _ranking_notes(results, cases, result, wilcoxon, cd)
    return Table(f"friedman-{cases.name}", f"Ranks: {cases.title}", frame, notes)


def _ranking_notes(results, cases, result, wilcoxon, cd) -> list[str]:
    n = len(cases.cells)
    names = ", ".join(f"{d} {s.partition('-')[2]}".strip() for _, s, d in cases.cells)
    notes = [
        str(result).split("\n")[0] + ".",
        f"Bonferroni–Dunn against {cases.headings[cases.control]}: critical "
        f"difference {cd:.2f}. {result.note}".strip(),
        wilcoxon.note or "",
        "Wins, ties and losses of CleanSE by t-tests over paired trials at 0.05, corrected for "
        "overlapping training rows (Nadeau and Bengio) where trials are splits.",
        f"Cases, with the same trials for all methods: {names}.",
    ]
    if np.isnan(cases.scores).any():
        notes.append("Where a kernel method cannot run it counts as worse than all others.")
    if len({dataset.partition(":")[0] for *_, dataset in cases.cells}) < n:
        notes.append(f"The {n} cases are not {n} data sets: {NEAR_COPIES}")
    if cases.left_out:
        notes.append(f"Not run in all cases, and so left out: {', '.join(cases.left_out)}.")
    every = (cases.cell(i, j) for i in range(n) for j in range(len(cases.methods)))
    smaller = dict.fromkeys(note for cell in every for note in scale_notes(results.lines(*cell)))
    if smaller:
        notes.append(f"Some cells are of smaller scale: {'; '.join(smaller)}.")
    return [note for note in notes if note]


def _trials(results, cases: Cases) -> np.ndarray:
    """Return scores of all trials, aligned by seed: cases × methods × seeds, NaN where missing."""
    shape = len(cases.cells), len(cases.methods)
    lines = {at: results.lines(*cases.cell(*at)) for at in np.ndindex(shape)}
    found = {at: {x["seed"]: x.get("accuracy_mean") for x in some} for at, some in lines.items()}
    return pd.DataFrame(found, dtype=float).T.to_numpy().reshape(*shape, -1)
