"""The tables of examples/paper: every number is computed from lines, and says what it rests on."""

import re

import label_free
import lines as lines_module
import numpy as np
import paper_numbers
import pictures
import pytest
import tables
from cells import Results
from data import CONTROLLED, FORMS, controlled_name
from lines import LineFile
from plan import METHOD_NAMES, key_of_task, plan
from ranking import gather, paper_table
from render import as_csv, as_html, as_latex, renew_text
from report import summary
from test_paper import PAPER, line_of


def some_results(absent=()):
    found = [
        line_of(method=method, seed=seed, accuracy_mean=mean + 0.01 * seed, run=f"{method}{seed}")
        for method, mean in (("cc", 0.6), ("rc", 0.5), ("cleanse", 0.7))
        for seed in range(3)
    ]
    return Results(found, absent)


def test_accuracy_cell_is_mean_and_sd_with_the_papers_figure_beside_it():
    table = tables.real_table(some_results(["yahoo_news"]), "real", "ours")
    assert list(table.frame.columns) == ["Lost", "paper"]
    assert list(table.frame.loc["CleanSE"]) == ["**71.00 ± 1.00**<sup>a</sup>", "69.52"]
    assert table.notes[-1] == "(a) 3 of 5 trials"
    assert "Data absent: Yahoo! News." in table.notes
    assert table.frame.Lost["RC"] == "51.00 ± 1.00<sup>a</sup>"
    assert table.frame.Lost["LWS"] == "not run"
    assert "PRODEN" not in table.frame.index  # neither run nor in the paper


def test_a_narrower_convolutional_network_is_noted():
    only = {"datasets": ["cifar10"], "methods": ["cc"], "batch_sizes": [64], "settings": None}
    wide, narrow = (plan("images", **only, width=width)[0] for width in (None, 8))
    assert (wide.params["module"], wide.params["module_params"]) == ("resnet34", None)
    assert narrow.params["module_params"] == {"width": 8}
    line = line_of(group="images", dataset="cifar10", setting="ours-batch-64")
    narrow = line | {"params": narrow.params}
    notes = [tables.image_table(Results([x]), "cifar10", "ours").notes for x in (line, narrow)]
    told = "ResNet-34 with 8 channels instead of 64"
    assert [told in " ".join(note) for note in notes] == [False, True]


def test_differences_are_taken_split_by_split():
    found = [
        line_of(group="fresh", method=method, seed=seed, accuracy_mean=mean, run=f"{method}{seed}")
        for method, means in (("cleanse", (0.7, 0.6, 0.9)), ("cc", (0.6, 0.7, 0.6)))
        for seed, mean in zip((110, 111, 112), means, strict=True)
    ]
    table = tables.differences_table(Results([*found, found[0] | {"method": "rc"}]))
    error = np.std([10, -10, 30], ddof=1) / np.sqrt(3)
    # one split of three does not compare
    assert table.frame.Lost.to_dict() == {"CC": f"+10.00 ± {error:.2f} (2 of 3)"}


def test_newest_parameters_count_and_small_scale_is_noted():
    old = line_of(setting="paper", params={"lr": 1}, accuracy_mean=0.1)
    new = line_of(setting="paper", accuracy_mean=0.8, epochs=20, train_size=500, n_train=500)
    new |= {"finished": "2026-02-01T00:00:00+00:00", "run": "1"}
    table = tables.real_table(Results([old, new]), "real", "paper")
    assert table.frame.Lost["CC"].startswith("80.00 ± 1.00<")  # sd over epochs: there is one trial
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
    frame = tables.real_table(Results(found), "real", "ours").frame
    assert frame.Lost["mine.Bad"].startswith("10.00 ± 0.00<")
    assert frame.Lost["CleanSE"].startswith("**")
    assert frame.BirdSong["CC"].startswith("50.00 ± 1.00<")  # alone in its column
    more = [line_of(**own, seed=seed, accuracy_mean=0.9, run=f"bad{seed}") for seed in range(9)]
    frame = tables.real_table(Results([*found, *more]), "real", "ours").frame
    assert frame.Lost["CleanSE"].startswith("**")
    image = {"group": "images", "dataset": "mnist"}
    found = [line_of(**image, setting="ours-batch-64"), line_of(**image, **own)]
    frame = tables.image_table(Results(found), "mnist", "ours").frame
    for name in ("CC", "mine.Bad"):
        assert frame["batch 64"][name].startswith("**50.00 ± 1.00**")


