"""The benchmark of examples/paper: lines survive anything, and tables are computed from them."""

import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import backends
import lines as lines_module
import numpy as np
import paper_numbers
import pytest
import run
import tables
import torch
from cells import Results
from data import IMBALANCE, KINDS, controlled_name, load_trial
from experiment import LastEpochs, _last_accuracies
from experiment import run as run_task
from lines import TIMING, LineFile, key_of, read_lines
from plan import (
    DEEP_RIVALS,
    GROUPS,
    Task,
    build,
    code_hash,
    key_of_task,
    plan,
    quick_plan,
    run_hash,
)

from sklearn_cleanse import PAPER_SETTINGS, CleanSEClassifier
from sklearn_cleanse.datasets import make_partial_classification

PAPER = Path(run.__file__).parent
ENVIRONMENT = os.environ | {"PYTHONPATH": str(PAPER.parents[1])}
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
        monkeypatch.setattr(lines_module, "WAITS", ())
        with pytest.raises(SystemExit, match="no space left"):
            file.append(line_of(seed=1))
        monkeypatch.undo()
    assert path.read_bytes().endswith(b"\n")
    assert len(read_lines(tmp_path)) == 1


def test_full_disk_that_gets_room_again_loses_nothing(tmp_path, monkeypatch, capsys):
    write, tries = os.write, []

    def full_at_first(file, data):
        tries.append(data)
        if len(tries) < 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, data)

    monkeypatch.setattr(lines_module, "WAITS", (0, 0))
    with LineFile(tmp_path / "real.jsonl") as file:
        monkeypatch.setattr(lines_module.os, "write", full_at_first)
        file.append(line_of())
        monkeypatch.undo()
    assert len(read_lines(tmp_path)) == 1
    assert capsys.readouterr().err.count("trying again") == 2


def test_absent_data_are_noted_whole_and_without_litter(tmp_path):
    lines_module.note_absent(tmp_path, ["lost", "mnist"], [])
    lines_module.note_absent(tmp_path, [], ["lost"])
    assert lines_module.read_absent(tmp_path) == ["mnist"]
    assert [path.name for path in tmp_path.iterdir()] == ["absent.json"]


def test_two_writers_exclude_each_other(tmp_path):
    with LineFile(tmp_path / "a.jsonl"), pytest.raises(SystemExit, match="another run"):
        LineFile(tmp_path / "a.jsonl")
    LineFile(tmp_path / "a.jsonl").close()


def test_lines_are_plain_json(tmp_path):
    with LineFile(tmp_path / "a.jsonl") as file:
        file.append(line_of(transductive=float("nan")))
    assert read_lines(tmp_path)[0]["transductive"] is None


WRONG_FORMS = [
    "null",
    "[]",
    "7",
    '"real"',
    "[" * 100_000,
    *(
        json.dumps(line_of() | change)
        for change in (
            {"seed": "0"},
            {"seed": [0]},
            {"seed": True},
            {"method": None},
            {"method": {"cc": 1}},
            {"params": []},
            {"n_train": "9"},
            {"accuracy_mean": "high"},
            {"accuracy_mean": None},
            {"accuracy_mean": float("nan")},
            {"train_size": "all"},
            {"finished": 0},
            {"versions": {}},
            {"versions": "0.1"},
        )
    ),
]


@pytest.mark.parametrize("wrong", WRONG_FORMS, ids=range(len(WRONG_FORMS)))
def test_line_of_another_form_costs_itself_only(tmp_path, capsys, wrong):
    lines = [json.dumps(line_of()), wrong, json.dumps(line_of(seed=1))]
    (tmp_path / "real.jsonl").write_text("\n".join(lines) + "\n")
    assert [line["seed"] for line in read_lines(tmp_path)] == [0, 1]
    assert "real.jsonl:2: not a finished line" in capsys.readouterr().err


