"""Damaged files and odd candidates, for longer than the suite: ``python -m tests.fuzz``.

Each trial may return or raise ValueError. Whatever else happens (another error, a crash, more than
ten seconds, more than a gigabyte) is reported, and its input is saved in ``tests/corpus`` as a text
of hexadecimal digits, which the suite replays from then on.
"""

import argparse
import ast
import json
import os
import pickle
import resource
import signal
import struct
import sys
import tempfile
import time
import traceback
import warnings
import zlib
from functools import cache
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from sklearn_cleanse import load
from sklearn_cleanse.candidates import check_candidates
from sklearn_cleanse.datasets import read_mat
from sklearn_cleanse.datasets._catalogue import IMAGE_SETS
from sklearn_cleanse.datasets._images import _read_batch, _read_idx

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
CORPUS = HERE / "corpus"
SECONDS, MEGABYTES = 10, 1024


def mutate(raw, rng):
    """Flip bits, overwrite a word, cut, or repeat a stretch."""
    raw = bytearray(raw or b"\0")
    how = rng.integers(5)
    if how == 0:
        for _ in range(rng.integers(1, 9)):
            raw[rng.integers(len(raw))] ^= 1 << rng.integers(8)
    elif how == 1:
        start = rng.integers(len(raw))
        raw[start : start + 8] = rng.bytes(8)
    elif how == 2:
        del raw[rng.integers(len(raw)) :]
    elif how == 3:  # sizes and dimensions are words of four bytes: make one extreme
        start = 4 * rng.integers(-(-len(raw) // 4))
        extreme = (0, 1, 2**16, 2**31 - 1, 2**31, 2**32 - 1)
        raw[start : start + 4] = int(rng.choice(extreme)).to_bytes(4, "little")
    else:
        start, size = rng.integers(len(raw)), rng.integers(1, 200)
        raw[start:start] = raw[start : start + size]
    return bytes(raw)


@cache
def mat_files(level):
    """Return a sound file of each layout, with dense and with sparse labels."""
    from test_datasets_mat import FORMS, D, M, N, convert, layouts, save

    rng = np.random.default_rng(0)
    Y = np.eye(M)[rng.integers(0, M, N)]
    variables = layouts(rng.normal(size=(N, D)), np.maximum(Y, rng.random((N, M)) < 0.3), Y)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.mat")
        return [
            save(path, convert(v, FORMS[form]), level).read_bytes()
            for v in variables.values()
            for form in ("float", "sparse labels", "logical labels")
        ]


def mat_file(level):
    def make(rng):
        files = mat_files(level)
        raw = mutate(files[rng.integers(len(files))], rng)
        return mutate(raw, rng) if rng.random() < 0.3 else raw

    return make


def packed_mat_file(rng):
    """Damage a variable before it is compressed, so that its checksum is right."""
    files = mat_files("5")
    raw = files[rng.integers(len(files))]
    body = zlib.compress(mutate(raw[128:], rng))
    return raw[:128] + struct.pack("<II", 15, len(body)) + body


def idx_file(rng):
    return mutate(b"\0\0\x08\x03" + np.array([4, 28, 28], ">u4").tobytes() + bytes(4 * 784), rng)


def batch_file(rng):
    batch = {b"data": np.ones((2, 3072), np.uint8), b"labels": [3, 4]}
    return mutate(pickle.dumps(batch, protocol=2), rng)


@cache
def models():
    """Return a saved model of each kind, as bytes."""
    from test_saving import MODELS, make

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model")
        return [make(name).save(path) and path.read_bytes() for name in MODELS]


def model_file(rng):
    files = models()
    return mutate(files[rng.integers(len(files))], rng)


ODD = [None, True, 0, -1, 2**70, 0.5, 1e300, float("nan"), "", "mlp", "meta", [], [[]], {}]
ODD += [{"tuple": [1]}, {"dict": {}}, {"import": "os.system"}, {"array": [1, 1], "dtype": "object"}]
ODD += [
    {"array": ["a", "b", "a"], "dtype": "str"},
    {"array": [[1]], "dtype": "float64"},
    [None] * 9,
]


def forged_model_file(rng):
    """Change the header or an array of a model, and write lengths and places that fit again."""
    header, tensors, body = take_apart(models()[rng.integers(len(models()))])
    odd = ODD[rng.integers(len(ODD))]
    how, name = rng.integers(7), str(rng.choice(list(tensors)))
    if how < 3:
        part = (header, header["params"], header["values"])[how]
        part[str(rng.choice(list(part)))] = odd
    elif how == 3:
        del tensors[name]
    elif how == 4:
        tensors[name + str(rng.choice(["x", ".", ""])) + "y"] = tensors[name]
        body[name + "y"] = body[name + ".y"] = body[name + "xy"] = body[name]
    elif how == 5:
        shape, rest = tensors[name]["shape"], rng.integers(5)
        shapes = ([*shape, 1], shape[::-1], [1, *shape], [int(np.prod(shape))], [0, 2**40])
        tensors[name]["shape"] = shapes[rest]
        body[name] = body[name] if rest < 4 else b""
    else:
        numbers, start = bytearray(body[name]), rng.integers(max(1, len(body[name])))
        changed = len(numbers[start : start + 8])
        numbers[start : start + changed] = bytes([rng.choice([0, 127, 255])]) * changed
        kinds = ("BOOL", "U8", "I8", "I16", "F32", "I32", "F64", "I64", "F16", "BF16")
        if rng.random() < 0.3:
            tensors[name]["dtype"] = str(rng.choice(kinds))
        body[name] = bytes(numbers)
    return put_together(header, tensors, body)


def take_apart(raw):
    """Return the JSON of a model file, its tensors' descriptions, and their bytes."""
    size = int.from_bytes(raw[:8], "little")
    tensors = json.loads(raw[8 : 8 + size])
    header = json.loads(tensors.pop("__metadata__")["sklearn_cleanse"])
    body = {name: raw[8 + size :][slice(*t["data_offsets"])] for name, t in tensors.items()}
    return header, tensors, body


def put_together(header, tensors, body):
    """Return the bytes of a model file of the given parts."""
    parts, end = {"__metadata__": {"sklearn_cleanse": json.dumps(header)}}, 0
    for name, tensor in tensors.items():
        parts[name] = {**tensor, "data_offsets": [end, end + len(body[name])]}
        end += len(body[name])
    text = json.dumps(parts).encode()
    return len(text).to_bytes(8, "little") + text + b"".join(body[name] for name in tensors)


def check_model(path):
    """Load a model and use it; what it says must be of the right form."""
    model = load(path)
    X, S = np.zeros((3, model.n_features_in_)), np.ones((3, len(model.classes_)), dtype=int)
    assert model.predict_proba(X).shape == S.shape
    assert set(model.predict(X).tolist()) <= set(model.classes_.tolist())
    model.disambiguate(X, S)
    if hasattr(model, "explain"):
        model.explain(X, S)


def candidates_text(rng):
    """Write candidates as Python text: a kind, then its literal."""
    odd = [0, 1, -1, 2, 1.0, 0.5, "a", "b", "", None, True, 2**63, "nan", (), (1,), "a\0", 1e300]
    pick = lambda: odd[rng.integers(len(odd))] if rng.random() < 0.3 else int(rng.integers(2))  # noqa: E731
    n, m = rng.integers(0, 6, 2)
    kind = ("list", "array", "object", "sets", "labels", "csr")[rng.integers(6)]
    if kind == "labels":
        value = [pick() for _ in range(n)]
    elif kind == "csr":
        nnz = rng.integers(0, 6)
        low, high = (-1, m + 2) if rng.random() < 0.5 else (0, max(m, 1))
        indptr = np.sort(rng.integers(0, nnz + 1, n + 1))
        indptr[0], indptr[-1] = 0, nnz
        value = ([1] * int(nnz), rng.integers(low, high, nnz).tolist(), indptr.tolist())
        value = (*value, (int(n), int(m)))
    else:
        ragged = rng.random() < 0.2
        widths = [rng.integers(0, 6) if ragged or kind == "sets" else m for _ in range(n)]
        value = [[pick() for _ in range(width)] for width in widths]
    return f"{kind} {value!r}".encode()


def check_text(raw):
    kind, _, text = raw.decode().partition(" ")
    value = ast.literal_eval(text)
    if kind == "csr":
        data, indices, indptr, shape = value
        y = sp.csr_array(shape, dtype=np.int64)
        y.data, y.indices, y.indptr = (np.array(part, np.int32) for part in (data, indices, indptr))
    elif kind in ("array", "object"):
        y = np.array(value, dtype=object if kind == "object" else None)
    else:
        y = [set(row) for row in value] if kind == "sets" else value
    classes, candidates = check_candidates(y)
    assert candidates.shape == (len(candidates.indptr) - 1, len(classes))
    assert candidates.indices.min() >= 0
    assert candidates.indices.max() < len(classes)
    assert len(set(classes.tolist())) == len(classes)
    assert np.diff(candidates.indptr).min() > 0


def with_file(read):
    def check(raw):
        with tempfile.NamedTemporaryFile(suffix=".mat") as file:
            file.write(raw)
            file.flush()
            read(Path(file.name))

    return check


TARGETS = {
    "mat5": (mat_file("5"), with_file(read_mat)),
    "mat5-compressed": (mat_file("5, compressed"), with_file(read_mat)),
    "mat5-packed": (packed_mat_file, with_file(read_mat)),
    "mat73": (mat_file("7.3"), with_file(read_mat)),
    "idx": (idx_file, with_file(_read_idx)),
    "batch": (batch_file, with_file(lambda path: _read_batch(path, IMAGE_SETS["cifar10"]))),
    "candidates": (candidates_text, check_text),
    "model": (model_file, with_file(check_model)),
    "model-forged": (forged_model_file, with_file(check_model)),
}


def try_one(target, raw):
    """Check one input; raise whatever it raises, except the ValueError that it may raise."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            TARGETS[target][1](raw)
        except ValueError:
            return


def run_child(pipe, target, seeds, end):
    """Try seeds one by one in a process of its own, naming each seed before its trial."""
    limit = (MEGABYTES + 2048) << 20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for seed in seeds:
        if time.time() > end:
            break
        os.write(pipe, b"%d\n" % seed)
        signal.alarm(SECONDS)
        try:
            try_one(target, TARGETS[target][0](np.random.default_rng(seed)))
        except BaseException:
            text = traceback.format_exc().splitlines()
            os.write(pipe, f"failed: {text[-1]} at {text[-3].strip()}\n".encode())
            return
    os.write(pipe, b"done\n")


def fuzz(target, first_seed, minutes):
    """Yield the seed of each trial that went wrong, and how."""
    TARGETS[target][0](np.random.default_rng(0))  # sound files are made once, before any fork
    end, seed = time.time() + 60 * minutes, first_seed
    while time.time() < end:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                run_child(writer, target, range(seed, seed + 1000), end)
            finally:
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as lines:
            *_, last = said = lines.read().splitlines()
        status = os.waitpid(child, 0)[1]
        if last == "done":
            seed += 1000
            continue
        seed = int(said[-2] if last.startswith("failed") else last)
        yield seed, last if last.startswith("failed") else f"ended by signal {status & 127}"
        seed += 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", choices=TARGETS, nargs="*", default=list(TARGETS))
    options = parser.parse_args()
    seen = set()
    for target in options.only:
        for seed, how in fuzz(target, options.seed, options.minutes / len(options.only)):
            if (target, how) in seen:
                continue
            seen.add((target, how))
            path = CORPUS / f"{target}.{seed}.hex"
            path.parent.mkdir(exist_ok=True)
            path.write_text(TARGETS[target][0](np.random.default_rng(seed)).hex() + "\n")
            sys.stdout.write(f"{path.name}: {how}\n")
    sys.stdout.write(f"{len(seen)} kinds of failure\n")
    return bool(seen)


if __name__ == "__main__":
    sys.exit(main())
