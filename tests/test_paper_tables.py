"""The tables of examples/paper: every number is computed from lines, and says what it rests on."""

import re

import numpy as np
import pytest
from test_paper import PAPER, line_of  # puts examples/paper on the path

# isort: split
import lines as lines_module
import paper_numbers
import tables
from cells import Results
from lines import LineFile
from plan import key_of_task, plan
from ranking import gather, paper_table, ranking_tables
from render import as_csv, renew_text
from report import _summary


def some_results(absent=()):
    found = [
        line_of(method=method, seed=seed, accuracy_mean=mean + 0.01 * seed, run=f"{method}{seed}")
        for method, mean in (("cc", 0.6), ("rc", 0.5), ("cleanse", 0.7))
        for seed in range(3)
    ]
    return Results(found, absent)


def test_accuracy_cell_is_mean_sd_rank_and_the_papers_figure():
    table = tables.real_table(some_results(["yahoo_news"]), "real", "ours")
    rows = dict(table.rows)
    cell = rows["CleanSE"][0]
    assert cell.text == "71.00 ± 1.00 (1)"
    assert cell.bold
    assert cell.paper == "69.52 ± 1.97"
    assert "3 of 5 trials" in table.notes[-1]
    assert rows["RC"][0].text == "51.00 ± 1.00 (3)"
    assert rows["LWS"][0].text == "not run"
    assert rows["CC"][-1].text == "data absent"


def test_differences_are_taken_split_by_split():
    found = [
        line_of(group="fresh", method=method, seed=seed, accuracy_mean=mean, run=f"{method}{seed}")
        for method, means in (("cleanse", (0.7, 0.6, 0.9)), ("cc", (0.6, 0.7, 0.6)))
        for seed, mean in zip((110, 111, 112), means, strict=True)
    ]
    table = tables.differences_table(Results([*found, found[0] | {"method": "rc"}]))
    rows = dict(table.rows)
    error = np.std([10, -10, 30], ddof=1) / np.sqrt(3)
    assert rows["CC"][0].text == f"+10.00 ± {error:.2f} (2 of 3)"
    assert rows["RC"][0].text == "not run"  # one split of three does not compare
    assert "CleanSE" not in rows


def test_newest_parameters_count_and_small_scale_is_noted():
    old = line_of(setting="paper", params={"lr": 1}, accuracy_mean=0.1)
    new = line_of(setting="paper", accuracy_mean=0.8, epochs=20, train_size=500, n_train=500)
    new |= {"finished": "2026-02-01T00:00:00+00:00", "run": "1"}
    table = tables.real_table(Results([old, new]), "real", "paper")
    assert dict(table.rows)["CC"][0].text == "80.00 ± 1.00"  # sd over epochs: there is one trial
    notes = " ".join(table.notes)
    assert "20 epochs, the paper has 250" in notes
    assert "500 training rows" in notes


def test_current_plan_counts_before_most_trials_before_newest():
    def cell(task, **changes):
        key = dict(zip(lines_module.KEY, key_of_task(task), strict=True))
        return line_of(**key, epochs=task.params.get("max_epochs", 30), **changes)

    only = {"datasets": ["lost"], "methods": ["cc"], "settings": ["ours"]}
    planned = [cell(task) for task in plan("real", **only)]
    (short,) = (
        cell(task, params={"max_epochs": 1}, accuracy_mean=0.1, finished="2026-03-01")
        for task in plan("real", **only, seeds=[0], epochs=1)
    )
    cells = Results([*planned, short]).lines("real", "ours", "lost", "cc")
    assert [line["epochs"] for line in cells] == [30] * 5
    assert Results([short, planned[0]]).mean("real", "ours", "lost", "cc") == 0.5
    old = [line_of(seed=seed, params={"lr": 1}, run=str(seed)) for seed in (0, 1)]
    assert Results([*old, short]).mean("real", "ours", "lost", "cc") == 0.5  # neither is planned


