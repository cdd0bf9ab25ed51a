"""Run the experiments of the results page: each run gives one line in a file of JSON lines.

    python examples/paper/run.py --quick                  # three minutes at most, no downloads
    python examples/paper/run.py --plan                   # how many runs there are and how long
    python examples/paper/run.py --group headline --jobs 2
    python examples/paper/run.py --whole --jobs 2         # all of it, most important first
    python examples/paper/run.py --group headline --method mine:MyClassifier --dataset lost

Stop it at any time and give the same command again: finished lines are kept, and only what is
missing is run. ``tables.py`` turns the lines into tables.
"""

import argparse
import difflib
import os
import re
import sys
import time
from collections import defaultdict
from pathlib import Path

import experiment
import numpy as np
from data import DATASETS
from joblib import Parallel, delayed, parallel_config
from lines import KEY, append, read_lines
from plan import GROUPS, METHODS, QUICK_METHODS, WHOLE, Task, code_hash, estimate, key_of, plan

HERE = Path(__file__).resolve().parent


def main(arguments=None) -> int:
    """Do what the command line asks for; return the exit code."""
    options = parse(arguments)
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # where a user's own method is likely to be
    todo, _, report = sort_out(options)
    if options.plan:
        print(report)
        return 0
    print(report.splitlines()[-1], file=sys.stderr)
    try:
        failed = _work(todo, options)
    except KeyboardInterrupt:
        print("\nstopped; the same command goes on from here", file=sys.stderr)
        return 130
    for line, task in sort_out(options)[1]:
        own = {name: getattr(task, name) for name in KEY} | {"copied": True}
        append(_path(task, options), line | own | {"command": experiment.command_of(task)})
    if options.quick:
        _end_quick(options)
    return 1 if failed else 0


def _end_quick(options) -> None:
    """Print the table of the quick runs, and how long all others would take at their speed."""
    import tables

    lines = read_lines(options.results)
    print(tables.quick_text(lines))
    seconds = {tuple(line[name] for name in KEY): line["seconds"] for line in lines}
    quick = {task[:5]: estimate(task, {}) for task in plan("quick")}
    slower = sum(seconds.get(cell, quick[cell]) for cell in quick) / sum(quick.values())
    tasks = [task for group in WHOLE for task in plan(group)]
    hours = slower * sum(estimate(task, {}) for task in tasks) / 3600
    print(f"The whole (--whole): {len(tasks)} runs, about {hours:.0f} core-hours at this speed.")


def parse(arguments=None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="digits, two sources, four methods, one split")
    add("--whole", action="store_true", help=f"the groups {', '.join(WHOLE)}, in this order")
    add("--group", action="append", choices=GROUPS, help="what to run; may be repeated")
    add("--dataset", action="append", help="only this one, or your own: module:name")
    about = "only this one, or your own: module:name; with --quick it joins the other methods"
    add("--method", action="append", help=about)
    add("--seeds", type=read_seeds, help="splits or initializations, such as 160-164 or 0,3")
    add("--epochs", type=int, help="epochs of each network, for a trial run; needs --results")
    add("--jobs", type=int, default=1, help="runs at a time (default: 1)")
    add("--threads", type=int, default=1, help="threads of each run (default: 1)")
    add("--data-home", help="folder of the data (default: SKLEARN_CLEANSE_DATA)")
    add("--download", action="store_true", help="download missing data")
    add("--results", type=Path, help="folder of the result lines (default: results beside this)")
    add("--redo", action="store_true", help="repeat runs of other code of the package")
    add("--plan", action="store_true", help="print how many runs there are, how long they take")
    options = parser.parse_args(arguments)
    if options.epochs and not options.results:
        parser.error("--epochs needs --results, to keep such lines apart")
    if sum(map(bool, (options.quick, options.whole, options.group))) > 1:
        parser.error("pass one of --quick, --whole and --group")
    own = False
    for option, known in (("method", METHODS), ("dataset", DATASETS)):
        for name in getattr(options, option) or ():
            if name.partition(":")[0] not in known and not {".", ":"} & set(name):
                near = difflib.get_close_matches(name, known, 1) or [", ".join(known)]
                parser.error(f"--{option} must be a known name, got {name!r}; try {near[0]}")
            own |= name.partition(":")[0] not in known
    options.plan |= not (options.quick or options.group or options.whole)
    options.group = ["quick"] if options.quick else options.group or WHOLE
    if options.quick and options.method:  # own methods beside ours
        options.method = [*QUICK_METHODS, *options.method]
    folder = "results-quick" if options.quick else "results-own" if own else "results"
    options.results = options.results or HERE / folder
    return options


