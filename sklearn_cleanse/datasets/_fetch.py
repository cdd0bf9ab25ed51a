"""Where files are looked for, how they are downloaded, and how they are verified.

A download goes into a temporary folder beside its place, is verified there, and is then renamed,
which is atomic, so that a later call never finds half a file. The folder of a download that was
killed is removed by a later call.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from urllib.parse import quote

from ._catalogue import PLLSet, plain

__all__ = ["clear_stale", "data_folder", "digest_of", "download", "find_file", "verify"]

_GITHUB = "https://raw.githubusercontent.com"
_TIMEOUT = 30  # seconds without a byte
_STALE = 600  # seconds without a byte after which no download can be alive
_PREFIX = ".download-"


def data_folder(data_home: str | os.PathLike | None) -> Path:
    """Resolve ``data_home``: the argument, SKLEARN_CLEANSE_DATA, then scikit-learn's."""
    # scikit-learn's own get_data_home would create the folder, which looking something up must not
    chosen = (
        data_home
        or os.environ.get("SKLEARN_CLEANSE_DATA")
        or os.environ.get("SCIKIT_LEARN_DATA")
        or "~/scikit_learn_data"
    )
    return Path(chosen).expanduser()


def find_file(folders: Iterable[Path], names: set[str], suffixes: Iterable[str]) -> Path | None:
    """Find the first file whose plain name is among ``names``, whatever its case and spaces."""
    wanted = {name + plain(suffix) for name in names for suffix in suffixes}
    for folder in folders:
        try:
            for path in sorted(folder.iterdir()):
                if plain(path.name) in wanted and path.is_file():
                    return path
        except OSError:  # no such folder, or none that may be read
            continue
    return None


def digest_of(path: Path, kind: str) -> str:
    """Compute a file's ``"sha256:…"`` or ``"git:…"`` (git blob id, a SHA-1) digest."""
    if kind == "git":
        # a git blob id guards against damage; SHA-1 is what git and thus GitHub publish
        state = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    else:
        state = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            state.update(block)
    return f"{kind}:{state.hexdigest()}"


def download(record: PLLSet, target: Path, check: Callable[[Path], object]) -> Path:
    """Download a data set to ``target``, verified; try its sources in order.

    ``check`` reads the file and raises ValueError if it is not the data set. The server is
    SKLEARN_CLEANSE_MIRROR, by default GitHub.
    """
    try:
        from pooch import HTTPDownloader
    except ImportError as error:
        raise ImportError(
            f'downloading needs pooch: pip install "sklearn-cleanse[data]"; or {_by_hand(target)}'
        ) from error
    base = os.environ.get("SKLEARN_CLEANSE_MIRROR", _GITHUB).rstrip("/")
    failures = []
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=_PREFIX) as folder:
            part = Path(folder, target.name)
            for source in record.sources:
                url = base + "/" + quote("/".join(source))
                try:
                    HTTPDownloader(timeout=_TIMEOUT)(url, str(part), None)
                    verify(part, record)
                    check(part)
                except (OSError, ValueError) as error:  # requests' errors are OSErrors
                    failures.append(f"{url}: {error}")
                    continue
                os.replace(part, target)
                return target
    except OSError as error:
        raise OSError(
            f"cannot write to {str(target.parent)!r} ({error}); pass another data_home, or set "
            "SKLEARN_CLEANSE_DATA to a folder that may be written to"
        ) from error
    raise OSError(
        f"could not download {record.title}: " + "; ".join(failures) + f". {_by_hand(target)}"
    )


def clear_stale(folder: Path) -> None:
    """Remove the temporary folders of downloads that were killed."""
    for part in folder.glob(_PREFIX + "*"):
        try:
            newest = max(path.stat().st_mtime for path in (part, *part.iterdir()))
            if time.time() - newest > _STALE:
                shutil.rmtree(part, ignore_errors=True)
        except OSError:  # another process has just removed it
            continue


def verify(path: Path, record: PLLSet) -> None:
    """Raise ValueError if a file is not the one whose digest the record holds."""
    if record.digest is None:
        return
    found = digest_of(path, record.digest.partition(":")[0])
    if found != record.digest:
        raise ValueError(
            f"the file is not the expected one ({path.stat().st_size} bytes, {found} instead of "
            f"{record.digest})"
        )


def _by_hand(target: Path) -> str:
    return f"To do without, put the file {target.name!r} into {str(target.parent)!r}"
