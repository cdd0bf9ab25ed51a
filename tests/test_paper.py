"""The benchmark of examples/paper: lines survive anything, and tables are computed from them."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

PAPER = Path(__file__).parents[1] / "examples" / "paper"
sys.path.insert(0, str(PAPER))

import lines as lines_module  # noqa: E402
import paper_numbers  # noqa: E402
import run  # noqa: E402
import tables  # noqa: E402
from cells import Results  # noqa: E402
from data import load_trial  # noqa: E402
from experiment import LastEpochs  # noqa: E402
from lines import TIMING, LineFile, key_of, read_lines  # noqa: E402
from plan import DEEP_RIVALS, GROUPS, Task, build, key_of_task, plan, run_hash  # noqa: E402
from render import renew_text  # noqa: E402

from sklearn_cleanse import PAPER_SETTINGS, CleanSEClassifier  # noqa: E402

TINY = ["--group", "real", "--dataset", "iris", "--epochs", "2", "--threads", "1"]


def line_of(**changes):
    line = {
        "group": "real",
        "dataset": "lost",
        "method": "cc",
        "setting": "ours",
        "seed": 0,
        "run": "0",
        "params": {},
        "train_size": None,
        "finished": "2026-01-01T00:00:00+00:00",
        "accuracy_mean": 0.5,
        "accuracy_sd": 0.01,
        "epochs": 100,
        "n_train": 9,
        "n_test": 1,
        "n_features": 2,
        "n_classes": 3,
        "mean_candidates": 2.0,
        "clean_rate": 0.1,
        "versions": {"sklearn_cleanse": "0"},
    }
    return line | changes


def numbers(folder):
    """Lines without what differs from run to run, in order."""
    found = [{k: v for k, v in x.items() if k not in TIMING} for x in read_lines(folder)]
    return sorted(found, key=key_of)


# -- lines -----------------------------------------------------------------------------------


@pytest.mark.parametrize("torn", [b'{"group": "re', b"{", b'{"group": "real"}', b"\xff\xfe"])
def test_torn_last_line_is_removed_and_the_rest_kept(tmp_path, torn, capsys):
    path = tmp_path / "real.jsonl"
    with LineFile(path) as file:
        file.append(line_of())
    path.write_bytes(path.read_bytes() + torn)
    assert len(read_lines(tmp_path)) == 1
    assert "real.jsonl:2" in capsys.readouterr().err
    with LineFile(path) as file:
        file.append(line_of(seed=1))
    assert [line["seed"] for line in read_lines(tmp_path)] == [0, 1]
    assert torn not in path.read_bytes()[-20:]


def test_last_line_that_only_lacks_its_end_is_kept(tmp_path):
    path = tmp_path / "real.jsonl"
    path.write_text(json.dumps(line_of()))
    with LineFile(path) as file:
        file.append(line_of(seed=1))
    assert len(read_lines(tmp_path)) == 2


@pytest.mark.parametrize("half", [True, False])
def test_full_disk_is_named_and_leaves_whole_lines(tmp_path, monkeypatch, half):
    path = tmp_path / "real.jsonl"
    write = os.write

    def full(file, data):
        if half:
            return write(file, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    with LineFile(path) as file:
        file.append(line_of())
        monkeypatch.setattr(lines_module.os, "write", full)
        with pytest.raises(SystemExit, match="no space left"):
            file.append(line_of(seed=1))
        monkeypatch.undo()
    assert path.read_bytes().endswith(b"\n")
    assert len(read_lines(tmp_path)) == 1


def test_two_writers_exclude_each_other(tmp_path):
    with LineFile(tmp_path / "a.jsonl"), pytest.raises(SystemExit, match="another run"):
        LineFile(tmp_path / "a.jsonl")
    LineFile(tmp_path / "a.jsonl").close()


def test_lines_are_plain_json(tmp_path):
    with LineFile(tmp_path / "a.jsonl") as file:
        file.append(line_of(accuracy_mean=float("nan")))
    assert read_lines(tmp_path)[0]["accuracy_mean"] is None


# -- the plan ----------------------------------------------------------------------------------


@pytest.mark.parametrize("group", GROUPS)
def test_every_task_of_a_group_can_be_built_and_is_unique(group):
    tasks = plan(group, seeds=[3])
    for task in tasks:
        if task.seed == 3:
            build(task)._validate_params()
    keys = [key_of_task(task) for task in tasks]
    assert len(set(keys)) == len(keys)


def test_rivals_have_the_same_recipe_as_cleanse():
    shared = set(build(plan("fresh", methods=["cc"])[0]).get_params()) - {"loss", "loss_params"}
    ours = CleanSEClassifier(random_state=0).get_params()
    for task in plan("real", datasets=["lost"], methods=list(DEEP_RIVALS), seeds=[0]):
        theirs = build(task).get_params()
        for name in shared - {"random_state"}:
            expected = (
                PAPER_SETTINGS.get(name, theirs[name]) if task.setting == "paper" else ours[name]
            )
            assert theirs[name] == expected, (task.method, name)


def test_key_follows_parameters_and_nothing_else():
    task = Task("real", "iris", "cc", "ours", 0, "sklearn_cleanse.PartialLabelClassifier", {})
    assert run_hash(task) == run_hash(task._replace(threads=7, data_home="x", method="other"))
    for other in ({"params": {"lr": 0.5}}, {"seed": 1}, {"dataset": "wine"}, {"train_size": 9}):
        assert run_hash(task) != run_hash(task._replace(**other))


def test_splits_are_those_documented():
    from sklearn.datasets import load_wine
    from sklearn.model_selection import ShuffleSplit

    trial = load_trial("wine", 7)
    X = load_wine().data
    rows = np.random.RandomState(0).permutation(len(X))
    train, test = next(ShuffleSplit(1, test_size=0.1, random_state=7).split(X))
    np.testing.assert_array_equal(trial.X_train, X[rows][train])
    np.testing.assert_array_equal(trial.X_test, X[rows][test])
    assert trial.S_train[np.arange(len(train)), trial.y_train].all()


# -- runs ----------------------------------------------------------------------------------------


def test_second_call_runs_nothing(tmp_path, monkeypatch):
    arguments = [*TINY, "--method", "pl-cgr", "--seeds", "0,1", "--results", str(tmp_path)]
    assert run.main(arguments) == 0
    before = (tmp_path / "real.jsonl").read_bytes()
    found = read_lines(tmp_path)
    assert {line["setting"] for line in found} == {"ours", "paper"}  # one run, listed twice
    assert all(line["accuracy_sd"] == 0 for line in found)
    monkeypatch.setattr(
        run, "run_here", lambda tasks: pytest.fail("ran again") if tasks else iter(())
    )
    assert run.main(arguments) == 0
    assert (tmp_path / "real.jsonl").read_bytes() == before


def test_equal_run_of_another_group_is_copied(tmp_path):
    common = ["--dataset", "iris", "--epochs", "2", "--seeds", "0", "--results", str(tmp_path)]
    assert run.main(["--group", "real", "--method", "cleanse", *common]) == 0
    settings = ["--setting", "both", "--method", "cleanse"]
    assert run.main(["--group", "ablation", *settings, *common]) == 0
    real, copied = sorted(read_lines(tmp_path), key=lambda line: -len(line["group"]))[::-1]
    assert real["group"] == "real"
    assert copied["copied_from"] == ["real", "cleanse", "ours"]
    assert copied["accuracy_last"] == real["accuracy_last"]


def test_looking_on_does_not_change_training():
    trial = load_trial("iris", 0)
    watch = LastEpochs(trial.X_test, trial.y_test, False)
    plain = CleanSEClassifier(max_epochs=12, random_state=0).fit(trial.X_train, trial.S_train)
    watched = CleanSEClassifier(max_epochs=12, random_state=0, callbacks=[watch])
    watched.fit(trial.X_train, trial.S_train)
    np.testing.assert_array_equal(
        plain.predict_proba(trial.X_test), watched.predict_proba(trial.X_test)
    )
    seen = watched.net_.callbacks_[-1][1].accuracies_
    assert len(seen) == 10
    assert seen[-1] == (watched.predict(trial.X_test) == trial.y_test).mean()


def test_own_method_and_own_data(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(
        "import numpy as np\n"
        "from sklearn.base import BaseEstimator, ClassifierMixin\n"
        "class First(ClassifierMixin, BaseEstimator):\n"
        "    def __init__(self, shift=0):\n"
        "        self.shift = shift\n"
        "    def fit(self, X, S):\n"
        "        assert S.ndim == 2 and S.dtype == bool\n"
        "        self.classes_ = np.arange(S.shape[1])\n"
        "        return self\n"
        "    def predict(self, X):\n"
        "        return np.full(len(X), self.shift)\n"
        "def make(random_state):\n"
        "    return First(shift=1)\n"
        "def rows():\n"
        "    y = np.arange(60) % 3\n"
        "    return np.eye(3)[y], np.eye(3, dtype=bool)[y], y\n"
    )
    monkeypatch.chdir(tmp_path)
    arguments = ["--method", "mine.First", "--method", "mine:make", "--dataset", "mine:rows"]
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert run.main([*arguments, "--seeds", "0", "--results", str(tmp_path / "out")]) == 0
    first, made = sorted(read_lines(tmp_path / "out"), key=lambda line: line["params"]["shift"])
    assert (first["method"], first["params"]) == ("mine.First", {"shift": 0})
    assert (made["method"], made["setting"]) == ("mine:make", "own")
    assert first["transductive"] is None  # it has no probabilities
    assert 0 <= first["accuracy_final"] <= 1
    names = [
        row[0] for row in tables.real_table(Results.read(tmp_path / "out"), "real", "ours").rows
    ]
    assert names[-2:] == ["mine.First", "mine:make"]
    with pytest.raises(SystemExit, match="cannot be imported"):
        run.main(["--method", "mine.Nothing", "--dataset", "iris", "--results", str(tmp_path)])


def test_worker_that_dies_costs_its_own_run_only(tmp_path, monkeypatch, capsys):
    (tmp_path / "deadly.py").write_text(
        "import os\n"
        "from sklearn.dummy import DummyClassifier\n"
        "class Deadly(DummyClassifier):\n"
        "    def fit(self, X, S):\n"
        "        os._exit(9)\n"
    )
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    arguments = ["--method", "pl-cgr", "--method", "deadly.Deadly", "--seeds", "0", "--jobs", "2"]
    assert run.main([*TINY, *arguments, "--results", str(tmp_path / "out")]) == 1
    assert {line["method"] for line in read_lines(tmp_path / "out")} == {"pl-cgr"}
    assert "died" in capsys.readouterr().err


def test_dask_gives_the_same_numbers(tmp_path):
    from distributed import LocalCluster

    arguments = [*TINY, "--method", "pl-cgr", "--seeds", "0,1", "--results"]
    assert run.main([*arguments, str(tmp_path / "here")]) == 0
    with LocalCluster(1, processes=False, threads_per_worker=1, dashboard_address=None) as cluster:
        where = ["--backend", "dask", "--scheduler", cluster.scheduler_address]
        assert run.main([*arguments, str(tmp_path / "there"), *where]) == 0
    assert numbers(tmp_path / "here") == numbers(tmp_path / "there")


KILLS = """
import os, random, signal, sys, time
sys.path[:0] = sys.argv[1:3]
import experiment, run  # once: what is killed below are forks, so that no time goes into imports
arguments = ["--group", "real", "--dataset", "iris", "--method", "cc", "--method", "pl-cgr",
             "--seeds", "0-7", "--epochs", "2", "--threads", "1", "--results"]
