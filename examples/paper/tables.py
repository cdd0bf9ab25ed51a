"""Turn result lines into the paper's tables and figures, with the paper's numbers beside ours.

    python examples/paper/tables.py                          # all of it, into results/report
    python examples/paper/tables.py --update README.md       # renew the tables inside a text

Whatever has been run so far is shown. A cell says if its data are absent, if it was not run, and
if it was run at a smaller scale. Lines of users' own methods, in results-own, stand beside the
others unless --results names other folders.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import numpy as np

try:
    import pandas as pd
except ModuleNotFoundError as error:
    raise SystemExit(
        "tables need pandas; in the folder of the package: pip install -c constraints.txt "
        '".[plots,data]"'
    ) from error
import paper_numbers as paper
from cells import RECIPES, Results, accuracy_table, mean_sd, methods_of, set_name, setting_of
from data import BALANCES, IMAGES, KINDS, REAL, controlled_parts
from label_free import label_free_table
from plan import BATCH_SIZES, CALIBRATED, METHOD_NAMES, SWEEPS
from ranking import average_ranks, gather, paper_table, ranking_table
from render import Table, renew_text, write_tables

HERE = Path(__file__).resolve().parent
FOLD0 = tuple(f"{name}:fold0" for name in REAL)
ACCURACY_NOTE = (
    "Test accuracy in %: each trial's mean over the last ten epochs, then mean ± standard "
    "deviation (n − 1) over trials; best in bold, the paper's figure beside it."
)


def _row(group, setting, method, columns, printed=None) -> tuple[dict, dict]:
    """Return the cells of a row by data set, and the paper's figures."""
    return {d: (group, setting_of(method, setting), d, method) for d in columns}, printed or {}


def _printed(method) -> dict:
    """Return the paper's accuracies of a method on the real sets, on its fold as well."""
    name = "cleanse" if method in ("cleanse-paper", "cleanse-reconstruction") else method
    found = {d: case[name][0] for (d, _), case in paper.ACCURACY.items() if name in case}
    return found | {f"{d}:fold0": mean for d, mean in found.items()}


def real_table(results, group, recipe, measure="accuracy_mean") -> Table:
    """Accuracy, or another measure, on the real data sets."""
    columns, notes, is_accuracy = results.columns(group, REAL), [], measure == "accuracy_mean"
    rows = {
        heading: _row(group, recipe, method, columns, _printed(method) if is_accuracy else {})
        for method, heading in methods_of(results, group, recipe).items()
    }
    if group == "fresh":
        seeds = [x["seed"] for c, lines in results.cells.items() if c[0] == "fresh" for x in lines]
        notes.append(f"Splits {min(seeds)}–{max(seeds)}, by which no default was chosen.")
    title = f"{'Fresh splits' if group == 'fresh' else 'Real-world data'}: {RECIPES[recipe]}"
    name, options = f"{group}-{recipe}", {"notes": [ACCURACY_NOTE, *notes]}
    if not is_accuracy:
        name, title = f"{name}-{measure}", f"{title}, {MEASURES[measure]}"
        options = {"measure": measure, "ranked": False, "notes": notes}
    return accuracy_table(name, title, results, columns, rows, **options)


def headline_table(results) -> Table:
    """Accuracy and seconds of the methods that were run on all fresh splits, best first."""
    sets, rows = [d for d in REAL if d in results.have(2, "fresh")], {}
    known = [method for method in methods_of(results, "fresh", "ours") if method in METHOD_NAMES]
    cells = {d: [("fresh", "ours", d, method) for method in known] for d in sets}
    is_whole = [results.same_trials(row) for row in cells.values()] or [[False] * len(known)]
    for j in np.flatnonzero(np.all(is_whole, axis=0)):
        own = [row[j] for row in cells.values()]
        seconds = np.mean([results.fastest(*cell) for cell in own])
        rows[METHOD_NAMES[known[j]]] = [*(100 * results.mean(*cell) for cell in own), seconds]
    numbers = pd.DataFrame.from_dict(
        rows, orient="index", columns=[*map(set_name, sets), "seconds"]
    )
    accuracy = numbers.columns[:-1]
    numbers = numbers.loc[numbers[accuracy].mean(axis=1).sort_values(ascending=False).index]
    frame = numbers.map("{:.1f}".format).astype(str)
    for name in accuracy:
        frame.loc[numbers[name].idxmax(), name] = f"**{frame[name][numbers[name].idxmax()]}**"
    splits = len(results.lines("fresh", "ours", sets[0], "cleanse")) if sets else 0
    note = (
        f"Test accuracy in %, mean of {splits} splits not used to choose any default; best in "
        f"bold. Seconds: the fastest of the {splits} fits, as the machine did other work, mean "
        "over the sets. Every network has the same layers and training."
    )
    return Table("headline", "Accuracy and seconds", frame, [note])


