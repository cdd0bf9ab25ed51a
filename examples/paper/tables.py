"""Make the tables of the docs from result lines.

    python examples/paper/tables.py                    # print all tables
    python examples/paper/tables.py --update           # renew the tables inside README and docs
    python examples/paper/tables.py --output folder    # tables.md, and a CSV file per table

``<!-- table: headline -->`` … ``<!-- /table -->`` in a Markdown file holds a table. Lines of the
scripts in ``examples/benchmarks`` are read from a folder ``benchmarks`` beside the others.
"""

import argparse
import re
import sys
from pathlib import Path

import cells
import numpy as np
import pandas as pd
import paper_numbers as paper
import plan
from cells import ACCURACY, BEFORE, OURS, Table, grid, method_names, of, set_names, with_notes
from data import ABSENT, BALANCES, MNISTS, SOURCES, set_name
from plan import FOLD0, HEADLINE, METHODS, THREE, tl_setting
from verdicts import verdict_table

from sklearn_cleanse import comparison

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs" / "generated" / "paper_tables.md"


def headline(lines) -> Table:
    """Accuracy and seconds of all methods on the real sets, the best mean first."""
    runs, timed = of(lines, "headline"), of(lines, "seconds")
    sets = [*THREE, *(name for name in runs.dataset.unique() if name not in THREE)]
    methods = method_names(HEADLINE, runs)
    texts = grid(runs, methods, set_names(sets))
    means = runs.groupby(["method", "dataset"]).score.mean().unstack()
    mean = means.reindex(index=methods, columns=sets).mean(axis=1, skipna=False)
    texts["mean"] = [f"{x:.1f}" if np.isfinite(x) else "" for x in mean]
    fastest = (timed if len(timed) else runs).groupby(["method", "dataset"]).seconds.min()
    seconds = fastest.unstack().reindex(index=methods, columns=sets).mean(axis=1)
    texts["seconds"] = [f"{x:.1f}" if np.isfinite(x) else "" for x in seconds]
    order = np.argsort(-mean.to_numpy(), kind="stable")
    texts = texts.iloc[order]
    texts = texts[texts[[set_name(name) for name in sets]].ne("not run").any(axis=1)]
    other = METHODS["cleanse-paper"]
    note = (
        f"{ACCURACY} of {cells.splits_of(runs)}, final models, best in bold. Every network has the "
        f"same layers and training{f', but {other}' * (other in texts.index)}. Seconds: fastest "
        "fit on one thread, mean over the sets."
    )
    return Table("headline", "Accuracy on real sets", texts, with_notes(runs, note))


def another_protocol(lines) -> Table:
    """BirdSong beside the best published figure, which has other splits."""
    runs = of(lines, "another-protocol")
    texts = grid(runs, method_names((OURS, "kernel")), {"birdsong:80/20": "BirdSong"})
    texts.loc["CroSel with conformal cleaning, as printed (UAI 2025)"] = "77.8"
    note = f"{ACCURACY}; {cells.number_of(runs.seed, 'split')} of 80/20, features scaled to 0 to 1."
    return Table("another-protocol", "BirdSong, 80/20", texts, with_notes(runs, note))


def differences(lines) -> Table:
    """CleanSE (this package) less each other method, split by split."""
    runs = of(lines, "headline")
    wide = runs.pivot(index=["dataset", "seed"], columns="method", values="score")
    rows = {}
    for method, name in method_names(HEADLINE, runs).items():
        if method in wide and method != OURS and OURS in wide:
            gain = (wide[OURS] - wide[method]).dropna()
            rows[name] = {set_name(d): _interval(g) for d, g in gain.groupby(level=0)}
    frame = pd.DataFrame.from_dict(rows, orient="index")
    frame = frame.reindex(columns=list(set_names(THREE).values())).astype(object)
    note = (
        "Points by which CleanSE (this package) is better: mean over the splits, in brackets a "
        "95 % interval corrected for shared training rows (Nadeau and Bengio), and on how many "
        "splits it is better."
    )
    title = "CleanSE (this package) less each, split by split"
    return Table("differences", title, frame.fillna("not run"), with_notes(runs, note))


def _interval(gain) -> str:
    if len(gain) < 2:
        return f"{gain.mean():+.1f}"
    low, high = comparison.corrected_interval(gain, 0.1)
    return f"{gain.mean():+.1f} [{low:+.1f}, {high:+.1f}] ({(gain > 0).sum()} of {len(gain)})"