def test_lines_of_odd_settings_cost_themselves_only(tmp_path):
    odd = [("temperature", "T=high"), ("lambda", ""), ("images", "ours-batch-"), ("none", "such")]
    with LineFile(tmp_path / "odd.jsonl") as file:
        for group, setting in odd:
            file.append(line_of(group=group, setting=setting, dataset="mnist", method="cleanse"))
        file.append(line_of())
    (tmp_path / "absent.json").write_text("{")
    assert tables.main(["--results", str(tmp_path)]) == 0
    assert "50.00" in (tmp_path / "report" / "csv" / "real-ours.csv").read_text()


# -- the plan ----------------------------------------------------------------------------------


@pytest.mark.parametrize("group", GROUPS)
def test_every_task_of_a_group_can_be_built_and_is_unique(group):
    tasks = plan(group, seeds=[3])
    for task in tasks:
        build(task)._validate_params()
    assert len({key_of_task(task) for task in tasks}) == len(tasks)


def test_every_quick_task_can_be_built_and_is_unique():
    tasks = quick_plan()
    for task in tasks:
        build(task)._validate_params()
    assert {task.group for task in tasks} == set(GROUPS)
    assert len({key_of_task(task) for task in tasks}) == len(tasks)


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


def soccer_player():
    """Data of the shape of Soccer Player, as a user's own data set."""
    return make_partial_classification(
        17472, 279, 171, clean_rate=0.3045, flip_proba=0.0058, random_state=0
    )


def yahoo_news():
    """Data of the shape of Yahoo! News."""
    return make_partial_classification(
        22991, 163, 219, clean_rate=0.2899, flip_proba=0.0024, random_state=0
    )


@pytest.mark.parametrize(("name", "n_classes"), [("soccer_player", 171), ("yahoo_news", 219)])
def test_shapes_of_sets_that_are_absent_can_be_run(name, n_classes):
    only = {"datasets": [f"{__name__}:{name}"], "methods": ["cleanse"], "seeds": [0], "epochs": 1}
    (task,) = plan("real", **only, train_size=300)
    line = run_task(task)
    assert (line["n_train"], line["n_classes"], line["epochs"]) == (300, n_classes, 1)
    assert 0 <= line["accuracy_mean"] <= 1
    printed = paper_numbers.CHARACTERISTICS[name]
    assert line["mean_candidates"] == pytest.approx(printed[3], rel=0.1)


@pytest.mark.parametrize("balance", ["balanced", "imbalanced"])
@pytest.mark.parametrize("kind", KINDS)
def test_controlled_trials(kind, balance):
    name = controlled_name("digits", kind, balance)
    trial, again = load_trial(name, 3), load_trial(name, 3)
    np.testing.assert_array_equal(trial.S_train, again.S_train)
    for S, y in ((trial.S_train, trial.y_train), (trial.S_test, trial.y_test)):
        assert S.shape == (len(y), 10)
        assert S[np.arange(len(y)), y].all()
    n = np.bincount([*trial.y_train, *trial.y_test])
    assert round(n[0] / n[-1]) == (1 if balance == "balanced" else IMBALANCE)
    assert len(load_trial(name, 3, train_size=50).X_train) == 50


def test_a_run_whose_data_are_all_absent_fails_and_tells_where_to_name_them(tmp_path, capsys):
    arguments = ["--dataset", "lost", "--method", "cc", "--data-home", str(tmp_path)]
    assert run.main([*arguments, "--results", str(tmp_path / "out")]) == 1
    told = capsys.readouterr().err
    assert "data absent: lost (10 runs left out)" in told
    assert "--data-home or SKLEARN_CLEANSE_DATA name the folder, --download fetches" in told


def test_controlled_data_of_the_folder(tmp_path, capsys):
    (tmp_path / "dev").mkdir()
    X = np.random.RandomState(0).normal(size=(2500, 3)).astype(np.float32)
    labels = np.arange(2500, dtype=np.int16) % 4 + 1
    np.savez(tmp_path / "dev" / "segment.npz", X=X, y=labels)
    trial = load_trial("segment:bag", 0, data_home=tmp_path)
    assert (trial.X_train.shape, trial.X_test.shape) == ((2000, 3), (250, 3))
    assert trial.S_train.shape == (2000, 4)
    arguments = ["--group", "controlled", "--dataset", "vowel", "--data-home", str(tmp_path)]
    assert run.main([*arguments, "--results", str(tmp_path / "out")]) == 1
    assert "vowel:dictionary:imbalanced" in capsys.readouterr().err
    results = Results.read([tmp_path / "out"])
    assert results.why_empty("controlled", "ours", "vowel:flip", "cc") == "data absent"