def start(folder):
    child = os.fork()
    if child == 0:
        os._exit(run.main([*arguments, folder]))
    return child
began = time.perf_counter()
os.waitpid(start(sys.argv[3]), 0)
whole = time.perf_counter() - began
moments = random.Random(int(sys.argv[5]))
for _ in range(10):
    child = start(sys.argv[4])
    time.sleep(moments.uniform(0.02, 0.3) * whole)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
_, status = os.waitpid(start(sys.argv[4]), 0)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def test_killed_ten_times_it_ends_with_the_same_numbers(tmp_path):
    root, undisturbed, killed = str(PAPER.parents[1]), tmp_path / "undisturbed", tmp_path / "killed"
    arguments = [str(PAPER), root, str(undisturbed), str(killed), "0"]
    done = subprocess.run(
        [sys.executable, "-c", KILLS, *arguments], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(numbers(killed)) == 8 * 4  # two methods in two settings
    assert numbers(killed) == numbers(undisturbed)


# -- tables --------------------------------------------------------------------------------------


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


def test_newest_parameters_count_and_small_scale_is_noted():
    old = line_of(setting="paper", params={"lr": 1}, accuracy_mean=0.1)
    new = line_of(setting="paper", accuracy_mean=0.8, epochs=20, train_size=500, n_train=500)
    new |= {"finished": "2026-02-01T00:00:00+00:00", "run": "1"}
    table = tables.real_table(Results([old, new]), "real", "paper")
    assert dict(table.rows)["CC"][0].text == "80.00 ± 1.00"  # sd over epochs: there is one trial
    notes = " ".join(table.notes)
    assert "20 epochs, the paper has 250" in notes
    assert "500 training rows" in notes


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