def _by_source(runs, measure) -> pd.DataFrame:
    """Return texts of means by source and method over the cases of ours, and mean ranks."""
    cases = runs.pivot_table(index=["source", "base"], columns="method", values=measure)
    if OURS not in cases:
        return pd.DataFrame()
    known = [method for method in method_names(HEADLINE, runs) if method in cases]
    cases, is_error = cases.loc[cases[OURS].notna(), known], measure == "ece"
    by_source = cases.groupby(level=0)
    means, count, whole = by_source.mean().T, by_source.count().T, by_source.size()
    ranks = cases.loc[:, cases.notna().all()].rank(axis=1, ascending=is_error).mean()
    texts = {
        source: _best_in_bold(
            means[source], count[source], whole[source], 3 if is_error else 1, is_error
        )
        for source in (*SOURCES, "words")
        if source in means
    }
    n = cases.notna().all().astype(int)
    texts["mean rank"] = _best_in_bold(ranks.reindex(known), n, 1, 1, True).replace("not run", "–")
    return pd.DataFrame(texts).rename(index=METHODS)


def _best_in_bold(means, count, whole, digits, lowest) -> pd.Series:
    """Return texts of means; those of fewer cases show it and do not compete."""
    means, texts = means.round(digits), means.map(f"{{:.{digits}f}}".format)
    compared = means[count == whole]
    best = means == (compared.min() if lowest else compared.max())
    texts = texts.where(~best | (count < whole), "**" + texts + "**")
    texts += [f" ({n} of {whole})" if n < whole else "" for n in count]
    return texts.where(count > 0, "not run")


def controlled(lines, measure="score") -> Table:
    """Means by source of wrong candidates, balanced / long-tailed."""
    runs, is_error = of(lines, "controlled").dropna(subset=[measure]), measure == "ece"
    parts = runs.dataset.str.split(":", expand=True).reindex(columns=range(3))
    runs = runs.assign(base=parts[0], source=parts[1].fillna("words"), balance=parts[2])
    even, tail = (
        _by_source(runs[runs.balance.isin(balances)], measure)
        for balances in ([BALANCES[0], None], BALANCES[1:])
    )
    if len(tail):
        rows, columns = (a.union(b, sort=False) for a, b in zip(even.axes, tail.axes, strict=True))
        even, tail = (
            f.reindex(rows, columns=columns).astype(object).fillna("not run") for f in (even, tail)
        )
        for column in columns.drop("words", errors="ignore"):
            even[column] = even[column] + " / " + tail[column]
        even = even.replace("not run / not run", "not run")
    bases = sorted({name for name in runs.base if name != "lexicon"})
    trials = runs.groupby("method").seed.nunique()
    what = "Expected calibration error of the predicted class" if is_error else "Test accuracy in %"
    note = (
        f"{what}, balanced / long-tailed: mean over sets ({', '.join(bases)}) and "
        f"{cells.number_of(runs.seed, 'trial')}; 90/10 splits, at most 2,000 training rows, final "
        "models; best in bold. Mean rank: over sets and sources."
    )
    if "DPCLS" in even.index and trials["dpcls"] < trials.max():
        note += f" DPCLS: {cells.number_of(range(trials['dpcls']), 'trial')}."
    if "words" in even:
        note += " Words: five lexicons of `make_lexicon`."
    name = "calibration-by-source" if is_error else "controlled"
    title = f"{'Calibration' if is_error else 'Accuracy'} by source of wrong candidates"
    return Table(name, title, even, with_notes(runs, note))


def friedman(lines) -> Table:
    """Friedman's test over ten data sets: three real, seven controlled."""
    cases, runs = cells.ten_sets(lines), pd.concat([of(lines, "headline"), of(lines, "controlled")])
    if cases.empty:
        return Table("friedman", "Ranks over data sets", pd.DataFrame(), [])
    result = comparison.friedman_test(cases.to_numpy())
    gap = comparison.critical_difference(cases.shape[1], len(cases), test="bonferroni-dunn")
    ranks = pd.Series(result.average_ranks, index=cases.columns).sort_values()
    behind = ranks - ranks[OURS]
    texts = {
        "average rank": ranks.map("{:.2f}".format),
        "behind CleanSE (this package)": behind.map("{:+.2f}".format),
        "differs": behind.abs().gt(gap).map({True: "yes", False: "no"}),
    }
    note = (
        f"{len(cases)} data sets ({', '.join(map(set_name, cases.index))}), a mean over sources, "
        f"balances and trials each. F = {result.f_statistic:.2f}, critical value "
        f"{result.critical_value:.2f}; critical difference (Bonferroni–Dunn) {gap:.2f}."
    )
    frame = pd.DataFrame(texts).rename(index=METHODS)
    return Table("friedman", "Ranks over data sets", frame, with_notes(runs, note))


