"""Tables as text, Markdown, LaTeX, CSV and HTML, and tables inside other texts.

Cells are Markdown: the best is ``**bold**``, and ``<sup>a</sup>`` points to a note.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pandas as pd


class Table(NamedTuple):
    """A table: a name for files, a title, a frame of texts, and notes below."""

    name: str
    title: str
    frame: pd.DataFrame
    notes: list[str]


def _marked(frame: pd.DataFrame, bold: str, mark: str) -> pd.DataFrame:
    """Translate bold texts and marks; ``\\1`` stands for what they hold."""
    frame = frame.replace(r"\*\*(.+?)\*\*", bold, regex=True)
    return frame.replace(r"<sup>(\w+)</sup>", mark, regex=True)


def as_text(table: Table) -> str:
    """Align columns with spaces; the best has a star."""
    body = _marked(table.frame, r"*\1", r" \1").to_string()
    return "\n".join([table.title, "=" * len(table.title), body, *table.notes]) + "\n"


def as_markdown(table: Table) -> str:
    """Make a pipe table, notes below."""
    grid = [["", *table.frame.columns], ["---"] * (1 + table.frame.shape[1])]
    grid += [[head, *row] for head, row in zip(table.frame.index, table.frame.values, strict=True)]
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in grid]
    return "\n".join([*lines, "", *table.notes]) + "\n"


_MEAN_SD = re.compile(r"(\**)(\d+\.\d+) ± (\d+\.\d+)(.*)")


def narrow(table: Table) -> Table:
    """Keep one figure per cell, to one decimal; a note gives the range of the deviations."""
    deviations = []

    def shorten(cell):
        found = _MEAN_SD.fullmatch(cell)
        if found:
            deviations.append(float(found[3]))
            return f"{found[1]}{float(found[2]):.1f}{found[4]}"
        return f"{float(cell):.1f}" if re.fullmatch(r"\d+\.\d\d", cell) else cell

    frame = table.frame.map(shorten)
    if not deviations:
        return table
    note = (
        f"Shown are means; standard deviations lie between {min(deviations):.1f} and "
        f"{max(deviations):.1f}, and each is in the report that `tables.py` writes."
    )
    return table._replace(frame=frame, notes=[*table.notes, note])


_LATEX = str.maketrans({"±": r"$\pm$", "→": r"$\to$", "λ": r"$\lambda$", "−": "$-$", "–": "--"})


def as_latex(table: Table) -> str:
    """Make a table environment with booktabs rules; notes are comments."""
    text = table.frame.to_latex(
        escape=True, caption=table.title, label=f"tab:{table.name}", position="tb"
    )
    text = re.sub(r"\*\*(.+?)\*\*", r"\\textbf{\1}", text)
    text = re.sub(r"<sup>(\w+)</sup>", r"\\textsuperscript{\1}", text)
    return "".join(f"% {note}\n" for note in table.notes) + text.translate(_LATEX)


def as_csv(table: Table) -> str:
    """Make a CSV, standard deviations in columns of their own."""
    columns = []
    for heading, texts in _marked(table.frame, r"\1", "").items():
        found = texts.str.extract(r"^([\d.]+) ± ([\d.]+)$")
        columns.append(found[0].fillna(texts).rename(heading))
        if found[1].notna().any():
            columns.append(found[1].rename(f"{heading} sd"))
    notes = "".join(f"# {note}\n" for note in table.notes)
    return (pd.concat(columns, axis=1) if columns else table.frame).to_csv() + notes


def as_html(table: Table) -> str:
    """Make a table for the report."""
    body = table.frame.to_html(border=0, justify="left")  # escapes what is not ours
    body = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", body)
    body = re.sub(r"&lt;sup&gt;(\w+)&lt;/sup&gt;", r"<sup>\1</sup>", body)
    notes = pd.DataFrame({"": table.notes}).to_html(border=0, index=False, header=False)
    return body + (notes if table.notes else "")


def write_tables(tables: list[Table], output) -> None:
    """Write all tables into a folder, in every form but HTML."""
    output = Path(output)
    (output / "csv").mkdir(parents=True, exist_ok=True)
    markdown = (f"## {table.title}\n\n{as_markdown(table)}" for table in tables)
    (output / "tables.txt").write_text("\n\n".join(map(as_text, tables)))
    (output / "tables.md").write_text("\n\n".join(markdown))
    (output / "tables.tex").write_text(
        "% \\usepackage{booktabs}\n" + "\n".join(map(as_latex, tables))
    )
    for table in tables:
        (output / "csv" / f"{table.name}.csv").write_text(as_csv(table))


def renew_text(text: str, tables: list[Table], value_of) -> str:
    """Put current tables and values into a Markdown text, between its marks.

    ``<!-- table: real-ours -->`` … ``<!-- /table -->`` holds a table, and
    ``<!-- value: fresh/ours/lost/cleanse -->`` … ``<!-- /value -->`` what ``value_of`` returns for
    the path.
    """
    by_name = {table.name: table for table in tables}

    def block(match):
        table = by_name.get(match[2])
        body = as_markdown(narrow(table)) if table else f"No result lines yet for {match[2]}.\n"
        return f"{match[1]}\n{body}\n{match[3]}"

    text = re.sub(
        r"(<!-- table: ([\w.+-]+) -->\n).*?(<!-- /table -->)", block, text, flags=re.DOTALL
    )
    return re.sub(
        r"(<!-- value: ([^ ]+) -->)[^<]*(<!-- /value -->)",
        lambda match: f"{match[1]}{value_of(match[2])}{match[3]}",
        text,
    )
