"""The tables of examples/paper: every figure is computed from lines, and so are the pages."""

import json
import re

import cells
import paper_numbers
import pytest
import tables
import verdicts
from cells import OURS
from data import BALANCES, CONTROLLED, SOURCES
from plan import ABLATION, FOLD0, LAMBDAS, SIX, TEMPERATURES, THREE, tl_setting

LINE = {"setting": "", "seconds": 2.0, "peak_memory_mb": 300.0, "ece": 0.1, "n_train": 9}
LINE |= {"finished": "2027-01-01", "code": "0", "epochs": 1, "accuracy_last": None, "before": None}


def line(group, dataset, method, accuracy, seed=0, **changes):
    own = {"group": group, "dataset": dataset, "method": method, "accuracy": accuracy, "seed": seed}
    return LINE | own | changes


def frame(*lines):
    return cells.with_scores(lines)


def headline_lines(**changes):
    return [
        line("headline", dataset, method, mean + 0.01 * seed, 160 + seed, **changes)
        for dataset in THREE
        for method, mean in (("cc", 0.6), ("rc", 0.5), (OURS, 0.7))
        for seed in range(3)
    ]


def test_headline_has_means_and_deviations_the_best_first():
    table = tables.headline(frame(*headline_lines()[:-1]))
    assert list(table.frame.columns) == ["Lost", "BirdSong", "MSRCv2", "mean", "seconds"]
    assert list(table.frame.index[:3]) == ["CleanSE (this package)", "CC", "RC"]
    assert table.frame.at["CleanSE (this package)", "Lost"] == "**71.0 ± 1.0**"
    assert table.frame.at["CleanSE (this package)", "MSRCv2"] == "70.5 ± 0.7 (2 of 3)"
    assert table.frame.at["CC", "MSRCv2"] == "**61.0 ± 1.0**"  # alone among whole cells but RC
    assert not {"DPCLS", "CleanSE"} & set(table.frame.index)
    assert "seeds 160 to 162" in table.notes[0]
    assert "paper's form" not in table.notes[0]
    assert tables.seconds(frame(*headline_lines())).frame.at["RC", "Lost"] == "2.0 s, 300 MB"


def test_lines_from_before_are_marked_until_the_group_has_new_ones():
    old = frame(*headline_lines(before=True))
    assert tables.headline(old).notes[-1] == cells.BEFORE
    both = frame(*headline_lines(before=True), line("headline", "lost", "cc", 0.9, 161))
    assert len(both) == 1
    assert cells.BEFORE not in tables.headline(both).notes


def test_of_several_sets_of_parameters_the_newest_counts():
    newer = line("headline", "lost", "cc", 0.9, 160, finished="2028-01-01")
    assert frame(newer, *headline_lines()).score.max() == 90


def test_last_epochs_count_in_the_papers_network_only():
    last = {"accuracy_last": 0.25}
    both = frame(
        line("headline", "lost", "cc", 0.5, **last), line("images", "mnist", "cc", 0.5, **last)
    )
    assert both.set_index("group").score.to_dict() == {"headline": 50.0, "images": 25.0}


def test_differences_are_taken_split_by_split():
    text = tables.differences(frame(*headline_lines())).frame.at["CC", "Lost"]
    assert text == "+10.0 [+10.0, +10.0] (3 of 3)"


def controlled_lines(**changes):
    names = [f"{d}:{s}:{b}" for d in CONTROLLED for s in SOURCES for b in BALANCES]
    scores = (("cc", 0.4), ("rc", 0.3), (OURS, 0.5))
    return [
        line("controlled", d, m, 0.2 if m == OURS and "lexicon" in d else a, **changes)
        for d in names
        for m, a in scores
    ]


def test_controlled_tables_have_means_by_source_and_mean_ranks():
    lines = frame(*controlled_lines(), line("controlled", "lexicon", "cc", 0.9))
    table = tables.controlled(lines).frame
    assert list(table.columns) == [*SOURCES, "mean rank"]
    ours = [*["**50.0** / **50.0**"] * 5, "20.0 / 20.0", "**1.3** / **1.3**"]
    assert list(table.loc["CleanSE (this package)"]) == ours
    assert set(tables.controlled(lines, "ece").frame["flip"]) == {"**0.100** / **0.100**"}
    half = frame(*controlled_lines()[:-1], *controlled_lines(seed=1)[:-2])
    assert "2 trials" in tables.controlled(half).notes[0]


def test_controlled_tables_of_some_runs_show_which():
    some = [x for x in controlled_lines() if x["method"] != "rc" or "digits:bag:b" in x["dataset"]]
    table = tables.controlled(frame(*some)).frame
    assert list(table.loc["RC", ["flip", "bag"]]) == ["not run", "30.0 (1 of 7) / not run"]
    assert table.at["RC", "mean rank"] == "– / not run"


def test_lines_of_benchmarks_give_their_tables(tmp_path):
    row = {"set": "vowel", "seed": 0, "noise rate": 0.2, "method": "CC", "accuracy, %": 50.0}
    path = tmp_path / "wrong-sets.jsonl"
    path.write_text(json.dumps(row) + "\n" + json.dumps(row | {"seed": 1, "accuracy, %": 60.0}))
    assert tables.benchmark(path).frame.to_dict() == {"CC": {"0.2": "55.0"}}