def seconds(lines) -> Table:
    """Seconds and memory, the fastest fit first: of their own group, else of the headline's."""
    runs = of(lines, "seconds") if "seconds" in set(lines.group) else of(lines, "headline")
    if runs.empty:
        return Table("seconds", "Seconds and memory", pd.DataFrame(), [])
    columns = set_names(THREE)
    best = runs.groupby(["method", "dataset"])[["seconds", "peak_memory_mb"]].min()
    order = best.seconds.unstack().reindex(columns=THREE).mean(axis=1).sort_values().index
    texts = [f"{x.seconds:.1f} s, {x.peak_memory_mb:.0f} MB" for x in best.itertuples()]
    frame = pd.Series(texts, best.index, dtype=str).unstack().reindex(index=order, columns=columns)
    note = (
        f"Fastest of {cells.number_of(runs.seed, 'fit')} on one thread; peak memory of the whole "
        "process, libraries included."
    )
    frame = frame.astype(object).fillna("not run")
    frame = frame.rename(index=method_names(order), columns=columns)
    return Table("seconds", "Seconds and memory", frame, with_notes(runs, note))


_SIZE = (
    "Fold 0 of KFold(5, shuffle=True, random_state=0), 250 epochs, batches of 64; trials differ in "
    "initialization, and each counts by the mean of its last ten epochs."
)


def as_published(lines, columns=FOLD0) -> Table:
    """Accuracy on the paper's own split, in its network and training."""
    runs, kernels = of(lines, "as-published"), ("pl-cgr", "dpcls")
    rows = method_names((*plan.NETWORKS[:5], *kernels, *plan.NETWORKS[5:]))
    texts = grid(runs, rows, set_names(columns), once=kernels)
    printed = {set_name(d): cells.printed_in((d.partition(":")[0], None)) for d in columns}
    note = f"{ACCURACY}. {_SIZE} PL-CGR and DPCLS have no initialization: one run."
    title = "Real sets: the paper's split, network and training"
    return Table("as-published", title, cells.beside(texts, printed), with_notes(runs, note))


def _cells(lines, name, title, settings, columns, printed=()) -> Table:
    """Accuracy of two forms of CleanSE by T and λ."""
    runs, blocks = of(lines, "ablation", setting=settings), []
    for method in ("cleanse-paper", "cleanse-paper-net"):
        part = runs[runs.method == method]
        texts = grid(part, settings, set_names(columns), by=("setting", "dataset"), ranked=False)
        figures = dict(printed) if method == "cleanse-paper" else {}
        blocks.append(
            cells.beside(texts, dict(figures)).rename(index=f"{METHODS[method]}: {{}}".format)
        )
    frame = pd.concat(blocks).reindex(columns=blocks[0].columns).fillna("")
    return Table(name, title, frame, with_notes(runs, f"{ACCURACY}. {_SIZE}"))


def ablation(lines, columns=FOLD0) -> Table:
    """Votes and counts, on and off."""
    settings = {tl_setting(*pair): name for name, pair in plan.ABLATION.items()}
    theirs = pd.DataFrame(paper.ABLATION).T.rename(columns=set_name)
    printed = {set_name(d): theirs[set_name(d)].to_dict() for d in columns}
    title = "Votes and counts, on and off"
    return _cells(lines, "ablation", title, settings, columns, printed)


def sweeps(lines) -> list[Table]:
    """Accuracy over T and over λ."""
    temperatures = {tl_setting(T, 1e-3): f"T = {T:g}" for T in plan.TEMPERATURES}
    lambdas = {tl_setting(3, weight): f"λ = {weight:g}" for weight in plan.LAMBDAS}
    return [
        _cells(lines, "temperature", "Temperature T", temperatures, FOLD0),
        _cells(lines, "lambda", "Weight λ of the count loss", lambdas, FOLD0),
    ]


_IMAGE_SIZES = {
    "kmnist": "8,000 of its 10,000 test images train, 2,000 test (the others were not available)",
    "cifar10": "5,000 training images, ResNet-34 of width 8, 30 epochs",
}