def test_own_method_is_compared_like_any_other():
    own = {"method": "mine.Bad", "setting": "own"}
    found = [line_of(**own, seed=seed, accuracy_mean=0.1, run=f"bad{seed}") for seed in range(3)]
    found += [line_of(method="cc", dataset="birdsong")]
    found += [x for lines in some_results().cells.values() for x in lines]
    rows = dict(tables.real_table(Results(found), "real", "ours").rows)
    assert rows["mine.Bad"][0].text == "10.00 ± 0.00 (4)"
    assert not rows["mine.Bad"][0].bold
    assert rows["CleanSE"][0].bold
    assert rows["CC"][1].text == "50.00 ± 1.00"
    assert not rows["CC"][1].bold  # alone in its column
    more = [line_of(**own, seed=seed, accuracy_mean=0.9, run=f"bad{seed}") for seed in range(9)]
    rows = dict(tables.real_table(Results([*found, *more]), "real", "ours").rows)
    assert rows["CleanSE"][0].text.endswith("(1)")
    image = {"group": "images", "dataset": "mnist"}
    found = [line_of(**image, setting="ours-batch-64"), line_of(**image, **own)]
    rows = dict(tables.image_table(Results(found), "mnist", "ours").rows)
    assert [rows[name][2].text for name in ("CC", "mine.Bad")] == ["50.00 ± 1.00 (1.5)"] * 2


def cases_of(group="real", setting="ours", **changes):
    """Lines of three methods on three sets."""
    return [
        line_of(group=group, setting=setting, dataset=d, method=m, accuracy_mean=a, **changes)
        for d in ("lost", "birdsong", "msrcv2")
        for m, a in (("cc", 0.6), ("rc", 0.5), ("cleanse", 0.7))
    ]


def test_own_method_takes_part_in_the_statistics_where_it_is_whole():
    own = {"method": "mine.Bad", "setting": "own", "accuracy_mean": 0.1}
    partly = [*cases_of(), line_of(**own)]
    wholly = [*cases_of(), *(line_of(**own, dataset=d) for d in ("lost", "birdsong", "msrcv2"))]
    *_, table = ranking_tables(Results(partly), tables.methods_of)
    assert [name for name, _ in table.rows] == ["CC", "RC", "CleanSE"]
    assert "Not run in all cases, and so left out: mine.Bad." in table.notes
    *_, table = ranking_tables(Results(wholly), tables.methods_of)
    assert [cells[0].text for _, cells in table.rows] == ["2.00", "3.00", "1.00", "4.00"]


def test_means_over_other_trials_are_not_compared():
    found = cases_of(seed=0) + cases_of(seed=1)
    found = [x for x in found if (x["dataset"], x["method"], x["seed"]) != ("lost", "cleanse", 1)]
    results = Results(found)
    table = tables.real_table(results, "real", "ours")
    rows = dict(table.rows)
    assert rows["CleanSE"][0].text == "70.00 ± 1.00"
    assert not rows["CleanSE"][0].bold
    assert rows["CC"][0].text.endswith("(1)")
    assert "not compared" in table.notes[-1]
    (cases,) = gather(results, tables.methods_of)
    assert [dataset for *_, dataset in cases.cells] == ["birdsong", "msrcv2"]


def test_statistics_say_what_they_rest_on():
    images = [
        line_of(group="images", setting=f"ours-batch-{size}", dataset="mnist", method=m, epochs=5)
        for size in (64, 128)
        for m in ("cc", "rc", "cleanse")
    ]
    kernel = [line_of(dataset=d, method="pl-cgr") for d in ("lost", "birdsong", "msrcv2")]
    *_, table = ranking_tables(Results([*cases_of(epochs=3), *kernel, *images]), tables.methods_of)
    notes = "\n".join(table.notes)
    assert "The 5 cases are not 5 data sets" in notes
    assert "counts as worse than all others" in notes
    assert "1 of 5 trials; 3 epochs, the default is 30" in notes
    assert "5 epochs, the paper has 250" in notes


def test_small_scale_is_noted_everywhere():
    few = Results([line_of(seed=seed, epochs=2, run=str(seed)) for seed in range(5)])
    for table in (
        tables.real_table(few, "real", "ours"),
        tables.measures_table(few, "real", "ours", "lost"),
    ):
        assert dict(table.rows)["CC"][0].mark == "a"
        assert table.notes[-1] == "(a) 2 epochs, the default is 30"
    pair = [
        line_of(group="rivals-calibrated", method=m, epochs=2, accuracy_mean=a)
        for m, a in (("cc", 0.5), ("cc+cleanse", 0.6))
    ]
    table = tables.calibrated_table(Results(pair))
    cell = dict(table.rows)["CC"][0]
    assert (cell.text, cell.bold, cell.mark) == ("50.00 → 60.00 (+10.00)", True, "ab")
    later = [line | {"seed": 1} for line in pair[1:]]
    assert not dict(tables.calibrated_table(Results(pair + later)).rows)["CC"][0].bold


