"""Result lines: appended one by one, safe against kills, torn lines and full disks.

A results folder holds ``*.jsonl`` files, one per group of experiments. A line is one finished run.
Only one process writes to a file (it holds a lock), each line is one ``write`` to a file opened for
appending, and it is on the disk before the runner goes on.
"""

from __future__ import annotations

import errno
import json
import math
import os
import sys
import time
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows has no advisory locks of this kind: run one runner at a time there
    fcntl = None

#: What identifies a line.
KEY = ("group", "dataset", "method", "setting", "seed", "run")

#: Seconds to wait for space on a full disk before each new try; then the runner gives up.
WAITS = (10, 20, 30) + (60,) * 59

#: What differs from machine to machine and from time to time, the numbers being the same.
TIMING = ("seconds", "peak_memory_mb", "finished", "copied_from")

#: The form of a line: the types of what every line has, and names of numbers it may have.
_FORM = dict.fromkeys(("group", "dataset", "method", "setting", "run", "finished"), str)
_FORM |= {"seed": int, "params": dict, "versions": dict}
_FORM |= dict.fromkeys(("n_train", "n_test", "n_features", "n_classes"), int)
_FORM |= dict.fromkeys(("mean_candidates", "clean_rate"), (int, float))
_NUMBERS = ("accuracy_mean", "accuracy_sd", "accuracy_final", "transductive", "covering_rate")
_NUMBERS += ("approximated_accuracy", "seconds", "peak_memory_mb", "epochs", "train_size")


def key_of(line: dict) -> tuple:
    """Return what identifies a line."""
    return tuple(line[name] for name in KEY)


def read_lines(folder, *, warn=True) -> list[dict]:
    """Read all finished lines of a folder; where two have the same key, the last one counts.

    A torn last line is passed over (the runner removes it when it next writes there), as is any
    line that is not JSON or not of the form of a result, with a message that names it.
    """
    lines: dict[tuple, dict] = {}
    for path in sorted(Path(folder).glob("*.jsonl")):
        for number, raw in enumerate(path.read_bytes().split(b"\n"), start=1):
            if not raw.strip():
                continue
            line = _parse(raw)
            if line is not None:
                lines[key_of(line)] = line
            elif warn:
                print(f"{path}:{number}: not a finished line; passed over", file=sys.stderr)
    return list(lines.values())


def _parse(raw: bytes) -> dict | None:
    """Return a line, or None if it is torn or of another form."""
    try:
        line = json.loads(raw)
        whole = all(_is_a(line[name], kind) for name, kind in _FORM.items())
        numbers = (line.get(name) for name in _NUMBERS)
        whole &= all(value is None or _is_a(value, (int, float)) for value in numbers)
        whole &= isinstance(line["versions"].get("sklearn_cleanse"), str)
        whole &= line.get("accuracy_mean") is not None or "refused" in line
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return line if whole else None


def _is_a(value, kind) -> bool:
    finite = not isinstance(value, float) or math.isfinite(value)
    return isinstance(value, kind) and not isinstance(value, bool) and finite


def note_absent(folder, absent, present) -> None:
    """Keep which data sets were not there, for the tables to say so."""
    path = Path(folder) / "absent.json"
    names = (set(read_absent(folder)) | set(absent)) - set(present)
    if names != set(read_absent(folder)):
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}.part")  # another runner has another
        part.write_text(json.dumps(sorted(names)) + "\n")
        part.replace(path)  # at once: a kill leaves the old file or the new one


def read_absent(folder) -> list[str]:
    """Return the data sets that were not there when they were to be run."""
    try:
        names = json.loads((Path(folder) / "absent.json").read_bytes())
    except (OSError, ValueError):
        return []
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


class LineFile:
    """A results file that this process alone may append to.

    Parameters
    ----------
    path : path-like
        The file; it and its folder are made where missing.
    """

    def __init__(self, path):
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        if fcntl is not None:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(self._file)
                raise SystemExit(
                    f"{self.path} is being written by another run; wait for it, or pass another "
                    "--results folder"
                ) from None
        self._repair()

    def _repair(self) -> None:
        """End the file after its last whole line: a kill or a full disk may have torn one."""
        raw = self.path.read_bytes()
        if not raw or raw.endswith(b"\n"):
            return
        whole = raw.rfind(b"\n") + 1
        if _parse(raw[whole:]) is None:
            os.ftruncate(self._file, whole)
        else:  # all there but its end
            self._write(b"\n")

    def append(self, line: dict) -> None:
        """Write one line, and return when the disk has it."""
        # NaN is no JSON: whoever reads these lines with another tool would stumble
        line = json.loads(json.dumps(line), parse_constant=lambda _: None)
        self._write(json.dumps(line).encode() + b"\n")

    def _write(self, data: bytes) -> None:
        """Write; if the disk is full, wait for space: the line in hand may be hours of work."""
        for wait in (*WAITS, None):
            try:
                return self._write_once(data)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                    raise
                if wait is None:
                    raise SystemExit(
                        f"no space left for {self.path}: free some and give the same command "
                        "again. All lines written so far are safe; the runs under way are lost"
                    ) from error
                print(f"no space left for {self.path}: trying again in {wait} s", file=sys.stderr)
                time.sleep(wait)

    def _write_once(self, data: bytes) -> None:
        size = os.fstat(self._file).st_size
        try:
            if os.write(self._file, data) != len(data):
                raise OSError(errno.ENOSPC, "short write")
            os.fsync(self._file)
        except OSError:
            os.ftruncate(self._file, size)  # makes the file smaller: works on a full disk, too
            raise

    def close(self) -> None:
        os.close(self._file)

    def __enter__(self) -> LineFile:
        return self

    def __exit__(self, *_) -> None:
        self.close()
