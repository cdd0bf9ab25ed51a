"""The records of `catalogue.toml`, and how a record is found by name."""

import difflib
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

Record = dict[str, Any]

PALM_TERMS = (
    "Pre-processed by the PALM lab (Min-Ling Zhang, Southeast University, "
    "palm.seu.edu.cn/zhangml, Resources). Courtesy of and proprietary to the authors of the cited "
    "paper: use at your own risk and for academic purposes only; do not redistribute."
)


@cache
def read_catalogue() -> dict[str, dict[str, Record]]:
    """Return the records by kind ("pll" or "images") and key."""
    path = files(__package__).joinpath("catalogue.toml")
    return tomllib.loads(path.read_text(encoding="utf-8"))


def plain(name: str) -> str:
    """Return the lower-case letters and digits of a name, so that "Yahoo! News" is "yahoo_news"."""
    return "".join(c for c in name.casefold() if c.isalnum())


def names_of(key: str, record: Mapping[str, Any]) -> set[str]:
    """Return every plain name of a record, by which its file or folder is found too."""
    return {plain(name) for name in (key, record["title"], *record["aliases"])}


def find_record(name: Any, kind: str) -> tuple[str, Record]:
    """Find a record by a forgiving name, or raise ValueError that suggests the right one."""
    records = read_catalogue()[kind]
    known = {alias: key for key, record in records.items() for alias in names_of(key, record)}
    wanted = plain(name) if isinstance(name, str) else ""
    if wanted in known:
        return known[wanted], records[known[wanted]]
    close = difflib.get_close_matches(wanted, known, n=1, cutoff=0.5)
    hint = f" Did you mean {known[close[0]]!r}?" if close else ""
    raise ValueError(f"`name` must be one of {', '.join(map(repr, records))}, got {name!r}.{hint}")
