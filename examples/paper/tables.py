"""Turn result lines into the paper's tables and figures, with the paper's numbers beside ours.

    python examples/paper/tables.py                          # all of it, into results/report
    python examples/paper/tables.py --update README.md       # renew the tables inside a text

Whatever has been run so far is shown. A cell says if its data are absent, if it was not run, and
if it was run at a smaller scale.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
for folder in (str(HERE), str(HERE.parents[1])):
    if folder not in sys.path:
        sys.path.append(folder)

import numpy as np  # noqa: E402
import paper_numbers as paper  # noqa: E402
from cells import (  # noqa: E402
    METHOD_NAMES,
    OTHER_TRIALS,
    RECIPES,
    SET_NAMES,
    Notes,
    Results,
    accuracy_cells,
    percent,
    scale_notes,
    setting_of,
    spread,
)
from data import IMAGES, REAL  # noqa: E402
from plan import BATCH_SIZES, CALIBRATED, RIVALS  # noqa: E402
from ranking import ranking_tables  # noqa: E402
from render import Cell, Table, renew_text, write_tables  # noqa: E402


def _printed(table, method, column) -> str:
    cells = table.get("cleanse" if method == "cleanse-paper" else method)
    if not cells or column >= len(cells):
        return ""
    mean, sd, _ = cells[column]
    return f"{mean:.2f} ± {sd:.2f}"


def methods_of(results, group, setting) -> list[str]:
    """Methods of a table, in the paper's order, then users' own."""
    own = "cleanse-paper" if setting.startswith("paper") else "cleanse"
    known = [*RIVALS, own]
    found = [*results.have(3, group, setting), *results.have(3, group, "own")]
    if group == "images":
        known = [method for method in known if method not in ("pl-cgr", "dpcls")]
    return known + [m for m in found if m not in METHOD_NAMES]


def real_table(results, group, recipe) -> Table:
    """Accuracy on the real data sets."""
    columns, methods = results.columns(group, REAL), methods_of(results, group, recipe)
    notes = Notes(
        "Test accuracy in %: each trial's mean over the last ten epochs, then mean ± standard "
        "deviation (n − 1) over trials of 90/10 splits; rank in brackets; best in bold.",
        "Beside ours, in square brackets or grey: the paper's figure.",
    )
    if group == "fresh":
        notes.first.append("Ten splits (seeds 110–119) by which no default was chosen.")

    def beside(method, j):
        place = REAL.index(columns[j]) if columns[j] in REAL else len(REAL)
        return _printed(paper.REAL, method, place)

    settings = [recipe] * len(columns)
    rows = accuracy_cells(results, group, settings, columns, methods, beside, notes)
    about = "Fresh splits" if group == "fresh" else "Real-world data"
    return Table(
        f"{group}-{recipe}",
        f"{about}: {RECIPES[recipe]}",
        [SET_NAMES.get(name, name) for name in columns],
        rows,
        notes.all(),
    )


def differences_table(results) -> Table:
    """CleanSE less each rival, split by split."""
    columns = results.columns("fresh", REAL)
    notes = Notes(
        "Accuracy of CleanSE less that of the rival on the same fresh splits, in points: mean ± "
        "standard error of the differences (splits where CleanSE is better). PRODEN is the same "
        "network without votes and counts."
    )
    rows = []
    for method in [m for m in methods_of(results, "fresh", "ours") if m != "cleanse"]:
        row = []
        for dataset in columns:
            cells = [
                ("fresh", setting_of(name, "ours"), dataset, name) for name in ("cleanse", method)
            ]
            if not all(results.same_trials(cells)):
                row.append(Cell(results.why_empty(dataset, *cells[1])))
                continue
            ours, theirs = (100 * results.values(*cell) for cell in cells)
            gain = ours - theirs
            error = spread(gain) / len(gain) ** 0.5
            better = f"{(gain > 0).sum()} of {len(gain)}"
            row.append(Cell(f"{gain.mean():+.2f} ± {error:.2f} ({better})"))
        rows.append((METHOD_NAMES.get(method, method), row))
    names = [SET_NAMES.get(name, name) for name in columns]
    return Table("fresh-differences", "Fresh splits: CleanSE less each", names, rows, notes.all())


def image_table(results, dataset, recipe) -> Table:
    """Accuracy on one image set by batch size."""
    methods = methods_of(results, "images", recipe)
    sizes = sorted(
        {int(s.rpartition("-")[2]) for s in results.have(1, "images", recipe)} | set(BATCH_SIZES)
    )
    if dataset not in IMAGES:
        sizes = [s for s in sizes if f"{recipe}-batch-{s}" in results.have(1, "images")]
    notes = Notes(
        "Test accuracy in %, mean over the last ten epochs, or over all where there are fewer; ± "
        "is over trials where there are several, else over those epochs, as in the paper. Beside "
        "ours, in square brackets or grey: the paper's figure."
    )
    if set(methods) - set(METHOD_NAMES):
        notes.first.append("A method of your own has one batch size and stands in every column.")
    table = paper.IMAGES.get(dataset, {})
    places = {size: place for place, size in enumerate(paper.BATCH_SIZES)}
    rows = accuracy_cells(
        results,
        "images",
        [f"{recipe}-batch-{size}" for size in sizes],
        [dataset] * len(sizes),
        methods,
        lambda method, j: _printed(table, method, places.get(sizes[j], 99)),
        notes,
    )
    title = f"{SET_NAMES.get(dataset, dataset)}, uniform candidates: {RECIPES[recipe]}"
    columns = [f"batch {size}" for size in sizes]
    return Table(f"images-{dataset}-{recipe}", title, columns, rows, notes.all())


def _own_methods(results, group) -> list[str]:
    return [name for name in ("cleanse", "cleanse-paper") if name in results.have(3, group)]


def ablation_table(results) -> Table:
    """With and without votes and counts."""
    columns = results.columns("ablation", REAL)
    notes = Notes("Test accuracy in %, as in the tables of real-world data; the paper's beside it.")
    rows = []
    for method in _own_methods(results, "ablation"):
        for setting in ("neither", "votes", "counts", "both"):

            def beside(_, j, setting=setting):
                place = REAL.index(columns[j]) if columns[j] in REAL else None
                return "" if place is None else f"{paper.ABLATION[setting][place]:.2f}"

            settings = [setting] * len(columns)
            ((name, cells),) = accuracy_cells(
                results, "ablation", settings, columns, [method], beside, notes
            )
            rows.append((f"{name}: {setting}", cells))
    names = [SET_NAMES.get(name, name) for name in columns]
    return Table("ablation", "Ablation: votes and counts", names, rows, notes.all())


def parts_table(results) -> Table:
    """Our defaults, one part at a time put back to the paper's."""
    columns = results.columns("parts", REAL)
    notes = Notes("Test accuracy in %, as in the tables of real-world data.")
    rows = []
    for setting in ["defaults", *sorted(set(results.have(1, "parts")) - {"defaults"})]:
        settings = [setting] * len(columns)
        ((_, cells),) = accuracy_cells(
            results, "parts", settings, columns, ["cleanse"], lambda *_: "", notes
        )
        rows.append((setting, cells))
    names = [SET_NAMES.get(name, name) for name in columns]
    return Table("parts", "Each part of the defaults put back", names, rows, notes.all())


