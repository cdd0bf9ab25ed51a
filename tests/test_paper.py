"""The runner of examples/paper: lines survive kills, and runs are those that the plan documents."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from threading import Thread

import experiment
import lines as lines_module
import numpy as np
import pytest
import run
from data import BALANCES, IMBALANCE, SOURCES, load_trial
from lines import append, read_lines
from plan import GROUPS, HEADLINE, Task, build, code_hash, plan, run_hash, tree_of

from sklearn_cleanse import CleanSEClassifier, paper_settings

PAPER = Path(run.__file__).parent
WINE = "wine:flip:balanced"
LINE = {"group": "headline", "dataset": "lost", "method": "cc", "setting": "", "seed": 160}
LINE |= {"run": "0", "params": {}, "accuracy": 0.5, "seconds": 1.0, "n_train": 9, "code": "0"}
MINE = """
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

class First(ClassifierMixin, BaseEstimator):
    def __init__(self, shift=0):
        self.shift = shift
    def fit(self, X, S):
        assert S.dtype == bool
        return self
    def predict(self, X):
        return np.full(len(X), self.shift)

class Failing(First):
    def fit(self, X, S):
        raise MemoryError("too large")

def rows():
    y = np.arange(60) % 3
    return np.eye(3)[y], np.eye(3, dtype=bool)[y], y