def read_seeds(text: str) -> list[int]:
    """Read seeds such as ``160-164`` or ``0,3``."""
    seeds: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        found = range(int(match[1]), int(match[2] or match[1]) + 1) if match else ()
        if not found:
            raise argparse.ArgumentTypeError(f"seeds must be such as 0-4 or 0,3, got {part!r}")
        seeds += found
    return seeds


def sort_out(options) -> tuple[list[Task], list[tuple[dict, Task]], str]:
    """Return the tasks to run, lines to copy for equal tasks of other cells, and the plan."""
    done = [line for line in read_lines(options.results) if "before" not in line]
    seconds = defaultdict(list)
    for line in done:
        seconds[tuple(line[name] for name in KEY[:4])].append(line["seconds"])
    measured = {cell: float(np.median(found)) for cell, found in seconds.items()}
    if options.redo:
        done = [line for line in done if line["code"] == code_hash()]
    known = {(*(line[name] for name in KEY), line["run"]): line["code"] for line in done}
    same = {line["run"]: line for line in done}
    rows = [f"{'group':<18}{'runs':>6}{'done':>6}{'of other code':>15}{'to do':>7}{'hours':>7}"]
    todo, copies, total, begun = [], [], 0.0, set()
    only = {"datasets": options.dataset, "methods": options.method, "seeds": options.seeds}
    for group in options.group:
        tasks = {key_of(task): task for task in plan(group, **only, epochs=options.epochs)}
        missing = {key: task for key, task in tasks.items() if key not in known}
        first = {key[-1]: task for key, task in reversed(missing.items()) if key[-1] not in same}
        new = [task for run, task in reversed(first.items()) if run not in begun]
        begun |= first.keys()
        copies += [(same[key[-1]], task) for key, task in missing.items() if key[-1] in same]
        hours = sum(estimate(task, measured) for task in new) / 3600
        old = sum(known.get(key, code_hash()) != code_hash() for key in tasks)
        numbers = (
            f"{len(tasks):>6}{len(tasks) - len(missing):>6}{old:>15}{len(new):>7}{hours:>7.1f}"
        )
        rows.append(f"{group:<18}{numbers}   {GROUPS[group].about}")
        todo += new
        total += hours
    rows.append(
        f"{len(todo)} runs to do, about {_span(total)} on one core, {_span(total / options.jobs)} "
        f"with {options.jobs} at a time (--jobs)."
    )
    return todo, copies, "\n".join(rows)


def _span(hours: float) -> str:
    return f"{hours:.1f} hours" if hours >= 1 else f"{60 * hours:.0f} min"


def _path(task: Task, options) -> Path:
    return options.results / f"{task.group}.jsonl"


def _work(todo, options) -> int:
    """Run, and write each line as soon as it is there; return the number of failures."""
    failed, written, absent, began = 0, 0, set(), time.perf_counter()
    shared = {"threads": options.threads, "data_home": options.data_home}
    shared |= {"download": options.download, "parent": os.getpid()}
    limits = {} if options.jobs == 1 else {"inner_max_num_threads": options.threads}
    with parallel_config("loky", **limits):
        outcomes = Parallel(
            options.jobs, return_as="generator_unordered", batch_size=1, pre_dispatch="n_jobs"
        )(delayed(experiment.attempt)(task, **shared) for task in todo)
        for number, (task, line, error) in enumerate(outcomes, start=1):
            name = " ".join(str(part) for part in task[:5] if part != "")
            base = task.dataset.partition(":")[0]
            if line is not None:
                append(_path(task, options), line)
                written += 1
                left = (time.perf_counter() - began) / number * (len(todo) - number) / 3600
                note = f"{line['accuracy']:.1%} in {line['seconds']:.1f} s; {_span(left)} left"
            elif error.startswith("AbsentData"):
                note = "data absent" if base in absent else f"data absent: {error}"
                absent.add(base)
            else:
                failed, note = failed + 1, f"FAILED {error}"
            print(f"[{number}/{len(todo)}] {name}: {note}", file=sys.stderr, flush=True)
    if absent:
        remedy = "--data-home or SKLEARN_CLEANSE_DATA name the folder, --download fetches"
        print(f"data absent: {', '.join(sorted(absent))}; {remedy}", file=sys.stderr)
    if failed:
        print(f"{failed} runs failed; the same command tries them again", file=sys.stderr)
    return failed or bool(absent and not written)


if __name__ == "__main__":
    sys.exit(main())