def test_published_split_is_fold_0_whatever_the_seed():
    from sklearn.model_selection import KFold

    first, other = load_trial("wine:fold0", 0), load_trial("wine:fold0", 1)
    np.testing.assert_array_equal(first.X_train, other.X_train)
    train, _ = next(KFold(5, shuffle=True, random_state=0).split(np.empty((178, 1))))
    assert len(first.X_train) == len(train)


def test_published_methods_are_in_the_papers_network():
    for task in plan("as-published", datasets=["lost"], seeds=[0]):
        if task.method not in ("pl-cgr", "dpcls"):
            params = build(task).get_params()
            network = ("hidden_layer_sizes", "max_epochs", "batch_size", "lr", "schedule")
            assert [params[n] for n in network] == [PAPER_SETTINGS[n] for n in network]
    ours = {t.setting: build(t) for t in plan("as-published", methods=["cleanse-paper-net"])}
    assert {"neither", "votes", "counts", "both", "T=3", "lambda=0.1"} < set(ours)
    assert ours["both"].vote == CleanSEClassifier().vote


# -- the command line ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seeds", "4-0"], "4-0 is empty"),
        (["--method", "clense"], "did you mean 'cleanse'"),
        (["--skip", "dpclss"], "did you mean 'dpcls'"),
        (["--skip", "dpcls@birdsongs"], "did you mean 'birdsong'"),
        (["--quick", "--seeds", "0"], "leave out --seeds"),
        (["--quick", "--epochs", "3"], "leave out --epochs"),
        (["--quick", "--train-size", "3"], "leave out --train-size"),
        (["--quick", "--batch-size", "3"], "leave out --batch-size"),
        (["--quick", "--method", "cc"], "--method adds one of your own"),
        (["--scheduler", "tcp://x:1"], "goes with --backend dask"),
    ],
)
def test_commands_that_cannot_be_meant_are_refused(arguments, message, capsys):
    with pytest.raises(SystemExit):
        run.parse(arguments)
    assert message in capsys.readouterr().err


def test_skip_takes_a_set_with_all_its_forms():
    (task,) = plan("controlled", datasets=["wine:bag"], methods=["cc"], seeds=[0])
    for skip in ("cc", "cc@wine", "cc@wine:bag"):
        assert run._skipped(task, [skip])
    assert not run._skipped(task, ["rc", "cc@iris", "cc@wine:flip"])


def test_paths_to_import_are_no_misspelt_names():
    paths = ["--method", "mine.First", "--method", "mine:make", "--method", "cc+cleanse"]
    assert run.parse([*paths, "--skip", "mine.First@mine:rows"]).skip
    assert run.parse(["--backend", "dask", "--scheduler", "tcp://x:1"]).threads == 1


# -- runs ----------------------------------------------------------------------------------------


def test_second_call_runs_nothing(tmp_path, monkeypatch):
    arguments = [*TINY, "--method", "pl-cgr", "--seeds", "0,1", "--results", str(tmp_path)]
    assert run.main(arguments) == 0
    before = (tmp_path / "real.jsonl").read_bytes()
    found = read_lines(tmp_path)
    assert {line["setting"] for line in found} == {"ours", "paper"}  # one run, listed twice
    assert all(line["accuracy_sd"] == 0 for line in found)
    monkeypatch.setattr(backends, "_Worker", lambda *_: pytest.fail("ran again"))
    assert run.main(arguments) == 0
    assert (tmp_path / "real.jsonl").read_bytes() == before


