"""Run the paper's experiments: every (data set, method, setting, seed) gives one result line.

    python examples/paper/run.py --quick                    # minutes, on scikit-learn's own data
    python examples/paper/run.py --group real --jobs 2      # the table of real data
    python examples/paper/run.py --method mypkg.MyClassifier --dataset lost

Stop it at any time and give the same command again: finished lines are kept, and only what is
missing is run. ``tables.py`` turns the lines into tables, figures and a report.
"""

from __future__ import annotations

import argparse
import difflib
import importlib.util
import os
import re
import sys
from contextlib import ExitStack, closing
from pathlib import Path

from backends import run_dask, run_processes
from data import DATASETS, SMALL, AbsentData, check_present
from lines import LineFile, key_of, note_absent, read_lines
from plan import GROUPS, METHODS, Task, code_hash, key_of_task, plan, quick_plan
from tqdm import tqdm

HERE = Path(__file__).resolve().parent


def main(arguments=None) -> int:
    """Do what the command line asks for; return the exit code."""
    options = parse(arguments)
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # where a user's own method is likely to be
    if options.list:
        print(_overview())
        return 0
    try:
        return _run(options)
    except ImportError as error:  # of what --method or --dataset names
        raise SystemExit(str(error)) from error
    except KeyboardInterrupt:
        _say("\nstopped; the same command goes on from here")
        return 130


def _run(options) -> int:
    tasks = [task for task in _tasks(options) if not _skipped(task, options.skip)]
    tasks, absent = _present(tasks)
    for dataset, (count, why) in absent.items():
        _say(f"data absent: {dataset} ({count} runs left out): {why}")
    if absent:
        _say("here: --data-home or SKLEARN_CLEANSE_DATA name the folder, --download fetches")
    todo, copies = _missing(tasks, options)
    if options.dry_run:
        for task, _ in todo:
            print(_name(task))
        _announce(tasks, todo, copies)
        return 0
    here = [task.dataset for task in tasks]
    gone, here = ({name.partition(":")[0] for name in part} for part in (absent, here))
    note_absent(options.results or HERE / "results", gone, here)
    with ExitStack() as stack:
        # Taking the locks and mending torn lines comes before hours of work, not after.
        wanted = [task for first, others in todo for task in (first, *others)]
        wanted += [task for _, others in copies for task in others]
        files = {
            path: stack.enter_context(LineFile(path))
            for path in dict.fromkeys(_path(task, options) for task in wanted)
        }
        todo, copies = _missing(tasks, options)  # another runner may have been at it until now
        _announce(tasks, todo, copies)
        failed = _work(todo, copies, files, options)
    if options.quick and not failed:
        import tables

        tables.main(["--results", str(options.results), "--output", str(options.report)])
    return 1 if failed or not tasks else 0


def _skipped(task: Task, skip) -> bool:
    sets = {task.dataset, task.dataset.partition(":")[0]}
    return task.method in skip or any(f"{task.method}@{name}" in skip for name in sets)