def sweep_table(results, group) -> Table:
    """Accuracy over the values of one parameter."""
    columns = results.columns(group, REAL)
    notes = Notes("Test accuracy in %. The paper prints no numbers, only a figure.")
    symbol = "T" if group == "temperature" else "λ"
    settings = sorted(results.have(1, group), key=lambda s: float(s.partition("=")[2]))
    rows = []
    for method in _own_methods(results, group):
        for setting in settings:
            everywhere = [setting] * len(columns)
            ((name, cells),) = accuracy_cells(
                results, group, everywhere, columns, [method], lambda *_: "", notes
            )
            rows.append((f"{name}: {symbol} = {setting.partition('=')[2]}", cells))
    names = [SET_NAMES.get(name, name) for name in columns]
    return Table(group, f"Sensitivity to {symbol}", names, rows, notes.all())


def calibrated_table(results) -> Table:
    """Rivals' losses with CleanSE's calibration on top."""
    group = "rivals-calibrated"
    columns = results.columns(group, REAL)
    notes = Notes(
        "Test accuracy in % without and with calibration, same recipe and splits; gains bold."
    )
    rows = []
    for loss in CALIBRATED:
        row = []
        for dataset in columns:
            pair = [(group, "ours", dataset, method) for method in (loss, f"{loss}+cleanse")]
            plain, with_it = (results.mean(*cell) for cell in pair)
            if np.isnan(plain + with_it):
                row.append(Cell(results.why_empty(dataset, *pair[0])))
                continue
            same, gain = all(results.same_trials(pair)), 100 * (with_it - plain)
            about = [note for cell in pair for note in scale_notes(results.lines(*cell))]
            row.append(
                Cell(
                    f"{percent(plain)} → {percent(with_it)} ({gain:+.2f})",
                    bold=same and gain > 0,
                    mark=notes.mark(about + ([] if same else [OTHER_TRIALS])),
                )
            )
        rows.append((METHOD_NAMES[loss], row))
    names = [SET_NAMES.get(name, name) for name in columns]
    return Table(group, "CleanSE on top of other losses", names, rows, notes.all())


MEASURES = {
    "accuracy_final": "accuracy after the last epoch, %",
    "transductive": "training labels identified, %",
    "covering_rate": "covering rate, %",
    "approximated_accuracy": "approximated accuracy, %",
    "seconds": "seconds per fit",
    "peak_memory_mb": "peak memory, MB",
}


_SPLITS = {"real": "splits 0 to 4", "fresh": "fresh splits"}


