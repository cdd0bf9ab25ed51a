"""The claims of the paper, and the rules that decide them, written before the runs.

A rule gives one boolean per case, and none for cases that were not run. All true: "holds"; some:
"holds in part"; none: "does not hold". Cases are decided by means over trials; a gain counts if it
is above twice its standard error over paired trials (above half a point if there is one trial).
"""

from collections.abc import Callable
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np
import pandas as pd
import paper_numbers as paper
from cells import Table, ten_sets, with_notes
from data import MNISTS, set_name
from plan import ABLATION, BATCH_SIZES, FOLD0, LAMBDAS, METHODS, SIX, TEMPERATURES, tl_setting

from sklearn_cleanse.comparison import friedman_test

PAPER, NET, CIFAR_SIZES = "cleanse-paper", "cleanse-paper-net", (16, 64, 256)


class Scores:
    """Scores in % by cell, as series over trials."""

    def __init__(self, lines):
        keys = ["group", "dataset", "method", "setting"]
        self._cells = {key: part.set_index("seed").score for key, part in lines.groupby(keys)}
        self.lines = lines

    def get(self, group, dataset, method, setting="") -> pd.Series:
        """Return the scores of a cell by seed; empty if it was not run."""
        return self._cells.get((group, dataset, method, setting), pd.Series(dtype=float))

    def means(self, group, dataset, methods, settings=("",)) -> list[float]:
        """Return the means of some cells, or an empty list if one of them was not run."""
        cells = [self.get(group, dataset, m, s) for m, s in product(methods, settings)]
        return [cell.mean() for cell in cells] if all(map(len, cells)) else []

    def gain(self, first, second) -> tuple[bool, float] | None:
        """Return whether the second cell is better than the first, and by how much."""
        difference = (self.get(*second) - self.get(*first)).dropna()
        n = len(difference)
        error = difference.std(ddof=1) / n**0.5 if n > 1 else 0.25
        return (bool(difference.mean() > 2 * error), float(difference.mean())) if n else None


#: What was compared: whether it is as claimed, and a figure: points, or a text.
Cases = dict[str, tuple[bool, float | str]]
Rule = tuple[str, Callable[[Scores], Cases]]


def near(*methods, points=2.0) -> Rule:
    """Compare means with the printed figures."""

    def cases(scores):
        found = {}
        for dataset, method in product(FOLD0, methods):
            ours = scores.get("as-published", dataset, method)
            if len(ours):
                row = paper.ACCURACY[dataset.partition(":")[0], None]
                gap = ours.mean() - row["cleanse" if method == PAPER else method][0]
                found[f"{METHODS[method]} {set_name(dataset)}"] = bool(abs(gap) <= points), gap
        return found

    return f"within {points:g} points of the printed figure", cases


def gains(first, second, method=PAPER) -> Rule:
    """Compare a setting of the ablation with each of the first; the smallest gain decides."""

    def cases(scores):
        found = {}
        for dataset in FOLD0:
            cell = ("ablation", dataset, method)
            ends = [(*cell, tl_setting(*ABLATION[name])) for name in (*first, second)]
            cases = [scores.gain(start, ends[-1]) for start in ends[:-1]]
            if None not in cases:
                found[set_name(dataset)] = min(cases, key=lambda case: case[1])
        return found

    return "gain above twice its standard error", cases


def best_value(values, setting, wanted) -> Rule:
    """Look for the best value of a parameter among those wanted."""

    def cases(scores):
        found = {}
        for dataset in FOLD0:
            means = scores.means("ablation", dataset, [PAPER], map(setting, values))
            if means:
                best = values[int(np.argmax(means))]
                found[set_name(dataset)] = best in wanted, f"{best:g}"
        return found

    return "highest mean at such a value; the figures are the best values", cases


def leads(group, datasets, method, others, sizes=(), sign=1) -> Rule:
    """Compare a method with the best of the others (or, by ``sign``, with the worst)."""

    def cases(scores):
        found = {}
        for dataset, setting in product(datasets, [f"batch {size}" for size in sizes] or [""]):
            means = scores.means(group, dataset, (method, *others), [setting])
            if means:
                lead = means[0] - (max(means[1:]) if sign > 0 else min(means[1:]))
                found[f"{set_name(dataset)} {setting}".strip()] = bool(sign * lead > 0), lead
        return found

    return f"{'higher' if sign > 0 else 'lower'} mean than each of the others", cases


def rises(group, datasets, sizes, sign=1) -> Rule:
    """Compare accuracies from the smallest to the largest batch."""

    def cases(scores):
        found = {}
        for dataset in datasets:
            means = scores.means(group, dataset, [PAPER], [f"batch {size}" for size in sizes])
            if means:
                steps = [sign * (after - before) > 0 for before, after in pairwise(means)]
                gain = means[-1] - means[0]
                found[set_name(dataset)] = bool(sign * gain > 0 and np.mean(steps) > 0.5), gain
        return found

    verb = "higher" if sign > 0 else "lower"
    return f"{verb} at the largest batch than at the smallest, and so in most steps", cases


