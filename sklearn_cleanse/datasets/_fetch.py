"""Where files are looked for, how they are downloaded, and how they are verified."""

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ._catalogue import Record, plain

_GITHUB = "https://raw.githubusercontent.com"
_TIMEOUT = 30  # seconds without a byte
_MAX_BYTES = 2**28  # the largest file of the catalogue has about 40 MB
_STALE = 600  # seconds without a byte after which no download can be alive
_PREFIX = ".download-"


def data_folder(data_home: str | os.PathLike[str] | None) -> Path:
    """Resolve ``data_home``: the argument, SKLEARN_CLEANSE_DATA, then scikit-learn's."""
    # scikit-learn's own get_data_home would create the folder, which a search must not.
    names = ("SKLEARN_CLEANSE_DATA", "SCIKIT_LEARN_DATA")
    chosen = data_home or next(filter(None, map(os.environ.get, names)), "~/scikit_learn_data")
    return Path(chosen).expanduser()


def find_file(folders: Iterable[Path], names: set[str]) -> Path | None:
    """Find the first file whose plain name is among ``names``, whatever its case and spaces."""
    for folder in folders:
        with suppress(OSError):  # the folder does not exist, or may not be read
            for path in sorted(folder.iterdir()):
                if plain(path.name) in names and path.is_file():
                    return path
    return None


class _BoundedFile:
    """A file to write to that takes so many bytes and not more."""

    def __init__(self, file: Any, max_bytes: int) -> None:
        self.file, self.left, self.flush = file, max_bytes, file.flush

    def write(self, chunk: bytes) -> None:
        self.left -= len(chunk)
        if self.left < 0:
            raise ValueError(f"the server sends more than {_MAX_BYTES} bytes")
        self.file.write(chunk)


def download(record: Record, target: Path) -> Path:
    """Download a file to ``target``, verified; the server may be set by SKLEARN_CLEANSE_MIRROR.

    The file is written into a temporary folder beside its place, verified there, and renamed,
    which is atomic: a later call never finds half a file.
    """
    remedy = f"Put the file {target.name!r} into {str(target.parent)!r}"
    try:
        from pooch import HTTPDownloader
    except ImportError as error:
        install = 'Downloads need pooch: pip install "sklearn-cleanse[data]".'
        raise ImportError(f"{install} {remedy} to do without.") from error
    mirror = os.environ.get("SKLEARN_CLEANSE_MIRROR", _GITHUB).rstrip("/")
    fetch = HTTPDownloader(timeout=_TIMEOUT, chunk_size=2**16)
    failures = []
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=_PREFIX) as folder:
            part = Path(folder, target.name)
            for source in record["urls"]:
                url = quote(source.replace(_GITHUB, mirror), safe=":/")
                try:
                    with open(part, "wb") as file:
                        fetch(url, _BoundedFile(file, _MAX_BYTES), None)
                    verify(part, record)
                except (OSError, ValueError) as error:  # requests' errors are OSErrors
                    failures.append(f"{url}: {error}")
                else:
                    os.replace(part, target)
                    return target
    except OSError as error:
        raise OSError(
            f"Cannot write to {str(target.parent)!r} ({error}). Pass another `data_home`, or set "
            "SKLEARN_CLEANSE_DATA to a folder that may be written to."
        ) from error
    raise OSError(f"{record['title']} could not be downloaded. {'; '.join(failures)}. {remedy}.")


def clear_stale(folder: Path) -> None:
    """Remove the temporary folders of downloads that were killed."""
    for part in folder.glob(_PREFIX + "*"):
        with suppress(OSError):  # another process has just removed it
            newest = max(path.stat().st_mtime for path in (part, *part.iterdir()))
            if time.time() - newest > _STALE:
                shutil.rmtree(part, ignore_errors=True)


def verify(path: Path, record: Record) -> None:
    """Raise ValueError if a file does not have the digest of the record."""
    kind, state = "sha256", hashlib.sha256()
    if kind not in record:  # a git blob id is the SHA-1 of a header and the content
        head = b"blob %d\0" % path.stat().st_size
        kind, state = "git_blob", hashlib.sha1(head, usedforsecurity=False)
    with open(path, "rb") as file:
        found = hashlib.file_digest(file, lambda: state).hexdigest()
    if found != record[kind]:
        raise ValueError(f"its {kind} must be {record[kind]}, got {found}")
