"""Tables as text, Markdown, LaTeX, CSV and HTML, and tables inside other texts."""

from __future__ import annotations

import csv
import html
import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


class Cell(NamedTuple):
    """One cell: our text, whether it is the best, the paper's beside it, and marks of notes."""

    text: str
    bold: bool = False
    paper: str = ""
    mark: str = ""


@dataclass
class Table:
    """A table: a name for files, a title, columns, (head, cells) per row, notes below."""

    name: str
    title: str
    columns: list[str]
    rows: list[tuple[str, list[Cell]]]
    notes: list[str]


def _plain(cell: Cell, bold: str = "", mark: str = "{}") -> str:
    text = f"{bold}{cell.text}{bold}" if cell.bold else cell.text
    if cell.mark:
        text += mark.format(cell.mark)
    return f"{text} [{cell.paper}]" if cell.paper else text


def as_text(table: Table) -> str:
    """Align columns with spaces; the best has a star."""
    grid = [["", *table.columns]]
    for head, cells in table.rows:
        grid.append([head, *(("*" if c.bold else "") + _plain(c, mark=" {}") for c in cells)])
    widths = [max(len(row[j]) for row in grid) for j in range(len(grid[0]))]
    lines = [
        "  ".join(value.ljust(width) for value, width in zip(row, widths, strict=True)).rstrip()
        for row in grid
    ]
    lines.insert(1, "-" * (sum(widths) + 2 * len(widths) - 2))
    return "\n".join([table.title, "=" * len(table.title), *lines, *table.notes]) + "\n"


def as_markdown(table: Table) -> str:
    """Make a pipe table, notes below."""
    lines = [f"| | {' | '.join(table.columns)} |", "|---" * (len(table.columns) + 1) + "|"]
    for head, cells in table.rows:
        shown = [_plain(c, "**", "<sup>{}</sup>").replace("|", "\\|") for c in cells]
        lines.append(f"| {head} | {' | '.join(shown)} |")
    return "\n".join([*lines, "", *table.notes]) + "\n"


_LATEX = {
    "&": r"\&",
    "%": r"\%",
    "_": r"\_",
    "#": r"\#",
    "$": r"\$",
    "±": r"$\pm$",
    "→": r"$\to$",
    "λ": r"$\lambda$",
    "−": "$-$",
    "–": "--",
    "×": r"$\times$",
}


def _latex(text: str) -> str:
    return "".join(_LATEX.get(c, c) for c in text)


def as_latex(table: Table) -> str:
    """Make a table environment with booktabs rules."""
    lines = [
        r"\begin{table*}",
        r"\centering",
        rf"\caption{{{_latex(table.title)}}}",
        rf"\label{{tab:{table.name}}}",
        r"\begin{tabular}{l" + "l" * len(table.columns) + "}",
        r"\toprule",
        " & ".join(["", *map(_latex, table.columns)]) + r" \\",
        r"\midrule",
    ]
    for head, cells in table.rows:
        shown = []
        for cell in cells:
            text = _latex(cell.text)
            text = rf"\textbf{{{text}}}" if cell.bold else text
            text += rf"\textsuperscript{{{cell.mark}}}" if cell.mark else ""
            shown.append(text + (f" [{_latex(cell.paper)}]" if cell.paper else ""))
        lines.append(" & ".join([_latex(head), *shown]) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    lines += [rf"\\ {{\footnotesize {_latex(note)}}}" for note in table.notes]
    return "\n".join([*lines, r"\end{table*}"]) + "\n"


_NUMBER = re.compile(r"([\d.]+)(?: ± ([\d.]+))?(?: \(([\d.]+)\))?")


def _numbers(text: str) -> tuple[str, str, str]:
    """Take "mean ± sd (rank)" apart; any other text is left whole."""
    found = _NUMBER.fullmatch(text)
    return (found[1], found[2] or "", found[3] or "") if found else (text, "", "")


def as_csv(table: Table) -> str:
    """Make a CSV with a column for each number: ours, sd, rank, the paper's, its sd, notes."""
    parts = ("", " sd", " rank", " (paper)", " (paper) sd", " (notes)")
    grid = [["", *(f"{column}{part}" for column in table.columns for part in parts)]]
    for head, cells in table.rows:
        values = ((*_numbers(c.text), *_numbers(c.paper)[:2], c.mark) for c in cells)
        grid.append([head, *(value for cell in values for value in cell)])
    used = [j % len(parts) == 1 or any(row[j] for row in grid[1:]) for j in range(len(grid[0]))]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([v for v, u in zip(row, used, strict=True) if u] for row in grid)
    for note in table.notes:
        writer.writerow([f"# {note}"])
    return out.getvalue()


def as_html(table: Table) -> str:
    """Make a table for the report."""
    rows = [
        "<tr><th></th>" + "".join(f"<th>{html.escape(c)}</th>" for c in table.columns) + "</tr>"
    ]
    for head, cells in table.rows:
        shown = []
        for cell in cells:
            text = html.escape(cell.text)
            kind = ' class="best"' if cell.bold else "" if text[:1].isdigit() else ' class="none"'
            text += f"<sup>{cell.mark}</sup>" if cell.mark else ""
            text += f'<span class="paper">{html.escape(cell.paper)}</span>' if cell.paper else ""
            shown.append(f"<td{kind}>{text}</td>")
        rows.append(f"<tr><th>{html.escape(head)}</th>{''.join(shown)}</tr>")
    notes = "".join(f"<p class='note'>{html.escape(note)}</p>" for note in table.notes)
    return (
        f'<section id="{table.name}"><h2>{html.escape(table.title)}</h2>'
        f'<div class="scroll"><table><thead>{rows[0]}</thead><tbody>{"".join(rows[1:])}</tbody>'
        f"</table></div>{notes}</section>"
    )


def write_tables(tables: list[Table], output) -> None:
    """Write all tables into a folder, in every form but HTML."""
    output = Path(output)
    (output / "csv").mkdir(parents=True, exist_ok=True)
    (output / "tables.txt").write_text("\n\n".join(map(as_text, tables)))
    (output / "tables.md").write_text(
        "\n\n".join(f"## {table.title}\n\n{as_markdown(table)}" for table in tables)
    )
    (output / "tables.tex").write_text(
        "% \\usepackage{booktabs}\n" + "\n\n".join(map(as_latex, tables))
    )
    for table in tables:
        (output / "csv" / f"{table.name}.csv").write_text(as_csv(table))


_BLOCK = re.compile(r"(<!-- table: ([\w.+-]+) -->\n).*?(<!-- /table -->)", re.DOTALL)
_VALUE = re.compile(r"(<!-- value: ([^ ]+) -->)[^<]*(<!-- /value -->)")


def renew_text(text: str, tables: list[Table], results) -> str:
    """Put current tables and values into a Markdown text, between its marks.

    ``<!-- table: real-ours -->`` … ``<!-- /table -->`` holds a table, and
    ``<!-- value: fresh/ours/lost/cleanse -->`` … ``<!-- /value -->`` a mean ± sd in %, or with a
    measure at the end of the path that one.
    """
    from cells import percent, spread

    by_name = {table.name: table for table in tables}

    def block(match):
        table = by_name.get(match[2])
        body = as_markdown(table) if table else f"No result lines yet for {match[2]}.\n"
        return f"{match[1]}\n{body}\n{match[3]}"

    def value(match):
        values = results.values(*match[2].split("/"))
        body = percent(values.mean(), spread(values)) if len(values) else "not run"
        return f"{match[1]}{body}{match[3]}"

    return _VALUE.sub(value, _BLOCK.sub(block, text))
