"""The table of issues, apart from what finds them: pandas is asked for only where it is needed."""

from __future__ import annotations

from html import escape

try:
    import pandas as pd
except ImportError as error:
    raise ImportError(
        "find_candidate_issues returns a pandas DataFrame, and pandas is not installed; "
        'write pip install "sklearn-cleanse[data]"'
    ) from error


class CandidateIssues(pd.DataFrame):
    """The table that `find_candidate_issues` returns: a DataFrame, with whole sentences in HTML."""

    @property
    def _constructor(self) -> type[CandidateIssues]:
        return CandidateIssues

    def _repr_html_(self) -> str | None:
        with pd.option_context("display.max_colwidth", None):
            table = super()._repr_html_()
        alike = alike_note(self)
        return table if table is None or not alike else f"{table}\n<p>{escape(alike)}</p>"


def alike_note(issues: pd.DataFrame) -> str:
    """Return a sentence on labels that the features do not tell apart, empty if there are none."""
    pairs = [f"{a} and {b}" for a, b, _ in issues.attrs.get("labels_alike", [])]
    if not pairs:
        return ""
    more = f" and {len(pairs) - 3} more pairs" if len(pairs) > 3 else ""
    return f"Labels that the features do not tell apart: {', '.join(pairs[:3])}{more}"