def rejects(scores) -> Cases:
    """Test our data sets by Friedman's test."""
    cases = ten_sets(scores.lines)
    if cases.empty:
        return {}
    result = friedman_test(cases.to_numpy())
    return {"F": (bool(result.significant), f"{result.f_statistic:.1f}")}


class Claim(NamedTuple):
    """A claim, its rule in words, and the function that decides each case."""

    text: str
    rule: str
    cases: Callable[[Scores], Cases]
    is_open: bool = False  # whether the claim cannot be decided for it at our size


_PUBLISHED, _MNISTS = ("as-published", FOLD0), ("images", MNISTS)
_CIFAR = ("cifar10", ["cifar10"])
_LAMBDA = best_value(LAMBDAS, lambda weight: tl_setting(3, weight), (1e-4, 1e-3, 1e-2))
_T = best_value(TEMPERATURES, lambda temperature: tl_setting(temperature, 1e-3), (3.0,))
_F = "F above its critical value over three real and seven controlled sets"
_REAL = "on the real sets"
_FIVE = "CleanSE (paper's form) is better than CC, RC, LWS, CAVL and SCARCE on"

CLAIMS = [
    Claim(f"CC and RC as printed {_REAL}", *near("cc", "rc")),
    Claim(f"LWS, CAVL and SCARCE as printed {_REAL}", *near("lws", "cavl", "scarce")),
    Claim(f"PL-CGR and DPCLS as printed {_REAL}", *near("pl-cgr", "dpcls")),
    Claim(f"CleanSE (paper's form) as printed {_REAL}", *near(PAPER)),
    Claim(f"{_FIVE} the real sets", *leads(*_PUBLISHED, PAPER, SIX[:5])),
    Claim(
        f"SCARCE is the weakest network {_REAL}",
        *leads(*_PUBLISHED, "scarce", (*SIX[:4], PAPER), sign=-1),
    ),
    Claim("Votes gain (paper's form)", *gains(["neither"], "votes")),
    Claim("Counts gain (paper's form)", *gains(["neither"], "counts")),
    Claim("Both gain over each alone (paper's form)", *gains(["votes", "counts"], "both")),
    Claim("Votes gain more than counts (paper's form)", *gains(["counts"], "votes")),
    Claim("Our votes gain in the paper's network", *gains(["neither"], "votes", NET)),
    Claim("Counts gain beside our votes", *gains(["votes"], "both", NET)),
    Claim("T = 3 is best (paper's form)", *_T),
    Claim("λ is best from 1e-4 to 1e-2 (paper's form)", *_LAMBDA),
    Claim(f"{_FIVE} the three MNISTs", *leads(*_MNISTS, PAPER, SIX[:5], BATCH_SIZES)),
    Claim("Larger batches are better on the three MNISTs", *rises(*_MNISTS, BATCH_SIZES)),
    Claim(f"{_FIVE} CIFAR-10", *leads(*_CIFAR, PAPER, SIX[:5], CIFAR_SIZES), True),
    Claim("Larger batches are worse on CIFAR-10", *rises(*_CIFAR, CIFAR_SIZES, sign=-1), True),
    Claim("Friedman's test rejects that all methods are alike", _F, rejects),
]


def decide(claim: Claim, scores: Scores) -> tuple[str, str]:
    """Return the verdict on a claim and its figures."""
    cases = claim.cases(scores)
    right = [is_right for is_right, _ in cases.values()]
    verdict = "holds" if all(right) else "holds in part" if any(right) else "does not hold"
    if claim.is_open and any(right):
        verdict = "not decided at this size"
    known = [figure for _, figure in cases.values()]
    figures = [figure if isinstance(figure, str) else f"{figure:+.1f}" for figure in known]
    text = ", ".join(map(" ".join, zip(cases, figures, strict=True)))
    if len(figures) > 6:
        text = f"{sum(right)} of {len(right)} cases, {min(known):+.1f} to {max(known):+.1f}"
    return (verdict, text) if cases else ("not run", "")


def verdict_table(lines) -> Table:
    """Make the table of claims and verdicts."""
    scores = Scores(lines)
    rows = {claim.text: [claim.rule, *decide(claim, scores)] for claim in CLAIMS}
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=["rule", "verdict", "figures"])
    used = lines[lines.group.isin(["as-published", "ablation", "images", "cifar10"])]
    note = (
        "Figures: points by which ours differ, gain or lead. Cases that were not run do not count. "
        "A claim that holds on 5,000 images of CIFAR-10 is not decided: few updates may explain it."
    )
    return Table("verdicts", "Claims of the paper", frame, with_notes(used, note))