def test_line_names_code_and_cpu_and_redo_follows_the_code(tmp_path, monkeypatch):
    arguments = [*TINY, "--method", "pl-cgr", "--seeds", "0", "--results", str(tmp_path)]
    assert run.main(arguments) == 0
    for line in read_lines(tmp_path):
        assert re.fullmatch("[0-9a-f]{12}", line["code"])
        assert line["cpu"]["capability"] == torch.backends.cpu.get_cpu_capability()
    path = tmp_path / "real.jsonl"
    old = [{k: v for k, v in line.items() if k != "code"} for line in read_lines(tmp_path)]
    path.write_text("".join(json.dumps(line) + "\n" for line in old))
    assert run.main(arguments) == 0  # a line of unknown code counts as done
    assert len(path.read_text().splitlines()) == 2
    for _ in range(2):  # the second time there is nothing left to do
        assert run.main([*arguments, "--redo"]) == 0
        assert len(path.read_text().splitlines()) == 4
    assert [line["code"] for line in read_lines(tmp_path)] == [code_hash()] * 2


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
    watch = LastEpochs(trial.X_test, False)
    plain = CleanSEClassifier(max_epochs=12, random_state=0).fit(trial.X_train, trial.S_train)
    watched = CleanSEClassifier(max_epochs=12, random_state=0, callbacks=[watch])
    watched.fit(trial.X_train, trial.S_train)
    np.testing.assert_array_equal(
        plain.predict_proba(trial.X_test), watched.predict_proba(trial.X_test)
    )


@pytest.mark.parametrize("kernel_share", [0.0, 0.5, 1.0])
def test_the_whole_model_is_scored_after_each_of_the_last_epochs(kernel_share):
    trial = load_trial("iris", 0)
    watch = LastEpochs(trial.X_test, False)
    params = {"max_epochs": 12, "random_state": 0, "kernel_share": kernel_share}
    model = CleanSEClassifier(**params, callbacks=[watch]).fit(trial.X_train, trial.S_train)
    seen = _last_accuracies(model, trial)
    assert len(seen) == 10
    assert seen[-1] == (model.predict(trial.X_test) == trial.y_test).mean()
    if kernel_share == 1:  # the network has no say
        assert len(set(seen)) == 1


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
    table = tables.real_table(Results.read([tmp_path / "out"]), "real", "ours")
    assert list(table.frame.index[-2:]) == ["mine.First", "mine:make"]
    with pytest.raises(SystemExit, match="cannot be imported"):
        run.main(["--method", "mine.Nothing", "--dataset", "iris", "--results", str(tmp_path)])


def test_own_methods_and_data_stay_out_of_the_tracked_lines():
    def folder(*arguments):
        options = run.parse(list(arguments))
        return {run._folder(task, options).name for task in run._tasks(options)}

    assert folder("--method", "cc", "--dataset", "lost") == {"results"}
    assert folder("--method", "mine.First", "--dataset", "lost") == {"results-own"}
    assert folder("--method", "cc", "--dataset", "mine:rows") == {"results-own"}
    assert folder("--method", "mine.First", "--results", "here") == {"here"}
    assert folder("--group", "controlled", "--method", "cc") == {"results"}


def test_only_a_methods_own_refusal_is_an_answer(tmp_path, monkeypatch, capsys):
    (tmp_path / "hungry.py").write_text(
        "from sklearn.dummy import DummyClassifier\n"
        "class Hungry(DummyClassifier):\n"
        "    def fit(self, X, S):\n"
        "        raise MemoryError('cannot allocate')\n"
    )
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    arguments = [*TINY, "--method", "hungry.Hungry", "--seeds", "0", "--results", str(tmp_path)]
    assert run.main(arguments) == 1
    assert read_lines(tmp_path) == []
    refusing = plan("real", datasets=["iris"], methods=["dpcls"], settings=["ours"], seeds=[0])
    (task,) = [task._replace(params={"max_memory": 1e-9}) for task in refusing]
    assert "max_memory" in run_task(task)["refused"]