def published_table(results) -> Table:
    """Accuracy on the paper's own split, in its network and training."""
    group, columns, rows = "as-published", results.columns("as-published", FOLD0), {}
    for method, heading in methods_of(results, group, "paper").items():
        setting = "both" if method.startswith("cleanse") else "paper"
        rows[heading] = _row(group, setting, method, columns, _printed(method))
    fold = "Fold 0 of KFold(5, shuffle=True, random_state=0); trials differ in initialisation."
    title, notes = "As published: the paper's split and network", [ACCURACY_NOTE, fold]
    return accuracy_table(group, title, results, columns, rows, notes=notes)


def image_table(results, dataset, recipe) -> Table:
    """Accuracy on one image set by batch size."""
    found = (re.fullmatch(rf"{recipe}-batch-(\d+)", s) for s in results.have(1, "images"))
    sizes = sorted({int(match[1]) for match in found if match} | set(BATCH_SIZES))
    rows, methods = {}, methods_of(results, "images", recipe)
    for method, heading in methods.items():
        cells = {s: setting_of(method, f"{recipe}-batch-{s}") for s in sizes}
        cells = {s: ("images", setting, dataset, method) for s, setting in cells.items()}
        name = "cleanse" if method == "cleanse-paper" else method
        cases = {s: paper.ACCURACY.get((dataset, s), {}).get(name) for s in sizes}
        rows[heading] = cells, {s: printed[0] for s, printed in cases.items() if printed}
    notes = [
        "Test accuracy in %, mean over the last ten epochs, or over all where there are fewer; ± "
        "is over trials where there are several, else over those epochs, as in the paper, whose "
        "figure stands beside ours."
    ]
    if set(methods) - set(METHOD_NAMES):
        notes.append("A method of your own has one batch size and stands in every column.")
    title = f"{set_name(dataset)}, uniform candidates: {RECIPES[recipe]}"
    columns = {size: f"batch {size}" for size in sizes}
    name = f"images-{dataset}-{recipe}"
    return accuracy_table(name, title, results, columns, rows, notes=notes)


def final_images_table(results, size=256) -> Table:
    """Accuracy on image sets after the last epoch, where the learning rate has come down."""
    rows, columns = {}, results.columns("images", IMAGES)
    for method, heading in methods_of(results, "images", "ours").items():
        setting = setting_of(method, f"ours-batch-{size}")
        rows[heading] = {d: ("images", setting, d, method) for d in columns}, {}
    notes = ["Test accuracy in % after the last epoch."]
    title, measure = f"Images, batch {size}, after the last epoch", "accuracy_final"
    return accuracy_table(
        "images-final", title, results, columns, rows, ranked=False, notes=notes, measure=measure
    )


def settings_table(results, name, title, group, settings, note=ACCURACY_NOTE) -> Table:
    """Accuracy of CleanSE's forms by setting; ``settings`` has (heading, the paper's figures)."""
    columns = results.columns(group, FOLD0 if group == "as-published" else REAL)
    ours = [m for m in METHOD_NAMES if m.startswith("cleanse") and m in results.have(3, group)]
    rows = {
        (f"{METHOD_NAMES[method]}: " if len(ours) > 1 else "") + heading: _row(
            group, setting, method, columns, printed
        )
        for method in ours
        for setting, (heading, printed) in settings.items()
        if any(results.lines(group, setting, d, method) for d in columns)
    }
    return accuracy_table(name, title, results, columns, rows, ranked=False, notes=[note])


def ablation_table(results, group="ablation", name="ablation", about="") -> Table:
    """With and without votes and counts."""
    settings = {
        setting: (setting, printed | {f"{d}:fold0": value for d, value in printed.items()})
        for setting, printed in paper.ABLATION.items()
    }
    title = f"Ablation: votes and counts{about}"
    return settings_table(results, name, title, group, settings)


