"""Cells of the tables: result lines as a frame, means ± standard deviations as texts."""

from itertools import product
from typing import NamedTuple

import pandas as pd
import paper_numbers as paper
from data import ABSENT, set_name
from lines import frame_of, read_lines
from plan import GROUPS, METHODS

BEFORE = "Measured with an earlier version."
ACCURACY = "Test accuracy in %, mean ± standard deviation"
OURS = "cleanse"


class Table(NamedTuple):
    """A table: a name for marks and files, a title, a frame of texts, and notes below."""

    name: str
    title: str
    frame: pd.DataFrame
    notes: list[str]


def load(*folders) -> pd.DataFrame:
    """Return the lines of folders with their score in %."""
    return with_scores([line for folder in folders for line in read_lines(folder)])


def with_scores(found) -> pd.DataFrame:
    """Return lines as a frame with their score in %: what the tables of a group show."""
    lines = frame_of(found)
    renewed = lines.group.isin(lines.group[~lines.before])
    lines = lines[~(lines.before & renewed)]
    last = lines.group.map({name: group.last for name, group in GROUPS.items()}).eq(True)
    score = lines.accuracy.where(~last, lines.accuracy_last.fillna(lines.accuracy))
    return lines.assign(score=100 * score.astype(float))


def of(lines, group, **fields) -> pd.DataFrame:
    """Return the lines of a group with some values of other fields."""
    lines = lines[lines.group == group]
    for name, values in fields.items():
        lines = lines[lines[name].isin([values] if isinstance(values, str) else list(values))]
    return lines


def grid(lines, rows, columns, by=("method", "dataset"), *, digits=1, once=(), ranked=True):
    """Return texts of mean ± standard deviation: a frame of rows × columns, best in bold.

    Rows and columns are dicts of headings. A cell of fewer trials than others shows it. Cells with
    the most trials of their column compete, and those of rows in ``once``, which need one trial.
    """
    cells = lines.groupby(list(by)).score
    mean, std, count = (
        found.unstack().reindex(index=rows, columns=columns)
        for found in (cells.mean().round(digits + 2), cells.std(), cells.count())
    )
    count = count.fillna(0)
    competes = count.eq(count.max()) | (count.gt(0) & count.index.isin(list(once))[:, None])
    best = mean.where(competes).eq(mean.where(competes).max())
    texts = pd.DataFrame("", index=list(rows), columns=list(columns))
    most = int(count.to_numpy().max(initial=0))
    for row, column in product(rows, columns):
        n = int(count.at[row, column])
        text = f"{mean.at[row, column]:.{digits}f}"
        if n > 1:
            text += f" ± {std.at[row, column]:.{digits}f}"
        text = f"**{text}**" if best.at[row, column] and ranked else text
        if n < most and row not in once:
            text += f" ({n} of {most})"
        absent = str(column).partition(":")[0] in ABSENT
        texts.at[row, column] = text if n else "data absent" if absent else "not run"
    return texts.rename(index=rows, columns=columns)


def method_names(keys, lines=None) -> dict[str, str]:
    """Return methods with their names, then users' own that have lines."""
    own = [] if lines is None else [m for m in lines.method.unique() if m not in METHODS]
    return {method: METHODS.get(method, method) for method in (*keys, *own)}


def set_names(keys) -> dict[str, str]:
    return {key: set_name(key) for key in keys}


def with_notes(lines, *notes) -> list[str]:
    return [*notes, *[BEFORE] * bool(lines.before.any())]


def splits_of(lines) -> str:
    seeds = sorted(lines.seed.unique())
    if len(seeds) < 2:
        return "one split of 90/10" if seeds else "no runs"
    return f"{len(seeds)} splits of 90/10 (seeds {seeds[0]} to {seeds[-1]})"


def number_of(things, noun) -> str:
    """Return such as "one trial" or "3 trials"."""
    n = len(set(things))
    return f"{'one' if n == 1 else n or 'no'} {noun}{'s' * (n != 1)}"


def beside(texts, printed) -> pd.DataFrame:
    """Put the paper's figure beside each column that has any; ``printed`` is by heading."""
    columns = {}
    for heading in texts.columns:
        columns[heading] = texts[heading]
        figures = printed.get(heading, {})
        if figures:
            theirs = [f"{figures[row]:.1f}" if row in figures else "" for row in texts.index]
            columns[f"paper, {heading}"] = pd.Series(theirs, index=texts.index)
    return pd.DataFrame(columns)


def printed_in(case) -> dict[str, float]:
    """Return the paper's accuracies of a case by our names of methods; its own stands twice."""
    found = {METHODS[m]: mean for m, (mean, *_) in paper.ACCURACY.get(case, {}).items()}
    if METHODS[OURS] in found:  # the printed figures are not those of this package's defaults
        theirs = found.pop(METHODS[OURS])
        found |= {METHODS[f"cleanse-{form}"]: theirs for form in ("paper", "reconstructed")}
    return found


def ten_sets(lines) -> pd.DataFrame:
    """Return mean scores by data set and method: three real sets and seven controlled ones.

    Empty where fewer than three methods were run on the same three sets or more.
    """
    runs = pd.concat([of(lines, "headline"), of(lines, "controlled")])
    runs = runs.assign(base=[name.partition(":")[0] for name in runs.dataset])
    cases = runs[runs.base != "lexicon"].pivot_table(index="base", columns="method", values="score")
    cases = cases[cases[OURS].notna()].dropna(axis=1) if OURS in cases else cases[:0]
    return cases if min(cases.shape) >= 3 else cases.iloc[:0, :0]
