"""Tables as text, for what the package prints."""

from __future__ import annotations

import html
from collections.abc import Sequence


def format_table(rows: Sequence[Sequence[str]]) -> str:
    """Align cells in columns: the first to the left, the others to the right.

    Parameters
    ----------
    rows : sequence of shape (n_rows, n_columns) of str
        The cells, a head among them if there is one.

    Returns
    -------
    text : str
        A line per row, all of the same length.

    Examples
    --------
    >>> from sklearn_cleanse._table import format_table
    >>> print(format_table([["label", "n"], ["cat", "12"], ["dog", "7"]]))
    label   n
    cat    12
    dog     7
    """
    first, *widths = (max(map(len, column)) for column in zip(*rows, strict=True))
    return "\n".join(
        "  ".join([name.ljust(first), *(c.rjust(w) for c, w in zip(cells, widths, strict=True))])
        for name, *cells in rows
    )


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Write a table for notebooks; whatever the cells hold is text, not HTML.

    Parameters
    ----------
    head : sequence of str
        The names of the columns.
    rows : sequence of shape (n_rows, n_columns) of str
        The cells.

    Returns
    -------
    html : str

    Examples
    --------
    >>> from sklearn_cleanse._table import html_table
    >>> html_table(["label"], [["<b>"]])
    '<table><tr><th>label</th></tr><tr><td>&lt;b&gt;</td></tr></table>'
    """
    cells = "".join(f"<th>{html.escape(text)}</th>" for text in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(text)}</td>" for text in row) + "</tr>" for row in rows
    )
    return f"<table><tr>{cells}</tr>{body}</table>"
