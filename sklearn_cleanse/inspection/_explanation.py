"""What `explain` returns: why a candidate was chosen, as text, HTML and tables."""

from dataclasses import dataclass
from html import escape
from typing import Any

import pandas as pd

#: A cell of a table: text, or text and the length of a bar beside it, from 0 to 1.
Cell = str | tuple[str, float]

#: Characters of a bar of length 1, and at which the right half of the first line starts.
_BAR, _HALF = 20, 60

#: Candidates that text names, at most, of the sample and of a similar row.
_MOST_CANDIDATES, _MOST_NAMES = 10, 4

#: The verdict on a row whose candidates other rows contradict.
NO_CANDIDATE = "no candidate fits"


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """Why a candidate was chosen. Print it, or let a notebook show it.

    Attributes
    ----------
    row : object
        The sample, by the index of X or S if one of them has an index, otherwise its position.
    verdict : {"clear", "not certain", "close call", "no candidate fits"}
        "no candidate fits": other rows suggest a label outside, so clearly that
        `find_candidate_issues` would list the row for the same predictions. "close call": the
        likeliest candidate leads by less than 0.1. "clear": it has a probability of at least 0.9,
        other rows suggest a candidate, and ``instance_dependence_`` is below 0.1.
    label : object
        The likeliest candidate, which `disambiguate` returns.
    probability : float
        Its probability among the candidates.
    prediction : object
        What `predict` returns, candidate or not.
    candidates : DataFrame
        A row per candidate, likeliest first: "candidate", "probability", "n_similar" (how many of
        the similar rows were resolved as this label) and, for a network, "vote" (the probability
        before training).
    similar : DataFrame
        The most similar training rows: "row" (by the index of the candidates at `fit`, otherwise
        the position), "similarity" (by the kernel, from 0 to 1), "candidates", "resolved" (as which
        label) and "probability" (of this label).
    outside : DataFrame
        Labels that are not candidates, likeliest first: "label", "probability" (among all labels,
        as other rows suggest them) and "n_similar".
    reasons : list of str
        Sentences on why the choice is doubtful.
    remarks : list of str
        Other sentences of the text.
    contributions : DataFrame
        How much each similar row, and in the last line all other rows together, add to the score
        of each candidate (or, if negative, subtract).

    Examples
    --------
    >>> from sklearn_cleanse import CleanSEKernelClassifier
    >>> from sklearn_cleanse.inspection import explain
    >>> X = [[0.0], [0.1], [0.9], [1.0]]
    >>> S = [{"low"}, {"low", "high"}, {"low", "high"}, {"high"}]
    >>> model = CleanSEKernelClassifier().fit(X, S)
    >>> why = explain(model, X, S, n_similar=2)[1]
    >>> why.label, why.similar.row.tolist()
    ('low', [0, 2])
    >>> print(why)
    Row 1: low (...
    """

    row: Any
    verdict: str
    label: Any
    probability: float
    prediction: Any
    candidates: pd.DataFrame
    similar: pd.DataFrame
    outside: pd.DataFrame
    reasons: list[str]
    remarks: list[str]
    _votes: Any
    _position: int

    @property
    def contributions(self) -> pd.DataFrame:
        """What each similar row, and all others together, add to the score of each candidate."""
        return self._votes.contributions[self._position]

    def __repr__(self) -> str:
        return f"<Explanation of row {self.row}: {self._summary()}>"

    def __str__(self) -> str:
        first = f"Row {self.row}: {self._summary()}".ljust(_HALF)
        lines = [f"{first}  predict(): {self.prediction}", "", *_align(self._candidate_table())]
        lines += [*self.reasons, ""]
        if len(self.similar):
            lines += [self._similar_title(), *("  " + row for row in _align(self._similar_table()))]
        lines += ["", *self.remarks] if self.remarks else []
        return "\n".join(line.rstrip() for line in lines).rstrip()

    def _repr_html_(self) -> str:
        parts = [
            f"<p><b>Row {escape(str(self.row))}: {escape(self._summary())}</b> &emsp; "
            f"predict(): {escape(str(self.prediction))}</p>",
            _html(self._candidate_table()),
            *(f"<p>{escape(text)}</p>" for text in self.reasons),
        ]
        if len(self.similar):
            parts += [f"<p>{self._similar_title()}</p>", _html(self._similar_table())]
        parts += [f"<p>{escape(text)}</p>" for text in self.remarks]
        return "\n".join(parts)

    def _summary(self) -> str:
        choice = f"{self.label} ({percent(self.probability)}), "
        return choice * (self.verdict != NO_CANDIDATE) + self.verdict

    def _similar_title(self) -> str:
        after = ", as the votes before training resolved them" * ("vote" in self.candidates)
        return f"most similar rows{after}"

    def _candidate_table(self) -> list[list[Cell]]:
        """Return the lines of the upper table, the first of which is a head."""
        n, shown = len(self.similar), self.candidates.head(_MOST_CANDIDATES)
        rest = self.candidates["probability"].iloc[_MOST_CANDIDATES:]
        head: list[Cell] = ["candidate", "probability", f"{n} most similar rows"]
        if self.verdict == NO_CANDIDATE:
            both = ("", "candidates", shown), ("not a candidate: ", "all labels", self.outside[:1])
            return [head] + [
                [start + str(row[1]), f"{percent(row.probability):>5} of {of}", str(row.n_similar)]
                for start, of, table in both
                for row in table.itertuples()
            ]
        rows: list[list[Cell]] = [
            [
                str(row.candidate),
                (f"{percent(row.probability):>5}", row.probability),
                (f"{row.n_similar:>{len(str(n))}}", 0.75 * row.n_similar / max(n, 1)),
            ]
            for row in shown.itertuples()
        ]
        rows += [[f"{len(rest)} others", percent(rest.sum()), ""]] * bool(len(rest))
        if "vote" in shown:
            head[1:2] = ["vote before training", "probability after training"]
            votes = [*map(percent, shown["vote"]), ""]
            rows = [[name, vote, *row] for (name, *row), vote in zip(rows, votes, strict=False)]
        return [head, *rows]

    def _similar_table(self) -> list[list[Cell]]:
        rows: list[list[Cell]] = [["row", "similarity", "candidates", "resolved as", ""]]
        for row, similarity, labels, resolved, probability in self.similar.itertuples(index=False):
            names = ", ".join(map(str, labels[:_MOST_NAMES]))
            names += f" and {len(labels) - _MOST_NAMES} more" * (len(labels) > _MOST_NAMES)
            how = "only candidate" if labels == [resolved] else percent(probability)
            how += ", not a candidate" * (resolved not in labels)
            rows.append([str(row), f"{similarity:.2f}", names, str(resolved), how])
        return rows


def percent(proba: float) -> str:
    """Return a probability in whole percents."""
    return f"{100 * proba:.0f} %"


def _align(rows: list[list[Cell]]) -> list[str]:
    """Write rows of cells in columns."""
    lines = [
        [c if isinstance(c, str) else f"{c[0]}  {'█' * round(_BAR * c[1])}" for c in row]
        for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["   ".join(map(str.ljust, line, widths)) for line in lines]


def _html(rows: list[list[Cell]]) -> str:
    """Write rows of cells as a table; whatever they hold is text, not HTML."""

    def markup(cell: Cell) -> str:
        if isinstance(cell, str):
            return escape(cell)
        style = f"width:{cell[1] * _BAR / 2:.1f}em;height:0.8em;background:#4477aa"
        return f'{escape(cell[0])} <span style="display:inline-block;{style}"></span>'

    lines = []
    for i, row in enumerate(rows):
        tag = "td" if i else "th"
        lines.append("".join(f"<{tag}>{markup(cell)}</{tag}>" for cell in row))
    return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"