"""


def go(folder, *arguments):
    return run.main([*arguments, "--results", str(folder)])


# -- lines -----------------------------------------------------------------------------------


@pytest.mark.parametrize("torn", [b'{"group": "re', b"{", b'{"group": "real"}', b"\xff\xfe"])
def test_a_torn_last_line_costs_itself_only(tmp_path, torn, capsys):
    path = tmp_path / "headline.jsonl"
    append(path, LINE)
    path.write_bytes(path.read_bytes() + torn)
    append(path, LINE | {"seed": 161})
    assert [line["seed"] for line in read_lines(tmp_path)] == [160, 161]
    assert "headline.jsonl:2: not a finished line" in capsys.readouterr().err


CHANGES = [{"seed": "160"}, {"seed": True}, {"method": None}, {"params": []}]
CHANGES += [{"accuracy": "high"}, {"accuracy": float("nan")}]
WRONG = ["null", "7", "[" * 100_000, *(json.dumps(LINE | change) for change in CHANGES)]


@pytest.mark.parametrize("wrong", WRONG, ids=range(len(WRONG)))
def test_a_line_of_another_form_costs_itself_only(tmp_path, wrong, capsys):
    (tmp_path / "a.jsonl").write_text("\n".join([json.dumps(LINE), wrong]))
    assert len(read_lines(tmp_path)) == 1
    assert "a.jsonl:2" in capsys.readouterr().err


def test_a_full_disk_is_named_and_leaves_whole_lines(tmp_path, monkeypatch):
    path, write = tmp_path / "a.jsonl", os.write
    append(path, LINE)
    monkeypatch.setattr(lines_module.os, "write", lambda file, text: write(file, text[:20]))
    with pytest.raises(OSError, match="disk is full"):
        append(path, LINE | {"seed": 161})
    monkeypatch.undo()
    append(path, LINE | {"seed": 162, "ece": float("nan")})
    found = {line["seed"]: line.get("ece") for line in read_lines(tmp_path)}
    assert found == {160: None, 162: None}


def test_writers_at_the_same_time_lose_nothing(tmp_path):
    def write(first):
        for seed in range(first, first + 30):
            append(tmp_path / "a.jsonl", LINE | {"seed": seed})

    threads = [Thread(target=write, args=(30 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(line["seed"] for line in read_lines(tmp_path)) == list(range(120))


# -- the plan --------------------------------------------------------------------------------


def test_groups_have_the_runs_that_are_documented():
    sizes = {"headline": 360, "as-published": 111, "ablation": 216, "images": 210, "cifar10": 21}
    sizes |= {"images-full": 14, "controlled": 84 * 2 * 11 + 84 + 5 * 12, "seconds": 108}
    assert {name: len(plan(name)) for name in sizes} == sizes
    assert {task.seed for task in plan("headline")} == set(range(160, 170))
    assert Counter(task.method for task in plan("headline")) == dict.fromkeys(HEADLINE, 30)


@pytest.mark.parametrize("group", GROUPS)
def test_every_task_of_a_group_can_be_built_and_is_unique(group):
    tasks = plan(group, seeds=[7])
    for task in tasks[:200]:
        build(task)._validate_params()
    assert len({task[:5] for task in tasks}) == len(tasks)


def test_compared_networks_have_the_same_layers_and_training():
    for group, ours in (("headline", CleanSEClassifier()), ("as-published", None)):
        expected = ours.get_params() if ours else CleanSEClassifier(**paper_settings()).get_params()
        for task in plan(group, methods=["cc", "lws", "scarce"], seeds=[0], datasets=["lost"]):
            theirs = build(task).get_params(deep=False)
            own = {"loss", "random_state"}
            assert all(value == expected[key] for key, value in theirs.items() if key not in own)


def test_a_key_follows_parameters_and_nothing_else():
    task = Task("as-published", "lost:fold0", "cc", "", 0, {})
    assert run_hash(task) == run_hash(task._replace(setting="other"))
    for other in ({"params": {"lr": 0.5}}, {"seed": 1}, {"dataset": "wine"}, {"train_size": 9}):
        assert run_hash(task) != run_hash(task._replace(**other))
    task = task._replace(method="cleanse-paper")
    assert run_hash(task) == run_hash(task._replace(group="ablation", setting="T=3"))
    timed = plan("seconds")[0]  # run on its own: not a copy of the headline's
    assert run_hash(timed) != run_hash(timed._replace(group="headline"))


def test_edited_texts_do_not_make_a_line_old():
    code = (
        'def f(x):\n    """Text."""\n    if x:\n        raise ValueError("no")\n    return x + 1\n'
    )
    edited = code.replace('"""Text."""', '"""Other."""\n    # note').replace('"no"', 'f"No {x}."')
    assert tree_of(edited) == tree_of(code)
    assert tree_of(code.replace("+ 1", "+ 2")) != tree_of(code)


def test_a_plan_can_be_cut_down_and_extended():
    cut = plan("headline", datasets=["lost", "mine:rows"], methods=["cc", "mine.First"], seeds=[5])
    cells = {
        ("lost", "cc"),
        ("lost", "mine.First"),
        ("mine:rows", "cc"),
        ("mine:rows", "mine.First"),
    }
    assert {(task.dataset, task.method) for task in cut} == cells
    assert {task.seed for task in cut} == {5}
    (task,) = plan("as-published", datasets=["lost"], methods=["dpcls"])
    assert task.dataset == "lost:fold0"
    assert len(plan("images", datasets=["mnist"], methods=["mine.First"], seeds=[0])) == 1


# -- data ------------------------------------------------------------------------------------


def test_splits_are_those_documented():
    from sklearn.datasets import load_wine
    from sklearn.model_selection import ShuffleSplit

    X = load_wine().data
    trial = load_trial(WINE, 7)
    train, test = next(ShuffleSplit(1, test_size=0.1, random_state=7).split(X))
    np.testing.assert_array_equal(trial.X_train, X[train])
    np.testing.assert_array_equal(trial.X_test, X[test])


def test_the_published_split_is_fold_0_whatever_the_seed(monkeypatch):
    from sklearn.model_selection import KFold

    X = np.arange(60)[:, None]
    monkeypatch.setattr("data.load_rows", lambda *_: (X, X > 0, X[:, 0]))
    train, _ = next(KFold(5, shuffle=True, random_state=0).split(X))
    for seed in (0, 1):
        np.testing.assert_array_equal(load_trial("lost:fold0", seed).y_train, train)


@pytest.mark.parametrize("balance", BALANCES)
@pytest.mark.parametrize("source", SOURCES)
def test_controlled_trials(source, balance):
    trial, again = (load_trial(f"digits:{source}:{balance}", 3) for _ in range(2))
    np.testing.assert_array_equal(trial.S_train, again.S_train)
    assert trial.S_train.shape == (len(trial.X_train), 10)
    assert trial.S_train[np.arange(len(trial.X_train)), trial.y_train].all()
    n = np.bincount([*trial.y_train, *trial.y_test])
    assert round(n[0] / n[-1]) == (1 if balance == "balanced" else IMBALANCE)
    assert len(load_trial(f"digits:{source}:{balance}", 3, train_size=50).X_train) == 50


def test_the_generated_lexicon_is_split_by_its_seed():
    trial, other = (load_trial("lexicon", seed) for seed in (0, 1))
    assert (trial.X_train.shape, trial.X_test.shape) == ((1800, 60), (200, 60))
    assert trial.S_train[np.arange(1800), trial.y_train].all()
    assert not np.array_equal(trial.X_test, other.X_test)


def test_absent_data_are_named_with_the_remedy(tmp_path, capsys):
    arguments = ["--group", "headline", "--dataset", "lost", "--method", "cc", "--seeds", "0"]
    assert go(tmp_path / "out", *arguments, "--data-home", str(tmp_path)) == 1
    assert "--data-home or SKLEARN_CLEANSE_DATA name the folder" in capsys.readouterr().err


# -- runs ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--group", "headline", "--seeds", "4-0"], "got '4-0'"),
        (["--method", "clense"], "try cleanse"),
        (["--dataset", "birdsongs"], "try birdsong"),
        (["--quick", "--group", "headline"], "pass one of"),
        (["--group", "headline", "--epochs", "3"], "--epochs needs --results"),
    ],
)
def test_commands_that_cannot_be_meant_raise(arguments, message, capsys):
    with pytest.raises(SystemExit):
        run.parse(arguments)
    assert message in capsys.readouterr().err


def test_looking_on_does_not_change_training_and_ends_with_the_final_model():
    task = Task("as-published", WINE, "cleanse-paper", "", 0, {"max_epochs": 12})
    trial = load_trial(WINE, 0)
    plain = build(task).fit(trial.X_train, trial.S_train)
    watched = build(task).set_params(callbacks=[("last", experiment.LastEpochs(trial.X_test))])
    watched.fit(trial.X_train, trial.S_train)
    seen = dict(watched.net_.callbacks_)["last"].predicted_
    assert len(seen) == experiment.LAST_EPOCHS
    np.testing.assert_array_equal(seen[-1], plain.predict(trial.X_test))
    np.testing.assert_array_equal(
        plain.predict_proba(trial.X_test), watched.predict_proba(trial.X_test)
    )


def test_a_second_call_runs_nothing_and_redo_follows_the_code(tmp_path, monkeypatch):
    arguments = ["--group", "as-published", "--dataset", WINE, "--method", "pl-cgr", "--seeds", "0"]
    assert go(tmp_path, *arguments) == 0
    (line,) = read_lines(tmp_path)
    assert (line["code"], line["seed"], line["n_train"]) == (code_hash(), 0, 160)
    path = tmp_path / "as-published.jsonl"
    path.write_text(json.dumps(line | {"code": "other"}) + "\n")
    monkeypatch.setattr(experiment, "run", lambda *_, **__: pytest.fail("ran again"))
    assert go(tmp_path, *arguments) == 0
    monkeypatch.undo()
    assert go(tmp_path, *arguments, "--redo") == 0
    assert [line["code"] for line in read_lines(tmp_path)] == [code_hash()]


def test_equal_runs_are_done_once(tmp_path, capsys):
    common = ["--dataset", WINE, "--method", "cleanse-paper", "--seeds", "0", "--epochs", "1"]
    assert go(tmp_path, "--group", "as-published", "--group", "ablation", *common) == 0
    assert "[12/12]" in capsys.readouterr().err
    lines = read_lines(tmp_path)
    assert Counter(line["group"] for line in lines) == {"ablation": 12, "as-published": 1}
    (copied,) = [line for line in lines if line.get("copied")]
    assert (copied["group"], copied["setting"]) == ("ablation", "T=3 λ=0.001")


def test_own_methods_and_data_stand_apart_and_a_failure_ends_nothing(tmp_path, monkeypatch, capsys):
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    arguments = ["--group", "headline", "--dataset", "mine:rows", "--seeds", "0"]
    arguments += ["--method", "mine.Failing", "--method", "mine.First"]
    assert run.parse(arguments).results.name == "results-own"
    assert go(tmp_path / "out", *arguments) == 1
    (line,) = read_lines(tmp_path / "out")
    assert (line["method"], line["params"]) == ("mine.First", {"shift": 0})
    assert "FAILED MemoryError: too large" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="cannot be imported"):
        go(tmp_path, *arguments, "--method", "mine.Nothing")


@pytest.mark.slow
def test_a_killed_run_loses_the_runs_under_way_only(tmp_path):
    arguments = ["--group", "as-published", "--dataset", WINE, "--method", "cc", "--jobs", "2"]
    arguments += ["--epochs", "60"]
    command = [sys.executable, str(PAPER / "run.py"), *arguments, "--results", str(tmp_path)]
    process = subprocess.Popen(command, start_new_session=True)
    while not read_lines(tmp_path):
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.wait()
    first = read_lines(tmp_path)
    assert subprocess.run(command, check=False).returncode == 0
    lines = {line["seed"]: line for line in read_lines(tmp_path)}
    assert sorted(lines) == list(range(5))
    assert all(lines[line["seed"]] == line for line in first)


@pytest.mark.slow
def test_quick(tmp_path, capsys):
    assert go(tmp_path, "--quick", "--jobs", "2") == 0
    shown = capsys.readouterr().out
    for text in ("CleanSE (this package)", "CleanSE (paper's form)", "kernel", "CC", "core-hours"):
        assert text in shown
    lines = read_lines(tmp_path)
    assert len(lines) == len(plan("quick"))
    assert {line["run"] for line in lines} == {run_hash(task) for task in plan("quick")}
    for line in lines:
        assert {"command", "commit", "code", "versions", "ece", "identified"} <= set(line)
    assert sum(line["seconds"] for line in lines) < 180