def test_mean_rank_is_that_of_methods_with_a_figure_everywhere():
    alone = line_of(dataset="lost", method="dpcls", accuracy_mean=0.9)
    frame = tables.real_table(Results([*cases_of(), alone]), "real", "ours").frame
    assert frame["mean rank"][["CC", "RC", "DPCLS", "CleanSE"]].tolist() == [
        "2.3",
        "3.3",
        "",
        "1.3",
    ]


def cases_of(group="real", setting="ours", **changes):
    """Lines of three methods on three sets."""
    return [
        line_of(group=group, setting=setting, dataset=d, method=m, accuracy_mean=a, **changes)
        for d in ("lost", "birdsong", "msrcv2")
        for m, a in (("cc", 0.6), ("rc", 0.5), ("cleanse", 0.7))
    ]


def rankings(results):
    return [table for table in tables.all_tables(results) if table.title.startswith("Ranks: ")]


def test_own_method_takes_part_in_the_statistics_where_it_is_whole():
    own = {"method": "mine.Bad", "setting": "own", "accuracy_mean": 0.1}
    partly = [*cases_of(), line_of(**own)]
    wholly = [*cases_of(), *(line_of(**own, dataset=d) for d in ("lost", "birdsong", "msrcv2"))]
    (table,) = rankings(Results(partly))
    assert list(table.frame.index) == ["CC", "RC", "CleanSE"]
    assert "Not run in all cases, and so left out: mine.Bad." in table.notes
    (table,) = rankings(Results(wholly))
    assert list(table.frame["average rank"]) == ["2.00", "3.00", "**1.00**", "4.00"]


def test_means_over_other_trials_are_not_compared():
    found = cases_of(seed=0) + cases_of(seed=1)
    found = [x for x in found if (x["dataset"], x["method"], x["seed"]) != ("lost", "cleanse", 1)]
    results = Results(found)
    table = tables.real_table(results, "real", "ours")
    assert table.frame.Lost["CleanSE"].startswith("70.00 ± 1.00<")
    assert table.frame.Lost["CC"].startswith("**60.00")
    assert "not compared" in table.notes[-1]
    (cases,) = gather(results)
    assert [dataset for *_, dataset in cases.cells] == ["birdsong", "msrcv2"]


def test_statistics_say_what_they_rest_on():
    images = [
        line_of(group="images", setting=f"ours-batch-{size}", dataset="mnist", method=m, epochs=5)
        for size in (64, 128)
        for m in ("cc", "rc", "cleanse")
    ]
    kernel = [line_of(dataset=d, method="pl-cgr") for d in ("lost", "birdsong", "msrcv2")]
    (table,) = rankings(Results([*cases_of(epochs=3), *kernel, *images]))
    notes = "\n".join(table.notes)
    assert "The 5 cases are not 5 data sets" in notes
    assert "counts as worse than all others" in notes
    assert "1 of 5 trials; 3 epochs, the default is 30" in notes
    assert "5 epochs, the paper has 250" in notes


def test_small_scale_is_noted_everywhere():
    smaller = {"epochs": 2, "covering_rate": 0.9}
    few = Results([line_of(**smaller, seed=seed, run=str(seed)) for seed in range(5)])
    for measure in ("accuracy_mean", "covering_rate"):
        table = tables.real_table(few, "real", "ours", measure)
        assert table.frame.Lost["CC"].endswith(" ± 0.00<sup>a</sup>")
        assert table.notes[-1] == "(a) 2 epochs, the default is 30"
    pair = [
        line_of(group="rivals-calibrated", method=m, epochs=2, accuracy_mean=a)
        for m, a in (("cc", 0.5), ("cc+cleanse", 0.6))
    ]
    frame = tables.calibrated_table(Results(pair)).frame
    assert frame.Lost["CC"] == "50.00 ± 1.00<sup>ab</sup>"
    assert frame.Lost["CC with CleanSE"] == "60.00 ± 1.00<sup>ab</sup>"