def _announce(tasks, todo, copies) -> None:
    n, same = len(todo), sum(len(others) for _, others in [*copies, *todo])
    done = len(tasks) - n - same
    _say(f"{len(tasks)} runs: {done} done, {same} equal to others, {n} to do")


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def parse(arguments=None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="all groups, cut down, on scikit-learn's data; report")
    add("--group", action="append", choices=GROUPS, help="what to run; may be given several times")
    add("--dataset", action="append", help="only this one; may be given several times")
    add("--method", action="append", help="only this one, or your own: pkg.Class, module:factory")
    add("--skip", action="append", default=[], help="not this method: dpcls, or dpcls@birdsong")
    add("--setting", action="append", help="only this one; may be given several times")
    add("--seeds", type=_seeds, help="trials, such as 0-4 or 0,3,7")
    add("--epochs", type=_positive, help="epochs of every network, instead of its own number")
    add("--train-size", type=_positive, help="training rows at most")
    add("--width", type=_positive, help="channels of a narrower ResNet-34 (default: 64)")
    add("--batch-size", type=_positive, action="append", help="batch sizes of group images")
    add("--jobs", type=_positive, default=1, help="runs at a time")
    add("--threads", type=_positive, help="of each run (default: OMP_NUM_THREADS, or cores / jobs)")
    add("--backend", choices=["process", "dask"], default="process", help="where to run")
    add("--scheduler", help="address of the dask scheduler; a cluster is started here if missing")
    add("--data-home", help="folder of the data (default: SKLEARN_CLEANSE_DATA)")
    add("--download", action="store_true", help="download data that are missing")
    add("--results", type=Path, help="folder of the result lines (default: results beside this)")
    add("--report", type=Path, help="folder of the report of --quick (default: in the results)")
    add("--redo", action="store_true", help="run again what other code of the package has made")
    add("--list", action="store_true", help="list groups, methods and data sets")
    add("--dry-run", action="store_true", help="say what would be run, and run nothing")
    options = parser.parse_args(arguments)
    _check(parser, options)
    if options.quick:
        _check_report(parser)
        options.results = options.results or HERE / "results-quick"
        options.report = options.report or options.results / "report"
    if options.threads is None:  # how many cores a worker elsewhere has is not known here
        cores = 1 if options.scheduler else os.cpu_count() or 1
        asked = os.environ.get("OMP_NUM_THREADS", "")
        options.threads = max(1, int(asked) if asked.isdigit() else cores // options.jobs)
    return options


def _check(parser, options) -> None:
    """Refuse what cannot be meant."""
    if options.scheduler and options.backend != "dask":
        parser.error("--scheduler goes with --backend dask")
    if options.quick:
        own = ("group", "dataset", "setting", "seeds", "epochs", "train_size", "width")
        for name in (*own, "batch_size"):
            if getattr(options, name):
                parser.error(f"--quick has its own plan; leave out --{name.replace('_', '-')}")
        if set(options.method or ()) & set(METHODS):
            parser.error("--quick runs all methods; --method adds one of your own to it")
    for name in options.method or ():
        _check_name(parser, "--method", name, METHODS)
    for skipped in options.skip:
        method, at, dataset = skipped.partition("@")
        _check_name(parser, "--skip", method, METHODS)
        if at:
            _check_name(parser, "--skip", dataset, DATASETS)


def _check_report(parser) -> None:
    """Refuse, before minutes of work, what the report at their end would fail for."""
    missing = [name for name in ("matplotlib", "pandas") if importlib.util.find_spec(name) is None]
    if missing:
        parser.error(
            f"the report of --quick needs {' and '.join(missing)}; in the folder of the package: "
            'pip install -c constraints.txt ".[plots,data]"'
        )


def _check_name(parser, option, name, known) -> None:
    if name not in known and "." not in name and ":" not in name:  # else a path to import
        near = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
        parser.error(f"{option}: {name!r} is not known; {hint}")


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not above zero")
    return value


def _seeds(text: str) -> list[int]:
    seeds: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        if not match:
            raise argparse.ArgumentTypeError(f"{part!r} is no seed; write 0-4 or 0,3,7")
        found = range(int(match[1]), int(match[2] or match[1]) + 1)
        if not found:
            raise argparse.ArgumentTypeError(f"{part} is empty; write the smaller seed first")
        seeds += found
    return seeds


def _tasks(options) -> list[Task]:
    common = {name: getattr(options, name) for name in ("data_home", "download", "threads")}
    if options.quick:
        own = {"datasets": list(SMALL), "methods": options.method or [], "seeds": (0, 1)}
        return quick_plan(**common) + plan("real", **own, **common)
    groups = options.group or ["real"]
    common |= {name: getattr(options, name) for name in ("seeds", "epochs", "train_size", "width")}
    several = ("dataset", "method", "setting", "batch_size")
    common |= {f"{name}s": getattr(options, name) for name in several}
    tasks = [task for group in groups for task in plan(group, **common)]
    if not tasks:
        settings = {task.setting for group in groups for task in plan(group)}
        known = ", ".join(sorted(settings))
        raise SystemExit(f"nothing to run: no method and setting fits; the settings are {known}")
    return tasks


def _present(tasks) -> tuple[list[Task], dict[str, tuple[int, str]]]:
    """Leave out tasks whose data are not here."""
    absent = {}
    for task in {task.dataset: task for task in tasks}.values():
        try:
            check_present(task.dataset, data_home=task.data_home, download=task.download)
        except AbsentData as error:
            absent[task.dataset] = sum(t.dataset == task.dataset for t in tasks), str(error)
    return [task for task in tasks if task.dataset not in absent], absent


def _folder(task: Task, options) -> Path:
    """Return the folder of a task's line: users' own methods and data have one of their own."""
    known = task.method in METHODS and task.dataset.partition(":")[0] in DATASETS
    return options.results or HERE / ("results" if known else "results-own")


def _path(task: Task, options) -> Path:
    return _folder(task, options) / f"{task.group}.jsonl"


def _missing(tasks: list[Task], options):
    """Sort out what is to be done: (task, tasks that want the same numbers), and mere copies."""
    folders = sorted({_folder(task, options) for task in tasks})
    done = [line for folder in folders for line in read_lines(folder, warn=False)]
    code = code_hash()
    done = [line for line in done if not options.redo or line.get("code") == code]
    known = {key_of(line) for line in done}
    same = {line["run"]: line for line in done}
    todo: dict[str, list[Task]] = {}
    for task in tasks:
        key = key_of_task(task)
        if key not in known:
            known.add(key)
            todo.setdefault(key[-1], []).append(task)
    return (
        [(first, others) for run, (first, *others) in todo.items() if run not in same],
        [(same[run], wanting) for run, wanting in todo.items() if run in same],
    )


def _work(todo, copies, files, options) -> int:
    """Run, and write each line as soon as it is there; return the number of failures."""

    def write(line, tasks):
        for task in tasks:
            files[_path(task, options)].append(_copy(line, task))

    for line, wanting in copies:
        write(line, wanting)
    others = {id(task): rest for task, rest in todo}
    tasks, failed = [task for task, _ in todo], 0
    if options.backend == "dask":
        outcomes = run_dask(tasks, options.scheduler, options.jobs)
    else:
        outcomes = run_processes(tasks, options.jobs)
    with closing(outcomes):
        for task, line, error in tqdm(outcomes, total=len(tasks), disable=not tasks):
            if line is None:
                failed += 1
                tqdm.write(f"FAILED {_name(task)}\n{error}", file=sys.stderr)
            else:
                files[_path(task, options)].append(line)
                write(line, others[id(task)])
    if failed:
        _say(f"{failed} runs failed; the same command tries them again, and them only")
    return failed


def _copy(line: dict, task: Task) -> dict:
    """Make a line for another cell from a run that is the same to the last parameter."""
    own = {name: getattr(task, name) for name in ("group", "dataset", "method", "setting")}
    return line | own | {"copied_from": [line["group"], line["method"], line["setting"]]}


def _name(task: Task) -> str:
    return f"{task.group} {task.dataset} {task.method} {task.setting} seed {task.seed}"


def _overview() -> str:
    groups = "".join(f"  {name:<24} {about}\n" for name, (about, *_) in GROUPS.items())
    methods = "".join(f"  {name:<24} {kind} {par}\n" for name, (kind, par, _) in METHODS.items())
    return (
        f"groups\n{groups}methods (or your own: package.Class, module:factory)\n{methods}data sets "
        f"(or your own: module:function that returns X, S, y)\n  {', '.join(DATASETS)}"
    )


if __name__ == "__main__":
    sys.exit(main())