def measures_table(results, group, recipe, dataset) -> Table:
    """The other measures on one data set."""
    notes = Notes(
        "Covering rate and approximated accuracy need no true labels. Means over trials.",
        "Seconds are those of a machine that may have done other work at the time; peak memory is "
        "the whole process's, data and libraries included.",
    )
    rows = []
    for method in methods_of(results, group, recipe):
        setting = setting_of(method, recipe)
        row = []
        for measure, title in MEASURES.items():
            values = results.values(group, setting, dataset, method, measure)
            if not len(values):
                row.append(Cell(results.why_empty(dataset, group, setting, dataset, method)))
            elif title.endswith("%"):
                row.append(Cell(percent(values.mean(), spread(values))))
            else:
                row.append(Cell(f"{values.mean():.1f}"))
        mark = notes.mark(scale_notes(results.lines(group, setting, dataset, method)))
        rows.append((METHOD_NAMES.get(method, method), [row[0]._replace(mark=mark), *row[1:]]))
    title = (
        f"{SET_NAMES.get(dataset, dataset)}, {_SPLITS[group]}: other measures, {RECIPES[recipe]}"
    )
    name = f"measures-{group}-{recipe}-{dataset}"
    return Table(name, title, list(MEASURES.values()), rows, notes.all())


def characteristics_table(results) -> Table:
    """What the data sets are like, as far as lines tell."""
    seen = {}
    for lines in results.cells.values():
        for line in lines:
            seen.setdefault(line["dataset"], {}).setdefault(line["seed"], line)
    known = [name for name in (*IMAGES, *REAL) if seen.keys() & {*IMAGES, *REAL} or not seen]
    rows = []
    for name in known + [name for name in seen if name not in known]:
        printed = paper.CHARACTERISTICS.get(name, ("",) * 5)
        if name not in seen:
            ours = ["data absent" if name in results.absent else "not run", "", "", "", ""]
        else:
            trials = list(seen[name].values())
            first = trials[0]
            candidates = sum(t["mean_candidates"] for t in trials) / len(trials)
            clean = sum(t["clean_rate"] for t in trials) / len(trials)
            ours = [
                f"{first['n_train']} + {first['n_test']}",
                str(first["n_features"]),
                str(first["n_classes"]),
                f"{candidates:.4f}",
                percent(clean),
            ]
        beside = [str(value) for value in printed]
        cells = [Cell(o, paper=p) for o, p in zip(ours, beside, strict=True)]
        rows.append((SET_NAMES.get(name, name), cells))
    columns = ["training + test rows", "features", "classes", "mean candidates", "clean, %"]
    notes = [
        "Candidates and clean rate of the training rows, mean over trials. The paper's, beside "
        "ours, on Lost, BirdSong and MSRCv2 are those of fold 0 of "
        "KFold(5, shuffle=True, random_state=0), not of its 90/10 splits."
    ]
    return Table("characteristics", "Data sets", columns, rows, notes)


def all_tables(results: Results) -> list[Table]:
    """Make every table there is something for."""
    tables = [characteristics_table(results)]
    tables += [real_table(results, "real", recipe) for recipe in RECIPES]
    if results.have(1, "fresh"):
        tables += [real_table(results, "fresh", "ours"), differences_table(results)]
    shown = [*IMAGES] if set(results.have(2, "images")) & set(IMAGES) else []
    for dataset in [*shown, *(d for d in results.have(2, "images") if d not in IMAGES)]:
        for recipe in RECIPES:
            if results.have(1, "images", recipe):
                tables.append(image_table(results, dataset, recipe))
    if results.have(1, "ablation"):
        tables.append(ablation_table(results))
    if results.have(1, "parts"):
        tables.append(parts_table(results))
    tables += [sweep_table(results, g) for g in ("temperature", "lambda") if results.have(1, g)]
    if results.have(1, "rivals-calibrated"):
        tables.append(calibrated_table(results))
    tables += ranking_tables(results, methods_of)
    for group in ("fresh", "real"):
        for dataset in results.have(2, group):
            tables.append(measures_table(results, group, "ours", dataset))
    return tables


def main(arguments=None) -> int:
    """Do what the command line asks for; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--results", type=Path, default=HERE / "results", help="folder of the lines"
    )
    parser.add_argument("--output", type=Path, help="where to write (default: report in it)")
    parser.add_argument(
        "--update",
        type=Path,
        nargs="+",
        help="renew the tables and values inside these texts, and write nothing else",
    )
    options = parser.parse_args(arguments)
    results = Results.read(options.results)
    tables = all_tables(results)
    if options.update:
        for path in options.update:
            path.write_text(renew_text(path.read_text(), tables, results))
        return 0
    output = options.output or options.results / "report"
    write_tables(tables, output)
    from report import write_report

    path = write_report(results, tables, output)
    print(f"{len(results.cells)} cells, {len(tables)} tables: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