def test_lines_of_another_runner_are_seen_after_the_lock(tmp_path, monkeypatch):
    arguments = [*TINY, "--method", "pl-cgr", "--seeds", "0", "--results", str(tmp_path / "mine")]
    assert run.main([*arguments[:-1], str(tmp_path / "theirs")]) == 0

    class LateLock(LineFile):
        def __init__(self, path):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes((tmp_path / "theirs" / path.name).read_bytes())
            super().__init__(path)

    monkeypatch.setattr(run, "LineFile", LateLock)
    assert run.main(arguments) == 0
    assert len((tmp_path / "mine" / "real.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_method_that_exits_costs_its_own_run_only(tmp_path, monkeypatch, capsys, jobs):
    (tmp_path / "deadly.py").write_text(
        "import os, sys\n"
        "from sklearn.dummy import DummyClassifier\n"
        "class Killing(DummyClassifier):\n"
        "    def fit(self, X, S):\n"
        "        os._exit(9)\n"
        "class Leaving(DummyClassifier):\n"
        "    def fit(self, X, S):\n"
        "        sys.exit('good bye')\n"
        "class Stopping(DummyClassifier):\n"
        "    def fit(self, X, S):\n"
        "        raise KeyboardInterrupt\n"
    )
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    deadly = [f"--method=deadly.{name}" for name in ("Killing", "Leaving", "Stopping")]
    arguments = [*deadly, "--method", "pl-cgr", "--seeds", "0", "--jobs", jobs]
    assert run.main([*TINY, *arguments, "--results", str(tmp_path / "out")]) == 1
    assert {line["method"] for line in read_lines(tmp_path / "out")} == {"pl-cgr"}
    message = capsys.readouterr().err
    assert "its process died with exit code 9" in message
    assert "good bye" in message
    assert "3 runs failed" in message


def test_unfinished_run_is_no_result(tmp_path, monkeypatch):
    (tmp_path / "hasty.py").write_text(
        "from skorch.callbacks import Callback, EarlyStopping\n"
        "from sklearn_cleanse import PartialLabelClassifier\n"
        "class Interrupt(Callback):\n"
        "    def on_epoch_end(self, net, **kwargs):\n"
        "        raise KeyboardInterrupt\n"
        "def stopped():\n"
        "    stop = EarlyStopping('loss', patience=2, threshold=99, threshold_mode='abs')\n"
        "    return PartialLabelClassifier(max_epochs=5, callbacks=[stop])\n"
        "def interrupted():\n"
        "    return PartialLabelClassifier(max_epochs=5, callbacks=[Interrupt()])\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    methods = ["hasty:stopped", "hasty:interrupted"]
    stopped, interrupted = plan("real", datasets=["iris"], methods=methods, seeds=[0])
    with pytest.raises(RuntimeError, match="of 5 epochs; an unfinished run is no result"):
        run_task(stopped)
    line, why = backends.attempt(run_task, interrupted)
    assert line is None
    assert "interrupted" in why


def test_interrupt_ends_the_run_at_once_and_the_next_call_redoes_it(tmp_path, monkeypatch, capsys):
    (tmp_path / "endless.py").write_text(
        "from pathlib import Path\n"
        "from skorch.callbacks import Callback\n"
        "from sklearn_cleanse import PartialLabelClassifier\n"
        "class Touch(Callback):\n"
        "    def on_epoch_end(self, net, **kwargs):\n"
        "        Path('training').touch()\n"
        "def make():\n"
        "    return PartialLabelClassifier(max_epochs=10**6, callbacks=[Touch()])\n"
    )
    arguments = [
        "--method",
        "endless:make",
        "--dataset",
        "iris",
        "--seeds",
        "0",
        "--results",
        "out",
    ]
    runner = subprocess.Popen(
        [sys.executable, str(PAPER / "run.py"), *arguments],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        cwd=tmp_path,
        env=ENVIRONMENT,
    )
    while not (tmp_path / "training").exists():
        assert runner.poll() is None
        time.sleep(0.01)
    os.killpg(runner.pid, signal.SIGINT)  # as a terminal does: the workers get it, too
    _, message = runner.communicate(timeout=120)  # until none of them holds the pipe any more
    assert runner.returncode == 130
    assert "stopped; the same command goes on from here" in message
    assert "Traceback" not in message
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert read_lines("out") == []
    assert run.main([*arguments, "--dry-run"]) == 0
    assert "1 to do" in capsys.readouterr().err


def test_dask_gives_the_same_numbers(tmp_path):
    from distributed import LocalCluster

    arguments = [*TINY, "--method", "pl-cgr", "--seeds", "0,1", "--results"]
    assert run.main([*arguments, str(tmp_path / "here")]) == 0
    with LocalCluster(1, processes=False, threads_per_worker=1, dashboard_address=None) as cluster:
        where = ["--backend", "dask", "--scheduler", cluster.scheduler_address]
        assert run.main([*arguments, str(tmp_path / "there"), *where]) == 0
    assert numbers(tmp_path / "here") == numbers(tmp_path / "there")


def test_runs_travel_to_workers_that_lack_this_folder(tmp_path):
    import cloudpickle

    only = {"datasets": ["iris"], "methods": ["cc"], "settings": ["ours"], "seeds": [0]}
    (task,) = plan("real", **only, epochs=1)
    (lost,) = plan("real", **only | {"methods": ["absent.Method"], "settings": None})
    for module in backends.TRAVELLING:
        cloudpickle.register_pickle_by_value(module)
    try:
        packed = cloudpickle.dumps((backends.attempt, run_task, [task, lost]))
    finally:
        for module in backends.TRAVELLING:
            cloudpickle.unregister_pickle_by_value(module)
    (tmp_path / "packed").write_bytes(packed)
    worker = (
        "import json, pickle\n"
        "attempt, run, tasks = pickle.load(open('packed', 'rb'))\n"
        "print(json.dumps([attempt(run, task) for task in tasks]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", worker],
        cwd=tmp_path,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    (line, error), (nothing, why) = json.loads(done.stdout)
    assert error is None
    assert (line["epochs"], line["code"]) == (1, code_hash())
    assert nothing is None  # a method that the worker lacks fails, and the worker lives
    assert "'absent.Method' cannot be imported" in why


def test_killed_with_its_workers_it_ends_with_the_same_numbers(tmp_path):
    methods = ["--method", "cc", "--method", "pl-cgr", "--setting", "ours"]
    arguments = [*TINY, *methods, "--seeds", "0-9", "--results"]
    killed, undisturbed = tmp_path / "killed", tmp_path / "undisturbed"
    command = [sys.executable, str(PAPER / "run.py"), *arguments, str(killed), "--jobs", "2"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    runner = subprocess.Popen(command, **quiet, env=ENVIRONMENT)
    deadline = time.monotonic() + 300
    while not (killed.exists() and read_lines(killed, warn=False)):
        assert runner.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    runner.kill()
    runner.wait()
    assert 0 < len(read_lines(killed, warn=False)) < 20  # it was in the midst of it
    assert run.main([*arguments, str(killed)]) == 0
    assert run.main([*arguments, str(undisturbed)]) == 0
    assert len(numbers(killed)) == 20
    assert numbers(killed) == numbers(undisturbed)


KILLS = """
import os, random, signal, sys, time
import backends, experiment, run
# In this process, imported once: what is killed below are forks, so that no time goes into imports.
def run_here(tasks, jobs):
    for task in tasks:
        yield task, *backends.attempt(experiment.run, task)
run.run_processes = run_here
undisturbed, killed, seed = sys.argv[1:]
arguments = ["--group", "real", "--dataset", "iris", "--method", "cc", "--method", "pl-cgr",
             "--seeds", "0-7", "--epochs", "2", "--threads", "1", "--results"]
def start(folder):
    child = os.fork()
    if child == 0:
        os._exit(run.main([*arguments, folder]))
    return child
began = time.perf_counter()
os.waitpid(start(undisturbed), 0)
whole = time.perf_counter() - began
moments = random.Random(int(seed))
for _ in range(10):
    child = start(killed)
    time.sleep(moments.uniform(0.02, 0.3) * whole)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
_, status = os.waitpid(start(killed), 0)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def test_killed_ten_times_it_ends_with_the_same_numbers(tmp_path):
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    done = subprocess.run(
        [sys.executable, "-c", KILLS, str(undisturbed), str(killed), "0"],
        env=ENVIRONMENT | {"PYTHONPATH": os.pathsep.join([str(PAPER), str(PAPER.parents[1])])},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(numbers(killed)) == 8 * 4  # two methods in two settings
    assert numbers(killed) == numbers(undisturbed)
