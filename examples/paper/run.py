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
import os
import sys
from contextlib import ExitStack
from pathlib import Path

HERE = Path(__file__).resolve().parent
for folder in (str(HERE), str(HERE.parents[1])):  # this folder's modules; the checkout's package
    if folder not in sys.path:
        sys.path.append(folder)

from backends import run_dask, run_here, run_processes  # noqa: E402
from data import DATASETS  # noqa: E402
from lines import LineFile, key_of, note_absent, read_lines  # noqa: E402
from plan import (  # noqa: E402
    CALIBRATED,
    GROUPS,
    METHODS,
    Task,
    build,
    code_hash,
    describe_params,
    key_of_task,
    plan,
    quick_plan,
)
from tqdm import tqdm  # noqa: E402


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
        print("\nstopped; the same command goes on from here", file=sys.stderr)
        return 130


def _run(options) -> int:
    tasks = [
        task
        for task in _tasks(options)
        if not {task.method, f"{task.method}@{task.dataset}"} & set(options.skip)
    ]
    tasks, absent = _present(tasks)
    for dataset, (count, why) in absent.items():
        print(f"data absent: {dataset} ({count} runs left out): {why}", file=sys.stderr)
    costs = Costs(read_lines(options.results))
    todo, copies = _missing(tasks, options)
    if options.dry_run:
        for task, _ in todo:
            print(f"{_name(task)}  about {_duration(costs(task))}")
        _announce(tasks, todo, copies, costs, options)
        return 0
    note_absent(options.results, absent, {task.dataset for task in tasks})
    with ExitStack() as stack:
        # Taking the locks and mending torn lines comes before hours of work, not after.
        files = {
            group: stack.enter_context(LineFile(options.results / f"{group}.jsonl"))
            for group in dict.fromkeys(task.group for task, _ in [*todo, *copies])
        }
        todo, copies = _missing(tasks, options)  # another runner may have been at it until now
        _announce(tasks, todo, copies, costs, options)
        failed = _work(todo, copies, files, options, costs)
    if options.quick and not failed:
        import tables

        tables.main(["--results", str(options.results), "--output", str(options.report)])
    return 1 if failed else 0


def _announce(tasks, todo, copies, costs, options) -> None:
    total = sum(costs(task) for task, _ in todo) / options.jobs
    same = len(copies) + sum(len(others) for _, others in todo)
    print(
        f"{len(tasks)} runs: {len(tasks) - len(todo) - same} done, {same} equal to others, "
        f"{len(todo)} to do, about {_duration(total)}",
        file=sys.stderr,
    )


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
    if options.results is None:
        options.results = HERE / ("results-quick" if options.quick else "results")
    if options.report is None:
        options.report = options.results / "report"
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
        own = ("group", "dataset", "setting", "seeds", "epochs", "train_size", "batch_size")
        for name in own:
            if getattr(options, name):
                parser.error(f"--quick has its own plan; leave out --{name.replace('_', '-')}")
        if set(options.method or ()) & set(METHODS):
            parser.error("--quick runs all methods; --method adds one of your own to it")
    methods = [*METHODS, *(f"{loss}+cleanse" for loss in CALIBRATED)]
    for name in options.method or ():
        _check_name(parser, "--method", name, methods)
    for skipped in options.skip:
        method, at, dataset = skipped.partition("@")
        _check_name(parser, "--skip", method, methods)
        if at:
            _check_name(parser, "--skip", dataset, DATASETS)


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
        first, _, last = part.partition("-")
        if not (first.isdigit() and (last or first).isdigit()):
            raise argparse.ArgumentTypeError(f"{part!r} is no seed; write 0-4 or 0,3,7")
        found = range(int(first), int(last or first) + 1)
        if not found:
            raise argparse.ArgumentTypeError(f"{part} is empty; write the smaller seed first")
        seeds += found
    return seeds


def _tasks(options) -> list[Task]:
    common = {
        "data_home": options.data_home,
        "download": options.download,
        "threads": options.threads,
    }
    if options.quick:
        tasks = quick_plan(**common)
        own = [method for method in options.method or () if method not in METHODS]
        if own:
            sets = ["iris", "wine", "cancer", "digits"]
            tasks += plan("real", datasets=sets, methods=own, seeds=(0, 1), **common)
        return tasks
    tasks = []
    for group in options.group or ["real"]:
        tasks += plan(
            group,
            datasets=options.dataset,
            methods=options.method,
            settings=options.setting,
            seeds=options.seeds,
            epochs=options.epochs,
            batch_sizes=options.batch_size,
            train_size=options.train_size,
            **common,
        )
    if not tasks:
        settings = {task.setting for group in options.group or ["real"] for task in plan(group)}
        raise SystemExit(
            "nothing to run: no method and setting of the group fits; its settings are "
            + ", ".join(sorted(settings))
        )
    return tasks


def _present(tasks: list[Task]) -> tuple[list[Task], dict[str, tuple[int, str]]]:
    """Leave out tasks whose data are not here."""
    from data import AbsentData, check_present

    absent: dict[str, str] = {}
    for dataset in dict.fromkeys(task.dataset for task in tasks):
        example = next(task for task in tasks if task.dataset == dataset)
        try:
            check_present(dataset, data_home=example.data_home, download=example.download)
        except AbsentData as error:
            absent[dataset] = str(error)
    counts = {d: (sum(t.dataset == d for t in tasks), why) for d, why in absent.items()}
    return [task for task in tasks if task.dataset not in absent], counts


