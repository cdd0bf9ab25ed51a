"""Statistics over cases: average ranks, Friedman, Bonferroni–Dunn, Wilcoxon, win/tie/loss."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import paper_numbers as paper
from cells import METHOD_NAMES, RECIPES, scale_notes, setting_of
from plan import BATCH_SIZES
from render import Cell, Table

from sklearn_cleanse.comparison import (
    FriedmanResult,
    critical_difference,
    friedman_from_ranks,
    friedman_test,
    rank_methods,
    wilcoxon_holm,
    win_tie_loss,
)

KERNEL = ("pl-cgr", "dpcls")
NEAR_COPIES = (
    "batch sizes of one image set are near-copies of each other, which makes the test far too sure."
)


class Cases(NamedTuple):
    """Scores of methods in cases: a real data set, or an image set at a batch size."""

    name: str
    title: str
    methods: list[str]
    control: int
    cells: list[tuple]  # (group, setting, data set) of each case
    scores: np.ndarray  # cases × methods; NaN where a kernel method cannot run
    left_out: list[str]  # users' own methods that were not run in all of them

    def lines(self, results, case: int, method: int) -> list[dict]:
        """Lines of one method in one case."""
        (group, setting, dataset), name = self.cells[case], self.methods[method]
        return results.lines(group, setting_of(name, setting), dataset, name)


def gather(results, methods_of) -> list[Cases]:
    """Find, per recipe and for the fresh splits, the cases that every network was run in alike."""
    found = []
    for name, title, groups, recipe in (
        ("fresh", "fresh splits", ("fresh",), "ours"),
        ("ours", RECIPES["ours"], ("real", "images"), "ours"),
        ("paper", RECIPES["paper"], ("real", "images"), "paper"),
    ):
        methods = list(dict.fromkeys(m for g in groups for m in methods_of(results, g, recipe)))
        cases = []
        for group in groups:
            settings = [recipe]
            if group == "images":
                settings = [f"{recipe}-batch-{size}" for size in BATCH_SIZES]
            for dataset in results.have(2, group):
                cases += [(group, setting, dataset) for setting in settings]
        scores = np.full((len(cases), len(methods)), np.nan)
        for i, (group, setting, dataset) in enumerate(cases):
            cells = [(group, setting_of(m, setting), dataset, m) for m in methods]
            for j in np.flatnonzero(results.same_trials(cells)):
                scores[i, j] = results.mean(*cells[j])
        seen = ~np.isnan(scores)
        # A method that was run nowhere is not part of the comparison.
        used = seen.any(axis=0) if len(cases) else np.zeros(len(methods), dtype=bool)
        methods = [m for m, u in zip(methods, used, strict=True) if u]
        own = "cleanse-paper" if recipe == "paper" else "cleanse"
        if own not in methods or len(methods) < 3:
            continue
        scores, seen = scores[:, used], seen[:, used]
        # On image sets kernel methods do not fit into memory; elsewhere a hole means "not yet".
        # A method of a user's own takes part if it was run in all cases, and costs the others none.
        need = [
            [m in METHOD_NAMES and (m not in KERNEL or c[0] != "images") for m in methods]
            for c in cases
        ]
        whole = (seen | ~np.array(need)).all(axis=1)
        if whole.sum() >= 2:
            kept = [c for c, w in zip(cases, whole, strict=True) if w]
            part = np.array([m in METHOD_NAMES for m in methods]) | seen[whole].all(axis=0)
            left_out = [m for m, p in zip(methods, part, strict=True) if not p]
            methods = [m for m, p in zip(methods, part, strict=True) if p]
            scores = scores[np.ix_(whole, part)]
            found.append(Cases(name, title, methods, methods.index(own), kept, scores, left_out))
    return found


def friedman_of(cases: Cases) -> FriedmanResult:
    """Test a set of cases; what could not run shares the worst ranks, as in the paper."""
    return friedman_test(cases.scores, missing="worst")


def ranking_tables(results, methods_of) -> list[Table]:
    """Make the tables of statistics: the paper's own, recomputed, and ours."""
    return [paper_table(), *(_ours(results, cases) for cases in gather(results, methods_of))]