def test_slips_and_ties_of_the_paper_are_told_apart():
    rows = dict(paper_table().rows)
    assert [cell.text for cell in rows["Friedman chi2"]] == ["130.07", "127.72", "128.95"]
    assert [cell.text for cell in rows["F_F"]] == ["69.49", "64.83", "67.20"]


def test_titles_are_unique_and_copies_are_no_runs():
    results = Results([*cases_of(), *cases_of("fresh", copied_from=["real", "cc", "ours"])])
    titles = [table.title for table in tables.all_tables(results)]
    assert len(set(titles)) == len(titles)
    assert _summary(results).startswith("9 runs")


def test_report_of_nothing_and_of_little(tmp_path):
    assert tables.main(["--results", str(tmp_path)]) == 0
    with LineFile(tmp_path / "real.jsonl") as file:
        file.append(line_of())
        file.append(line_of(dataset="msrcv2", method="dpcls", refused="n²", accuracy_mean=None))
    assert tables.main(["--results", str(tmp_path)]) == 0
    report = (tmp_path / "report" / "report.html").read_text()
    assert "50.00 ± 1.00" in report
    assert "refused: memory" in report
    for elsewhere in ("<script", "<link", 'src="http', "url("):
        assert elsewhere not in report  # one file, all in it
    for name in ("tables.txt", "tables.md", "tables.tex", "csv/real-ours.csv"):
        assert "50.00" in (tmp_path / "report" / name).read_text()


def test_csv_has_a_column_for_each_number():
    csv = as_csv(tables.real_table(some_results(), "real", "ours")).splitlines()
    head, cleanse = csv[0].split(","), csv[9].split(",")
    assert head[1:7] == [
        "Lost",
        "Lost sd",
        "Lost rank",
        "Lost (paper)",
        "Lost (paper) sd",
        "Lost (notes)",
    ]
    assert cleanse[:7] == ["CleanSE", "71.00", "1.00", "1", "69.52", "1.97", "a"]
    assert "BirdSong rank" not in head  # nothing to rank there


def test_printed_ranks_of_the_paper_have_three_slips():
    cases = [
        (name, size, {m: cells[i] for m, cells in table.items() if cells})
        for name, table in paper_numbers.IMAGES.items()
        for i, size in enumerate(paper_numbers.BATCH_SIZES)
    ]
    cases += [
        (name, None, {m: cells[i] for m, cells in paper_numbers.REAL.items()})
        for i, name in enumerate(paper_numbers.REAL_SETS)
    ]
    slips = [
        (name, size, method)
        for name, size, row in cases
        for method, (mean, _, printed) in row.items()
        if printed != 1 + sum(other[0] > mean for other in row.values())
    ]
    assert slips == [("kmnist", 256, "cc"), ("cifar10", 64, "cavl"), ("cifar10", 128, "cavl")]
    for method, average in paper_numbers.AVERAGE_RANKS.items():
        printed = [row[method][2] if method in row else 7.5 for *_, row in cases]
        assert np.mean(printed) == pytest.approx(average)


def test_texts_are_renewed_between_their_marks():
    results = some_results()
    text = "a\n<!-- table: real-ours -->\nstale\n<!-- /table -->\n"
    text += "<!-- value: real/ours/lost/cleanse -->0<!-- /value --> b"
    renewed = renew_text(text, tables.all_tables(results), results)
    assert "**71.00 ± 1.00 (1)**" in renewed
    assert "stale" not in renewed
    assert renewed.endswith("<!-- value: real/ours/lost/cleanse -->71.00 ± 1.00<!-- /value --> b")
    assert renew_text(renewed, tables.all_tables(results), results) == renewed


def test_numbers_in_the_documentation_are_those_of_the_lines():
    root = PAPER.parents[1]
    results = Results.read(PAPER / "results")
    made = tables.all_tables(results)
    for path in [root / "README.md", *sorted((root / "docs").glob("**/*.md"))]:
        if path.exists():
            text = path.read_text()
            remedy = f"run: python examples/paper/tables.py --update {path.relative_to(root)}"
            assert renew_text(text, made, results) == text, remedy
            for what in ("table", "value"):  # a misspelt mark or name would renew nothing
                marks = re.findall(f"<!-- {what}: ([^ ]+) -->", text)
                assert len(marks) == text.count(f"<!-- /{what} -->")
                assert what != "table" or set(marks) <= {table.name for table in made}
            assert "not run<!-- /value -->" not in text
