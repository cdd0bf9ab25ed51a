"""One HTML file with all tables and figures in it, for screens wide and narrow."""

from __future__ import annotations

import base64
import html
from pathlib import Path

from figures import all_figures
from render import Table, as_html

_CSS = """
:root { --ink:#1c2430; --soft:#5d6b7c; --line:#dfe4ea; --paper:#fff; --page:#f4f6f8; --blue:#0b63a5;
  --best:#e8f3fb; }
* { box-sizing:border-box }
body { margin:0; background:var(--page); color:var(--ink);
  font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif }
header, main { max-width:1180px; margin:0 auto; padding:0 20px }
header { padding-top:28px }
h1 { font-size:1.7rem; line-height:1.2; margin:0 0 .3em }
h2 { font-size:1.12rem; margin:0 0 .7em }
header p { color:var(--soft); max-width:68ch; margin:.3em 0 }
nav { display:flex; flex-wrap:wrap; gap:6px; margin:16px 0 }
nav a { color:var(--blue); background:var(--paper); border:1px solid var(--line);
  border-radius:999px; padding:4px 12px; text-decoration:none; font-size:.85rem }
nav a:hover { border-color:var(--blue) }
section { background:var(--paper); border:1px solid var(--line); border-radius:10px; padding:18px;
  margin:0 0 18px; scroll-margin-top:10px }
.scroll { overflow-x:auto; -webkit-overflow-scrolling:touch; margin:0 -18px; padding:0 18px }
table { border-collapse:collapse; font-variant-numeric:tabular-nums; font-size:.9rem; width:100% }
th, td { text-align:left; padding:7px 14px 7px 0; border-bottom:1px solid var(--line);
  vertical-align:top; white-space:nowrap }
thead th { color:var(--soft); font-weight:600; font-size:.82rem }
tbody th { font-weight:600; position:sticky; left:0; background:var(--paper);
  box-shadow:-18px 0 0 var(--paper) }
tbody tr:last-child > * { border-bottom:0 }
td.best { font-weight:700; color:var(--blue) }
td.none { color:var(--soft) }
.paper { display:block; font-weight:400; color:var(--soft); font-size:.8rem }
.paper::before { content:"paper " }
sup { color:#b3400f; font-weight:600; margin-left:2px; line-height:0 }
.note { color:var(--soft); font-size:.82rem; margin:.7em 0 0; max-width:90ch }
.figures { display:grid; grid-template-columns:repeat(auto-fit,minmax(min(100%,460px),1fr));
  gap:18px }
figure { margin:0 }
figure img { width:100%; max-width:640px; height:auto; display:block }
figure div { overflow-x:auto }
figure.diagrams img { min-width:500px }
figcaption { color:var(--soft); font-size:.82rem; margin-top:.4em }
@media (max-width:600px) {
  body { font-size:14px } header, main { padding-left:10px; padding-right:10px }
  section { padding:14px 12px; border-radius:8px } h1 { font-size:1.35rem }
  .scroll { margin:0 -12px; padding:0 12px } tbody th { white-space:normal;
  overflow-wrap:anywhere; min-width:6.4em; max-width:9em } td { padding-right:12px }
}
@media print { nav { display:none } section { break-inside:avoid; border:0 } }
"""

#: Sections of figures: title, names of the figures, and the tables they follow.
_FIGURE_SECTIONS = {
    "sensitivity": (
        "Sensitivity in pictures",
        ("temperature", "lambda"),
        ("temperature", "lambda"),
    ),
    "diagrams": ("Critical-difference diagrams", ("cd",), ("friedman",)),
}


def write_report(results, tables: list[Table], output) -> Path:
    """Write report.html and the figures; return the path of the former."""
    from tables import methods_of

    output = Path(output)
    (output / "figures").mkdir(parents=True, exist_ok=True)
    figures = all_figures(results, methods_of)
    for name, (_, svg) in figures.items():
        (output / "figures" / f"{name}.svg").write_text(svg)
    path = output / "report.html"
    path.write_text(_page(results, tables, figures))
    return path


def _page(results, tables, figures) -> str:
    sections = {table.name: (table.title, as_html(table)) for table in tables}
    order = list(sections)
    for key, (title, prefixes, tables_before) in _FIGURE_SECTIONS.items():
        shown = [_figure(*f, key) for name, f in figures.items() if name.startswith(prefixes)]
        if shown:
            body = f'<section id="{key}"><h2>{title}</h2><div class="figures">'
            sections[key] = (title, f"{body}{''.join(shown)}</div></section>")
            order.insert(1 + max(order.index(n) for n in order if n.startswith(tables_before)), key)
    links = "".join(
        f'<a href="#{name}">{html.escape(sections[name][0])}</a>'
        for name in order
        if not name.startswith("measures-")
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>CleanSE: the experiments</title><style>{_CSS}</style></head><body>"
        f"<header><h1>CleanSE: the experiments</h1><p>{html.escape(_summary(results))}</p>"
        "<p>Our numbers are computed from the result lines; the small grey ones are the paper's. "
        "Raised letters point to notes below the table.</p>"
        f"<nav>{links}</nav></header><main>{''.join(sections[n][1] for n in order)}</main>"
        "</body></html>\n"
    )


def _figure(caption: str, svg: str, kind: str) -> str:
    coded = base64.b64encode(svg.encode()).decode()
    alt = html.escape(caption, quote=True)
    return (
        f'<figure class="{kind}"><div><img alt="{alt}" '
        f'src="data:image/svg+xml;base64,{coded}"></div>'
        f"<figcaption>{html.escape(caption)}</figcaption></figure>"
    )


def _summary(results) -> str:
    lines = [line for found in results.cells.values() for line in found]
    if not lines:
        return "There are no result lines yet."
    runs = [line for line in lines if not line.get("copied_from")]
    hours = sum(line.get("seconds") or 0 for line in runs) / 3600
    versions = sorted({line["versions"]["sklearn_cleanse"] for line in lines})
    last = max(line["finished"] for line in lines)[:10]
    absent = f" Data absent: {', '.join(sorted(results.absent))}." if results.absent else ""
    return (
        f"{len(runs)} runs, {hours:.1f} hours of fitting, sklearn_cleanse {', '.join(versions)}, "
        f"last run {last}.{absent}"
    )