def sweep_table(results, parameter, group, name, about="") -> Table:
    """Accuracy over the values of one parameter."""
    symbol = "T" if parameter == "temperature" else "λ"
    settings = {s: (f"{symbol} = {value:g}", {}) for s, value in SWEEPS[parameter].items()}
    note = "Test accuracy in %. The paper prints no numbers, only a figure."
    return settings_table(results, name, f"Sensitivity to {symbol}{about}", group, settings, note)


def parts_table(results) -> Table:
    """Our defaults, one part at a time put back to the paper's."""
    names = ["defaults", *sorted(set(results.have(1, "parts")) - {"defaults"})]
    title, settings = "Each part of the defaults put back", {name: (name, {}) for name in names}
    return settings_table(results, "parts", title, "parts", settings)


def calibrated_table(results) -> Table:
    """Rivals' losses without and with CleanSE's calibration on top."""
    group, columns, rows = "rivals-calibrated", results.columns("rivals-calibrated", REAL), {}
    for loss in CALIBRATED:
        rows[loss.upper()] = _row(group, "ours", loss, columns)
        cells = {d: (group, "ours", d, f"{loss}+cleanse") for d in columns}
        rows[f"{loss.upper()} with CleanSE"] = cells, {}
    title = "CleanSE on top of other losses"
    options = {"ranked": False, "notes": [ACCURACY_NOTE]}
    return accuracy_table(group, title, results, columns, rows, **options)


def differences_table(results) -> Table:
    """CleanSE less each rival, split by split."""
    rows = {}
    for method, heading in methods_of(results, "fresh", "ours").items():
        for dataset in results.have(2, "fresh"):
            pair = [("fresh", setting_of(m, "ours"), dataset, m) for m in ("cleanse", method)]
            if method != "cleanse" and results.same_trials(pair).all():
                gain = 100 * (results.values(*pair[0]) - results.values(*pair[1]))
                error = gain.std(ddof=min(1, len(gain) - 1)) / len(gain) ** 0.5
                better = f"{(gain > 0).sum()} of {len(gain)}"
                text = f"{gain.mean():+.2f} ± {error:.2f} ({better})"
                rows.setdefault(heading, {})[set_name(dataset)] = text
    note = (
        "Accuracy of CleanSE less that of the rival on the same fresh splits, in points: mean ± "
        "standard error of the differences (splits where CleanSE is better). CC is the same "
        "network without votes and counts."
    )
    frame = pd.DataFrame.from_dict(rows, orient="index", dtype=str).fillna("not run")
    return Table("fresh-differences", "Fresh splits: CleanSE less each", frame, [note])


def controlled_table(cases, balance) -> Table:
    """Mean accuracy by kind of candidates and method, over the sets that all were run on."""
    parts = pd.DataFrame([controlled_parts(d) or ("",) * 3 for *_, d in cases.cells])
    chosen, frame = parts[2] == balance, pd.DataFrame(index=cases.headings)
    for kind in [kind for kind in KINDS if (chosen & (parts[1] == kind)).any()]:
        means = 100 * cases.scores[chosen & (parts[1] == kind)].mean(axis=0)
        frame[kind] = [f"**{m:.1f}**" if m == means.max() else f"{m:.1f}" for m in means]
    ranks = average_ranks(cases._replace(scores=cases.scores[chosen]))
    frame["mean rank"] = [f"**{r:.2f}**" if r == ranks.min() else f"{r:.2f}" for r in ranks]
    notes = [
        "Mean test accuracy in % over sets and trials, 90/10 splits, at most 2000 training rows; "
        "best in bold. Imbalanced: the first class is ten times larger than the last.",
        f"Sets: {', '.join(parts[0][chosen].unique())}. Mean ranks are over sets and kinds.",
    ]
    return Table(f"controlled-{balance}", f"Controlled candidates, {balance} classes", frame, notes)


MEASURES = {
    "accuracy_final": "accuracy after the last epoch, %",
    "transductive": "training labels identified, %",
    "covering_rate": "covering rate, % (needs no true labels)",
    "approximated_accuracy": "approximated accuracy, % (needs no true labels)",
    "seconds": "seconds per fit, on a machine that may have done other work at the time",
    "peak_memory_mb": "peak memory of the whole process, MB",
}