def test_friedman_has_ten_data_sets_and_not_a_hundred_cases():
    table = tables.friedman(frame(*headline_lines(), *controlled_lines()))
    assert table.notes[0].startswith("10 data sets (")
    assert table.frame["average rank"].to_dict() == {
        "CleanSE (this package)": "1.00",
        "CC": "2.00",
        "RC": "3.00",
    }


def test_as_published_stands_beside_the_papers_figures():
    lines = frame(
        *(line("as-published", "lost:fold0", m, 0.6, s) for s in (0, 1) for m in SIX),
        line("as-published", "lost:fold0", "pl-cgr", 0.8),
    )
    table = tables.as_published(lines).frame
    assert list(table["paper, Lost"])[:2] == ["63.1", "63.2"]
    assert table.at["PL-CGR", "Lost"] == "**80.0**"  # one run, as it has no initialization
    assert table.at["CleanSE (paper's form)", "paper, Lost"] == "69.5"
    page = tables.page_text(lines)
    assert "paper, Soccer Player" in page
    assert "data absent" in page


def ablation_lines(votes, best_T=2.0):
    pairs = {**{p: 0.5 for p in ABLATION.values()}, **{(T, 1e-3): 0.5 for T in TEMPERATURES}}
    pairs |= {(3, w): 0.5 for w in LAMBDAS} | {(3, 0): votes, (best_T, 1e-3): 0.7}
    return [
        line("ablation", d, "cleanse-paper", a + 0.001 * s, s, setting=tl_setting(*pair))
        for d in FOLD0
        for pair, a in pairs.items()
        for s in range(3)
    ]


def verdicts_of(*lines):
    return tables.verdict_table(frame(*lines)).frame.verdict.to_dict()


def test_verdicts_follow_their_rules():
    assert set(verdicts_of(line("headline", "lost", "cc", 0.5)).values()) == {"not run"}
    found = verdicts_of(
        *ablation_lines(0.6),
        line("as-published", "lost:fold0", "cc", 0.63),
        line("as-published", "lost:fold0", "rc", 0.5),
    )
    assert found["Votes gain (paper's form)"] == "holds"
    assert found["Counts gain (paper's form)"] == "does not hold"
    assert found["T = 3 is best (paper's form)"] == "does not hold"
    assert found["CC and RC as printed on the real sets"] == "holds in part"
    found = verdicts_of(*ablation_lines(0.4, best_T=3.0))
    assert found["Votes gain (paper's form)"] == "does not hold"
    assert found["T = 3 is best (paper's form)"] == "holds"


@pytest.mark.parametrize(
    ("group", "dataset", "verdict"),
    [
        ("cifar10", "cifar10", "not decided at this size"),
        ("images", "mnist", "holds"),
    ],
)
def test_what_holds_on_few_images_of_cifar10_is_not_decided(group, dataset, verdict):
    sizes = verdicts.CIFAR_SIZES if group == "cifar10" else (16, 32, 64, 128, 256)
    lines = [
        line(group, dataset, m, 0.6 if m == "cleanse-paper" else 0.5, setting=f"batch {size}")
        for m in SIX
        for size in sizes
    ]
    found = tables.verdict_table(frame(*lines)).frame.verdict
    assert verdict in set(found[found.index.str.contains("better than CC")])


def test_printed_ranks_of_the_paper_have_three_slips():
    slips = [
        (*case, method)
        for case, row in paper_numbers.ACCURACY.items()
        for method, (mean, _, printed) in row.items()
        if printed != 1 + sum(other[0] > mean for other in row.values())
    ]
    assert slips == [("kmnist", 256, "cc"), ("cifar10", 64, "cavl"), ("cifar10", 128, "cavl")]
    table = tables.friedman_of_paper().frame
    assert list(table.loc["F"]) == ["69.4", "69.49", "67.20"]
    assert list(table.loc["critical difference"]) == ["1.864"] * 3


def test_texts_are_renewed_between_their_marks(tmp_path):
    table = cells.Table("some", "Some", frame(*headline_lines())[["group"]].iloc[:1], ["Note."])
    text = "a\n<!-- table: some -->\nstale\n<!-- /table -->\n"
    text += "<!-- table: gone -->\nold\n<!-- /table -->b"
    renewed = tables.renew(text, [table])
    assert "stale" not in renewed
    assert "| 0 | headline |\n\nNote.\n" in renewed
    assert f"old\n{cells.BEFORE}" in renewed  # a table that is not made any more
    assert tables.renew(renewed, [table]) == renewed


def test_tables_are_written_as_files(tmp_path):
    assert tables.main(["--results", str(tmp_path), "--output", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "friedman-of-paper.csv").exists()


def test_committed_pages_are_those_of_the_lines():
    lines = cells.load(tables.HERE / "results")
    made = tables.all_tables(lines)
    remedy = "Run: python examples/paper/tables.py --update"
    for path in tables.pages():
        text = path.read_text(encoding="utf-8")
        assert tables.renew(text, made) == text, f"{path} is old. {remedy}"
        assert len(re.findall("<!-- table: [^ ]+ -->", text)) == text.count("<!-- /table -->")
    assert tables.PAGE.read_text(encoding="utf-8") == tables.page_text(lines), remedy