def images(lines, dataset) -> Table:
    """Accuracy on one image set by batch size."""
    group = "cifar10" if dataset == "cifar10" else "images"
    runs = of(lines, group, dataset=dataset)
    columns = {f"batch {size}": f"batch {size}" for size in plan.BATCH_SIZES}
    texts = grid(runs, method_names((*plan.SIX, OURS), runs), columns, by=("method", "setting"))
    printed = {f"batch {size}": cells.printed_in((dataset, size)) for size in plan.BATCH_SIZES}
    size = _IMAGE_SIZES.get(dataset, "8,000 training images, 10,000 test images, 250 epochs")
    note = (
        f"{ACCURACY}; {cells.number_of(runs.seed, 'seed')}, uniform candidates; {size}. The mean "
        "of the last ten epochs counts; for CleanSE (this package), whose learning rate ends at "
        "zero, the final model. The paper trains on the full sets."
    )
    title = f"{set_name(dataset)} by batch size"
    return Table(f"images-{dataset}", title, cells.beside(texts, printed), with_notes(runs, note))


def images_full(lines) -> Table:
    """Accuracy on the full image sets in our recipe."""
    runs = of(lines, "images-full", setting="batch 256")
    rows = method_names([m for m in METHODS if m in set(runs.method)], runs)
    columns = set_names([d for d in MNISTS if d in set(runs.dataset)])
    texts = grid(runs, rows, columns, digits=2)
    note = f"{ACCURACY}; all 60,000 training images, uniform candidates, our recipe, final models."
    return Table("images-full", "Full image sets, batch 256", texts, with_notes(runs, note))


def friedman_of_paper() -> Table:
    """Recompute the paper's Friedman test from its printed ranks and accuracies."""
    methods, n = list(paper.AVERAGE_RANKS), len(paper.ACCURACY)
    scores = [[case.get(m, [np.nan])[0] for m in methods] for case in paper.ACCURACY.values()]
    results = {
        "from printed ranks": comparison.friedman_from_ranks(list(paper.AVERAGE_RANKS.values()), n),
        "from printed accuracies": comparison.friedman_test(scores, missing="worst"),
    }
    printed = [*map("{:.2f}".format, paper.AVERAGE_RANKS.values()), str(paper.F_STATISTIC)]
    columns = {"printed": [*printed, str(paper.CRITICAL_VALUE), str(paper.CRITICAL_DIFFERENCE)]}
    gap = comparison.critical_difference(len(methods), n, test="bonferroni-dunn")
    for heading, r in results.items():
        numbers = [*r.average_ranks, r.f_statistic, r.critical_value]
        columns[heading] = [*map("{:.2f}".format, numbers), f"{gap:.3f}"]
    names = ["CleanSE (as printed)" if m == OURS else METHODS[m] for m in methods]
    index = [*names, "F", "critical value", "critical difference"]
    note = (
        "Three printed ranks do not follow from the printed accuracies (CC on Kuzushiji-MNIST at "
        f"batch 256, CAVL on CIFAR-10 at 64 and 128). The {n} cases are nine data sets, most of "
        "them at five batch sizes: the test is more certain than nine data sets allow."
    )
    frame = pd.DataFrame(columns, index=index)
    return Table("friedman-of-paper", "The paper's Friedman test, recomputed", frame, [note])


#: Tables of the scripts in examples/benchmarks: rows, columns, and formats of their figures.
BENCHMARKS = {
    "label-errors": (["set", "errors"], ["method"], {"area": "{:.3f}"}),
    "wrong-sets": (["noise rate"], ["method"], {"accuracy, %": "{:.1f}"}),
    "rare-classes": (
        *(["set"], ["method", "prior"], {"accuracy, %": "{:.1f}", "balanced, %": "{:.1f}"}),
    ),
    "calibration": (["source", "method"], [], dict.fromkeys(["before", "error"], "{:.3f}")),
}


def benchmark(path) -> Table:
    """Make the table of a script from its lines: means over what is neither row nor column."""
    rows, columns, formats = BENCHMARKS[path.stem]
    lines = pd.read_json(path, lines=True).dropna(subset=[*rows, *columns])
    means = lines.groupby([*rows, *columns], sort=False)[list(formats)].mean()
    texts = means.apply(lambda figures: figures.map(formats[figures.name].format))
    texts = texts.agg(" / ".join, axis=1).unstack(columns) if columns else texts
    for axis in ("index", "columns"):
        labels = getattr(texts, axis).to_frame().astype(str).agg(", ".join, axis=1)
        texts = texts.set_axis(labels.to_numpy(), axis=axis)
    bases = lines["set"].unique()
    note = f"Mean over sets ({', '.join(bases)}) and {cells.number_of(lines.seed, 'seed')}."
    return Table(path.stem, path.stem.capitalize(), texts.fillna("not run"), [note])


