"""Result lines: one finished run each, appended as JSON, safe against kills and torn lines."""

import json
import math
import os
import sys
from contextlib import suppress
from pathlib import Path

import pandas as pd

KEY = ["group", "dataset", "method", "setting", "seed"]
_TEXTS = ("group", "dataset", "method", "setting", "run")


def append(path, line: dict) -> None:
    """Append a line to a file and return when it is on the disk."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # NaN is not JSON: other readers of these lines would fail.
    line = json.loads(json.dumps(line), parse_constant=lambda _: None)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        with suppress(ImportError):  # not on Windows: run one runner at a time there
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        # A kill or a full disk may have torn the last line: end it, so that it costs itself only.
        size = os.fstat(file).st_size
        is_torn = size > 0 and os.pread(file, 1, size - 1) != b"\n"
        text = "\n" * is_torn + json.dumps(line, ensure_ascii=False) + "\n"
        if os.write(file, text.encode()) < len(text.encode()):
            raise OSError(f"the disk is full: {path}")
        os.fsync(file)
    finally:
        os.close(file)


def read_lines(folder) -> list[dict]:
    """Read all finished lines of a folder; of lines with the same key and run the last counts."""
    lines: dict[tuple, dict] = {}
    for path in sorted(Path(folder).glob("*.jsonl")):
        for number, raw in enumerate(path.read_bytes().split(b"\n"), start=1):
            line = _parse(raw)
            if line is not None:
                lines[(*(line[name] for name in KEY), line["run"])] = line
            elif raw.strip():
                print(f"{path}:{number}: not a finished line, left out", file=sys.stderr)
    return list(lines.values())


def _parse(raw: bytes) -> dict | None:
    """Return a line, or None if it is torn or of another form."""
    try:
        line = json.loads(raw)
        numbers = line["accuracy"], line["seconds"], line["n_train"]
        is_whole = all(isinstance(line[name], str) for name in _TEXTS) and type(line["seed"]) is int
        is_whole &= all(type(x) in (int, float) and math.isfinite(x) for x in numbers)
        is_whole &= isinstance(line["params"], dict)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return line if is_whole else None


def frame_of(lines) -> pd.DataFrame:
    """Return lines as a frame, one row per key; of several sets of parameters the newest counts."""
    names = [*KEY, "accuracy", "accuracy_last", "seconds", "peak_memory_mb", "ece", "n_train"]
    names += ["epochs", "code", "finished", "before"]
    frame = pd.DataFrame([{name: line.get(name) for name in names} for line in lines])
    frame = frame.reindex(columns=names).astype(dict.fromkeys(KEY[:4], str))
    frame = frame.sort_values(["finished", *KEY])
    frame = frame.drop_duplicates(KEY, keep="last").sort_values(KEY, ignore_index=True)
    return frame.assign(before=frame.before.notna())