def paper_table() -> Table:
    """Recompute the paper's Friedman table from its printed ranks and from its accuracies."""
    methods = list(paper.AVERAGE_RANKS)
    printed = friedman_from_ranks(list(paper.AVERAGE_RANKS.values()), paper.N_CASES)
    scores = [[case.get(m, np.nan) for m in methods] for case in paper.all_cases()]
    recomputed = friedman_test(scores, missing="worst")
    plain = friedman_from_ranks(recomputed.average_ranks, paper.N_CASES)
    results = (printed, plain, recomputed)
    cd = critical_difference(len(methods), paper.N_CASES, test="bonferroni-dunn")
    rows = [
        (METHOD_NAMES[m], [Cell(f"{r.average_ranks[i]:.2f}") for r in results])
        for i, m in enumerate(methods)
    ]
    for head, name, form in (
        ("Friedman chi2", "chi2", ".2f"),
        ("F_F", "f_statistic", ".2f"),
        ("critical value", "critical_value", ".2f"),
    ):
        cells = [Cell(format(getattr(r, name), form)) for r in results]
        if name == "f_statistic":
            cells[0] = cells[0]._replace(paper=str(paper.F_STATISTIC))
        if name == "critical_value":
            cells[0] = cells[0]._replace(paper=str(paper.CRITICAL_VALUE))
        rows.append((head, cells))
    differences = [Cell(f"{cd:.3f}", paper=str(paper.CRITICAL_DIFFERENCE))]
    rows.append(("critical difference", differences + 2 * [Cell(f"{cd:.3f}")]))
    notes = [
        "Three printed ranks do not follow from the printed accuracies (CC on KMNIST at batch 256, "
        "CAVL on CIFAR-10 at batch 64 and 128), so that the printed averages sum to 36.04, not 36.",
        "The kernel methods share ranks 7 and 8 in all 20 image cases, where they were not run.",
        f"The {paper.N_CASES} cases are not {paper.N_CASES} data sets: {NEAR_COPIES}",
    ]
    columns = ["from printed ranks", "from printed accuracies", "the same, corrected for ties"]
    return Table(
        "friedman-of-paper", "The paper's Friedman table, recomputed", columns, rows, notes
    )


def _ours(results, cases: Cases) -> Table:
    result = friedman_of(cases)
    k, n = len(cases.methods), len(cases.cells)
    cd = critical_difference(k, n, test="bonferroni-dunn")
    ranks = result.average_ranks
    # Scores that are missing count as worst here, too: any number below all others does.
    filled = np.where(np.isnan(cases.scores), -1.0, cases.scores)
    wilcoxon = wilcoxon_holm(filled, cases.control)
    # Splits share training rows and are corrected for it; an image set has its one test part.
    trials, images = _trials(results, cases), np.array([c[0] == "images" for c in cases.cells])
    counts = win_tie_loss(trials[~images], cases.control, test_share=0.1)
    counts += win_tie_loss(trials[images], cases.control)
    rows = []
    for i, method in enumerate(cases.methods):
        beside = paper.AVERAGE_RANKS.get("cleanse" if i == cases.control else method)
        away = ranks[i] - ranks[cases.control]
        cells = [
            Cell(
                f"{ranks[i]:.2f}", bool(ranks[i] == ranks.min()), f"{beside:.2f}" if beside else ""
            )
        ]
        if i == cases.control:
            cells += [Cell("–")] * 3
        else:
            cells.append(Cell(f"{away:+.2f}" + (", differs" if abs(away) > cd else "")))
            cells.append(Cell(f"{wilcoxon.adjusted[i]:.3g}"))
            cells.append(Cell("/".join(map(str, counts[i]))))
        rows.append((METHOD_NAMES.get(method, method), cells))
    names = ", ".join(
        dataset if group != "images" else f"{dataset} {setting.partition('-')[2]}"
        for group, setting, dataset in cases.cells
    )
    notes = [
        str(result).split("\n")[0] + ".",
        f"Bonferroni–Dunn against {METHOD_NAMES[cases.methods[cases.control]]}: critical "
        f"difference {cd:.2f}. {result.note}".strip(),
        *([wilcoxon.note] if wilcoxon.note else []),
        "Wins, ties and losses of CleanSE by t-tests over paired trials at 0.05, corrected for "
        "overlapping training rows (Nadeau and Bengio) where trials are splits.",
        f"Cases, with the same trials for all methods: {names}.",
    ]
    if np.isnan(cases.scores).any():
        notes.append(
            "Where a kernel method cannot run it counts as worse than all others, in the ranks and "
            "in Wilcoxon's test."
        )
    if len({dataset for *_, dataset in cases.cells}) < n:
        notes.append(f"The {n} cases are not {n} data sets: {NEAR_COPIES}")
    if cases.left_out:
        notes.append(f"Not run in all cases, and so left out: {', '.join(cases.left_out)}.")
    every = [cases.lines(results, i, j) for i in range(n) for j in range(k)]
    smaller = dict.fromkeys(note for lines in every for note in scale_notes(lines))
    if smaller:
        notes.append(f"Some cells are of smaller scale: {'; '.join(smaller)}.")
    columns = [
        "average rank",
        "ranks behind CleanSE",
        "Wilcoxon p (Holm)",
        "CleanSE wins/ties/losses",
    ]
    return Table(f"friedman-{cases.name}", f"Ranks: {cases.title}", columns, rows, notes)


def _trials(results, cases: Cases) -> np.ndarray:
    """Scores of all trials, aligned by seed: cases × methods × seeds, NaN where missing."""
    lines = {
        (i, j): {line["seed"]: line.get("accuracy_mean") for line in cases.lines(results, i, j)}
        for i in range(len(cases.cells))
        for j in range(len(cases.methods))
    }
    seeds = sorted({seed for found in lines.values() for seed in found})
    scores = np.full((len(cases.cells), len(cases.methods), len(seeds)), np.nan)
    for (i, j), found in lines.items():
        for seed, value in found.items():
            if value is not None:
                scores[i, j, seeds.index(seed)] = value
    return scores


def average_ranks(cases: Cases) -> np.ndarray:
    """Average ranks of a set of cases."""
    return rank_methods(cases.scores, missing="worst").mean(axis=0)