def test_slips_and_ties_of_the_paper_are_told_apart():
    frame = paper_table().frame
    assert list(frame.loc["Friedman chi2"]) == ["130.07", "127.72", "128.95", ""]
    assert list(frame.loc["F_F"]) == ["69.49", "64.83", "67.20", "69.4"]


def test_titles_are_unique_and_copies_are_no_runs():
    results = Results([*cases_of(), *cases_of("fresh", copied_from=["real", "cc", "ours"])])
    titles = [table.title for table in tables.all_tables(results)]
    assert len(set(titles)) == len(titles)
    assert summary(results).startswith("9 runs")


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


def test_table_in_every_form():
    table = tables.real_table(some_results(), "real", "ours")
    csv = as_csv(table).splitlines()
    assert csv[0] == ",Lost,Lost sd,paper"
    assert "CleanSE,71.00,1.00,69.52" in csv
    assert r"\textbf{71.00 $\pm$ 1.00}\textsuperscript{a}" in as_latex(table)
    assert "<b>71.00 ± 1.00</b><sup>a</sup>" in as_html(table)
    hostile = Results([line_of(method="<script>x", setting="own")])
    assert "<script>" not in as_html(tables.real_table(hostile, "real", "ours"))


def test_printed_ranks_of_the_paper_have_three_slips():
    slips = [
        (*case, method)
        for case, row in paper_numbers.ACCURACY.items()
        for method, (mean, _, printed) in row.items()
        if printed != 1 + sum(other[0] > mean for other in row.values())
    ]
    assert slips == [("kmnist", 256, "cc"), ("cifar10", 64, "cavl"), ("cifar10", 128, "cavl")]
    for method, average in paper_numbers.AVERAGE_RANKS.items():
        rows = paper_numbers.ACCURACY.values()
        printed = [row[method][2] if method in row else 7.5 for row in rows]
        assert np.mean(printed) == pytest.approx(average)


def controlled_lines():
    """Lines of four methods on every controlled set; CleanSE is best but for dictionaries."""
    return [
        line_of(
            group="controlled",
            dataset=controlled_name(dataset, kind, balance),
            method=method,
            accuracy_mean=0.2 if method == "cleanse" and kind == "dictionary" else accuracy,
        )
        for dataset in CONTROLLED
        for kind, balance in FORMS
        for method, accuracy in (("cc", 0.4), ("rc", 0.3), ("cleanse", 0.5))
    ]


def test_controlled_tables_have_means_by_kind_and_mean_ranks():
    made = {table.name: table for table in tables.all_tables(Results(controlled_lines()))}
    for balance in ("balanced", "imbalanced"):
        frame = made[f"controlled-{balance}"].frame
        assert list(frame.loc["CleanSE"]) == [*["**50.0**"] * 5, "20.0", "**1.33**"]
        assert list(frame.dictionary) == ["**40.0**", "30.0", "20.0"]
    notes = " ".join(made["friedman-controlled"].notes)
    assert f"The {12 * len(CONTROLLED)} cases are not" in notes
    assert "paper" not in made["friedman-controlled"].frame


def test_last_ten_fresh_splits_count():
    seen = [line_of(group="fresh", seed=seed, accuracy_mean=0.1) for seed in range(110, 120)]
    fresh = [line_of(group="fresh", seed=seed, accuracy_mean=0.9) for seed in (120, 121)]
    table = tables.real_table(Results([*seen, *fresh]), "fresh", "ours")
    assert table.frame.Lost["CC"].startswith("90.00 ± 0.00")
    assert "Splits 120–121" in table.notes[1]


def test_as_published_tables_stand_beside_the_papers():
    settings = {"cc": "paper", "cleanse-paper": "both", "cleanse-paper-net": "both"}
    lines = [
        line_of(group="as-published", dataset="lost:fold0", method=method, setting=setting)
        for method, setting in settings.items()
    ]
    lines += [lines[1] | {"setting": setting} for setting in ("neither", "T=2", "lambda=0.1")]
    made = {table.name: table.frame for table in tables.all_tables(Results(lines))}
    assert list(made["as-published"]["paper"])[:2] == ["63.11", "63.21"]
    ablation = made["as-published-ablation"]
    assert list(ablation.index) == [
        "CleanSE, paper's form: neither",
        "CleanSE, paper's form: both",
        "CleanSE, our votes in the paper's network: both",
    ]
    assert list(ablation["paper"]) == ["62.66", "69.33", "69.33"]
    assert list(made["as-published-temperature"].index) == ["CleanSE, paper's form: T = 2"]
    assert list(made["as-published-lambda"].index) == ["CleanSE, paper's form: λ = 0.1"]