def characteristics_table(results) -> Table:
    """What the data sets are like, as far as lines say."""
    lines = [line for found in results.cells.values() for line in found]
    lines = [line for line in lines if not controlled_parts(line["dataset"])]
    rows = {d: {"training + test rows": "data absent"} for d in (*IMAGES, *REAL)}
    rows = {d: row for d, row in rows.items() if d in results.absent}
    for dataset in dict.fromkeys(line["dataset"] for line in lines):
        trials = pd.DataFrame([line for line in lines if line["dataset"] == dataset])
        first, mean = trials.iloc[0], trials.drop_duplicates("seed").mean(numeric_only=True)
        rows[dataset] = {
            "training + test rows": f"{first.n_train} + {first.n_test}",
            "features": f"{first.n_features}",
            "classes": f"{first.n_classes}",
            "mean candidates": f"{mean.mean_candidates:.4f}",
            "clean, %": f"{100 * mean.clean_rate:.2f}",
        }
    for dataset, row in rows.items():
        *_, candidates, clean = paper.CHARACTERISTICS.get(dataset.removesuffix(":fold0"), ("", ""))
        row |= {"paper's candidates": str(candidates), "paper's clean, %": str(clean)}
    rows = {set_name(d) + ", fold 0" * d.endswith(":fold0"): row for d, row in rows.items()}
    note = (
        "Candidates and clean rate of the training rows, mean over trials. The paper's figures for "
        "Lost, BirdSong and MSRCv2 are those of fold 0 of KFold(5, shuffle=True, random_state=0), "
        "not of 90/10 splits."
    )
    frame = pd.DataFrame.from_dict(rows, orient="index", dtype=str).fillna("")
    return Table("characteristics", "Data sets", frame, [note])


def all_tables(results: Results) -> list[Table]:
    """Make every table there is something for."""
    tables = [characteristics_table(results)]
    tables += [real_table(results, "real", recipe) for recipe in RECIPES]
    if results.have(1, "fresh"):
        tables += [real_table(results, "fresh", "ours"), differences_table(results)]
        tables += [headline_table(results)]
    group, about = "as-published", ", as published"
    tables += [published_table(results), ablation_table(results, group, f"{group}-ablation", about)]
    tables += [sweep_table(results, p, group, f"{group}-{p}", about) for p in SWEEPS]
    images = results.columns("images", IMAGES)
    tables += [image_table(results, d, r) for d in images for r in RECIPES]
    tables += [final_images_table(results)]
    tables += [ablation_table(results), parts_table(results)]
    tables += [sweep_table(results, group, group, group) for group in SWEEPS]
    tables += [calibrated_table(results), label_free_table(results), paper_table()]
    for cases in gather(results):
        if cases.name == "controlled":
            tables += [controlled_table(cases, balance) for balance in BALANCES]
        tables.append(ranking_table(results, cases))
    groups = [group for group in ("fresh", "real") if results.have(1, group)]
    tables += [real_table(results, group, "ours", m) for group in groups for m in MEASURES]
    return [table for table in tables if table.frame.size]


def value_of(results, path: str) -> str:
    """Return the mean ± sd in % of a cell such as ``fresh/ours/lost/cleanse``, or of a measure."""
    values = results.values(*path.split("/"))
    return mean_sd(values) if len(values) else "not run"


def main(arguments=None) -> int:
    """Do what the command line asks for; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    add = parser.add_argument
    add("--results", type=Path, nargs="+", help="folders of lines (default: results, results-own)")
    add("--output", type=Path, help="where to write (default: report in the first of them)")
    add("--update", type=Path, nargs="+", help="renew tables in these texts; write nothing else")
    options = parser.parse_args(arguments)
    folders = options.results or [HERE / "results", HERE / "results-own"]
    if options.update:  # the texts of this checkout show its tracked lines
        folders = options.results or folders[:1]
    results = Results.read(folders)
    tables = all_tables(results)
    if options.update:
        for path in options.update:
            text = renew_text(path.read_text(), tables, lambda p: value_of(results, p))
            path.write_text(text)
        return 0
    from report import write_report  # not before: it needs matplotlib

    output = options.output or folders[0] / "report"
    write_tables(tables, output)
    path = write_report(results, tables, output)
    print(f"{len(results.cells)} cells, {len(tables)} tables: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