def all_tables(lines, folders=(HERE / "results",)) -> list[Table]:
    """Make every table there are lines for."""
    files = [path for folder in folders for path in sorted((folder / "benchmarks").glob("*.jsonl"))]
    tables = [headline(lines), verdict_table(lines), differences(lines), controlled(lines)]
    tables += [another_protocol(lines), ablation(lines), seconds(lines), *map(benchmark, files)]
    return [table for table in [*tables, *more_tables(lines)] if _was_run(table)]


def _was_run(table) -> bool:
    return not table.frame.isin(["", "not run"]).all(axis=None)


def more_tables(lines) -> list[Table]:
    """Make the tables that are on the page of all others."""
    run_on = set(of(lines, "images").dataset) | set(of(lines, "cifar10").dataset)
    tables = [images(lines, d) for d in (*MNISTS, "cifar10") if d in run_on]
    tables += [as_published(lines), images_full(lines), controlled(lines, "ece")]
    return [*tables, *sweeps(lines), friedman(lines), friedman_of_paper()]


def page_text(lines) -> str:
    """Return the page of the paper's tables beside ours, and of ours that are on no other."""
    real = [f"{name}:fold0" for name in (*THREE, *ABSENT)]
    tables = [images(lines, dataset) for dataset in (*MNISTS, "cifar10")]
    tables += [as_published(lines, real), ablation(lines, real), friedman_of_paper()]
    others = [images_full(lines), controlled(lines, "ece"), *sweeps(lines), friedman(lines)]
    tables += filter(_was_run, others)
    texts = "\n".join(f"## {table.title}\n\n{markdown(table)}" for table in tables)
    return f"---\norphan: true\n---\n\n# The paper's tables beside ours, and others\n\n{texts}"


def markdown(table: Table) -> str:
    """Return a pipe table with its notes below."""
    rows = [["", *table.frame.columns], ["---"] * (1 + table.frame.shape[1])]
    rows += [[head, *row] for head, *row in table.frame.itertuples()]
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return "\n".join([*lines, "", *table.notes]) + "\n"


def quick_text(lines) -> str:
    """Return the table of the quick runs as plain text."""
    frame = cells.with_scores(lines)
    columns = {name: name for name in frame.dataset.unique()}
    methods = method_names([m for m in METHODS if m in set(frame.method)], frame)
    texts = grid(frame, methods, columns, ranked=False)
    seconds = frame.groupby("method").seconds.sum().rename(index=METHODS)
    return texts.assign(seconds=seconds.map("{:.1f}".format)).to_string()


def renew(text: str, tables: list[Table]) -> str:
    """Put current tables into a Markdown text; those not made any more are marked."""
    by_name = {table.name: table for table in tables}

    def block(match):
        body = match[3].strip("\n")
        if match[2] in by_name:
            body = f"\n{markdown(by_name[match[2]])}"
        elif BEFORE not in body:
            body = f"\n{body}\n{BEFORE}\n"
        else:
            body = f"\n{body}\n"
        return f"{match[1]}{body}\n<!-- /table -->"

    return re.sub(
        r"(<!-- table: ([\w.+-]+) -->\n)(.*?)<!-- /table -->", block, text, flags=re.DOTALL
    )


def pages() -> list[Path]:
    """List the Markdown files that may hold tables."""
    found = sorted((ROOT / "docs").rglob("*.md"))
    skipped = ("_build", "auto_examples", "generated", "benchmarks")
    return [ROOT / "README.md", *(p for p in found if not set(p.parts) & set(skipped))]


def main(arguments=None) -> int:
    """Do what the command line asks for; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--results", type=Path, nargs="+", default=[HERE / "results"], help="folders of lines")
    add("--update", type=Path, nargs="*", help="renew these texts (default: README and docs)")
    add("--output", type=Path, help="write the tables into this folder")
    options = parser.parse_args(arguments)
    lines = cells.load(*options.results)
    tables = all_tables(lines, options.results)
    if options.update is not None:
        for path in options.update or pages():
            path.write_text(renew(path.read_text(encoding="utf-8"), tables), encoding="utf-8")
        if not options.update:
            PAGE.parent.mkdir(parents=True, exist_ok=True)
            PAGE.write_text(page_text(lines), encoding="utf-8")
        return 0
    text = "\n".join(f"## {table.title}\n\n{markdown(table)}" for table in tables)
    if options.output:
        options.output.mkdir(parents=True, exist_ok=True)
        (options.output / "tables.md").write_text(text, encoding="utf-8")
        for table in tables:
            table.frame.to_csv(options.output / f"{table.name}.csv")
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