def renew(text, results):
    return renew_text(text, tables.all_tables(results), lambda p: tables.value_of(results, p))


def test_texts_are_renewed_between_their_marks():
    results = some_results()
    text = "a\n<!-- table: real-ours -->\nstale\n<!-- /table -->\n"
    text += "<!-- value: real/ours/lost/cleanse -->0<!-- /value --> b"
    renewed = renew(text, results)
    assert "| CleanSE | **71.0**<sup>a</sup> | 69.5 |" in renewed  # one figure per cell
    assert "standard deviations lie between 1.0 and 1.0" in renewed
    assert "stale" not in renewed
    assert renewed.endswith("<!-- value: real/ours/lost/cleanse -->71.00 ± 1.00<!-- /value --> b")
    assert renew(renewed, results) == renewed


def test_numbers_in_the_documentation_are_those_of_the_lines():
    root = PAPER.parents[1]
    results = Results.read([PAPER / "results"])
    names = {table.name for table in tables.all_tables(results)}
    for path in [root / "README.md", *sorted((root / "docs").glob("**/*.md"))]:
        if path.exists():
            text = path.read_text()
            remedy = f"run: python examples/paper/tables.py --update {path.relative_to(root)}"
            assert renew(text, results) == text, remedy
            for what in ("table", "value"):  # a misspelt mark or name would renew nothing
                marks = re.findall(f"<!-- {what}: ([^ ]+) -->", text)
                assert len(marks) == text.count(f"<!-- /{what} -->")
                assert what != "table" or set(marks) <= names
            assert "not run<!-- /value -->" not in text


def fresh_cases():
    """Lines of three methods on the fresh splits of two sets; RC lacks a split of one."""
    found = [
        line_of(group="fresh", dataset=d, method=m, seed=seed, accuracy_mean=a, seconds=s, run="1")
        for d in ("lost", "birdsong")
        for m, a, s in (("cc", 0.5, 2.0), ("rc", 0.6, 3.0), ("cleanse", 0.7, 4.0))
        for seed in (120, 121)
    ]
    found[1]["seconds"] = 9.0  # a fit of CC on Lost while the machine was busy
    return [x for x in found if (x["dataset"], x["method"], x["seed"]) != ("lost", "rc", 121)]


def test_headline_has_whole_methods_only_best_first():
    frame = tables.headline_table(Results(fresh_cases())).frame
    assert list(frame.columns) == ["Lost", "BirdSong", "seconds"]
    assert frame.T.to_dict("list") == {
        "CleanSE": ["**70.0**", "**70.0**", "4.0"],
        "CC": ["50.0", "50.0", "2.0"],
    }


def test_pictures_show_a_point_for_each_method(tmp_path):
    timed = [line | {"seconds": 1.0} for line in controlled_lines()]
    results = Results([*fresh_cases(), *timed])
    points = {point.method: point for point in pictures.real_points(results, "lost")}
    assert (points["cc"].accuracy, points["cc"].seconds) == (50.0, 2.0)
    assert "rc" not in points  # other splits than the rest
    written = {path.stem for path in pictures.write_pictures(results, tmp_path / "made")}
    assert {"lost", "birdsong", "digits", "ranks-controlled"} <= written
    assert "![lost: " in (tmp_path / "made" / "real.md").read_text()


def test_every_method_has_a_look_of_its_own():
    assert set(pictures.LOOKS) == set(METHOD_NAMES)
    assert len(set(pictures.LOOKS.values())) == len(METHOD_NAMES)


def test_choice_without_true_labels_is_measured_on_another_split():
    # the first model covers best on all splits and is right half the time
    models = np.array([[[90, 10, 50]] * 5, [[80, 20, 70]] * 5], dtype=float)
    assert label_free.achieved(models, 0) == 50
    assert label_free.achieved(models, 1) == 70
    assert label_free.achieved(models, 2) == 70
    assert label_free.achieved(models, None) == 60