def _missing(tasks: list[Task], options):
    """Sort out what is to be done: (task, tasks that want the same numbers), and mere copies."""
    done = read_lines(options.results, warn=False)
    if options.redo:
        code = code_hash()
        done = [line for line in done if line.get("code") == code]
    known = {key_of(line) for line in done}
    same = {line["run"]: line for line in done}
    todo: dict[str, list[Task]] = {}
    copies = []
    for task in tasks:
        key = key_of_task(task)
        if key in known:
            continue
        known.add(key)
        if key[-1] in same:
            copies.append((task, same[key[-1]]))
        else:
            todo.setdefault(key[-1], []).append(task)
    return [(first, others) for first, *others in todo.values()], copies


def _work(todo, copies, files, options, costs) -> int:
    """Run, and write each line as soon as it is there; return the number of failures."""
    others = {id(task): rest for task, rest in todo}
    failed = 0
    for task, line in copies:
        files[task.group].append(_copy(line, task))
    with _bar(todo, costs) as bar:
        tasks = [task for task, _ in todo]
        if options.backend == "dask":
            outcomes = run_dask(tasks, options.scheduler, options.jobs)
        elif options.jobs > 1 and len(tasks) > 1:
            outcomes = run_processes(tasks, options.jobs)
        else:
            outcomes = run_here(tasks)
        for finished, (task, line, error) in enumerate(outcomes, start=1):
            if line is None:
                failed += 1
                tqdm.write(f"FAILED {_name(task)}\n{error}", file=sys.stderr)
            else:
                files[task.group].append(line)
                for other in others.get(id(task), ()):
                    files[other.group].append(_copy(line, other))
            bar.set_description(f"{finished}/{len(todo)} {_name(task)}", refresh=False)
            bar.update(costs(task))
    if failed:
        print(
            f"{failed} runs failed; the same command tries them again, and them only",
            file=sys.stderr,
        )
    return failed


def _bar(todo, costs):
    shape = "{desc} {percentage:3.0f}%|{bar}| {elapsed} gone, {remaining} left"
    total = sum(costs(task) for task, _ in todo)
    return tqdm(total=total, bar_format=shape, disable=not todo, dynamic_ncols=True)


def _copy(line: dict, task: Task) -> dict:
    """Make a line for another cell from a run that is the same to the last parameter."""
    own = {
        "group": task.group,
        "dataset": task.dataset,
        "method": task.method,
        "setting": task.setting,
    }
    return line | own | {"copied_from": [line["group"], line["method"], line["setting"]]}


def _name(task: Task) -> str:
    return f"{task.group} {task.dataset} {task.method} {task.setting} seed {task.seed}"


class Costs:
    """Seconds that a task will about take: as last time, in proportion, or by a rule of thumb.

    Parameters
    ----------
    done : list of dict
        Lines of earlier runs.
    """

    def __init__(self, done):
        self.rows = {"lost": 1000, "msrcv2": 1600, "birdsong": 4500, "soccer_player": 15700}
        self.rows |= {"yahoo_news": 20700, "cifar10": 50000, "iris": 135, "wine": 160}
        self.rows |= {"cancer": 270, "digits": 360, "digits_images": 1500}
        self.rows |= {x["dataset"]: x["n_train"] for x in done if not x["train_size"]}
        self.against_thumb = {
            (line["dataset"], line["method"], line["setting"]): line["seconds"]
            / _rule_of_thumb(line["method"], line["n_train"], line["params"])
            for line in done
            if line.get("seconds")
        }

    def __call__(self, task: Task) -> float:
        n = min(self.rows.get(task.dataset, 60000), task.train_size or 10**9)
        ratio = self.against_thumb.get((task.dataset, task.method, task.setting), 1.0)
        return ratio * _rule_of_thumb(task.method, n, describe_params(build(task)))


def _rule_of_thumb(method: str, n: int, params: dict) -> float:
    if method == "dpcls":
        return 1 + 2.5e-8 * n**3 if n < 10000 else 1  # more is refused for want of memory
    if method == "pl-cgr":
        return 0.2 + 4e-10 * n**3
    rows = _number(params, "max_epochs", 30) * n
    slower = 2.0 if "cleanse" in method else 1.0
    return 0.2 + slower * rows * (0.0015 / _number(params, "batch_size", 16) + 4e-5)


def _number(params: dict, name: str, otherwise: int) -> int:
    value = params.get(name, otherwise)
    return value if isinstance(value, int) else otherwise  # such as "auto"


def _duration(seconds: float) -> str:
    minutes, hours = seconds / 60, seconds / 3600
    return (
        f"{seconds:.0f} s"
        if minutes < 2
        else f"{minutes:.0f} min"
        if hours < 2
        else f"{hours:.1f} h"
    )


def _overview() -> str:
    rows = ["groups"]
    rows += [f"  {name:<18} {about}" for name, about in GROUPS.items()]
    rows.append("methods (or your own: package.Class, module:factory)")
    rows += [f"  {name:<18} {estimator} {params}" for name, (estimator, params) in METHODS.items()]
    rows.append("data sets (or your own: module:function that returns X, S, y)")
    rows.append(f"  {', '.join(DATASETS)}")
    return "\n".join(rows)


if __name__ == "__main__":
    sys.exit(main())
