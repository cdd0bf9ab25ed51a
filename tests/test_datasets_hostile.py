"""Hostile MATLAB files raise ValueError, in bounded time and memory."""

import struct
import subprocess
import sys
import zlib

import h5py
import numpy as np
import pytest
from test_datasets_mat import layouts, save_v73, toy  # noqa: F401

from sklearn_cleanse.datasets import read_mat

HEADER = b"MATLAB 5.0".ljust(124) + b"\0\1IM"
MEASURE = """if True:
    import resource, sys, time
    from sklearn_cleanse.datasets import read_mat
    import h5py, scipy.sparse
    peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    before, start = peak(), time.process_time()
    try:
        read_mat(sys.argv[1], max_bytes=2**26)
    except ValueError as error:
        print(peak() - before, time.process_time() - start, error)
"""


def tag(kind, body):
    return np.array([kind, len(body)], "<u4").tobytes() + body + bytes(-len(body) % 8)


def matrix(kind, dims, name, *parts):
    head = tag(6, np.array([kind, 0], "<u4").tobytes()) + tag(5, np.array(dims, "<i4").tobytes())
    return tag(14, head + tag(1, name) + b"".join(parts))


def deflated(*variables):
    return HEADER + b"".join(
        struct.pack("<II", 15, len(z)) + z for z in (zlib.compress(v, 9) for v in variables)
    )


def driver_block(path):
    """A driver information block of 2.2 GB, of which the file holds nothing."""
    with h5py.File(path, "w", libver="earliest"):
        pass
    raw = bytearray(path.read_bytes()[:96])
    raw[40:56] = struct.pack("<QQ", 139, 96)
    path.write_bytes(bytes(raw) + struct.pack("<BBHI8s", 0, 0, 0, 2_200_000_000, b"NCSAmult"))
    with open(path, "ab") as file:
        file.write(bytes(27))


def cells_of_cells(path):
    """40 references to a cell of 40 references, four deep."""
    with h5py.File(path, "w", libver="earliest") as file:
        inner = file.create_dataset("#refs#/0", data=np.ones((1, 1)))
        for depth in range(1, 5):
            name = "tr" if depth == 4 else f"#refs#/{depth}"
            refs = np.array([inner.ref] * 40, h5py.ref_dtype)
            inner = file.create_dataset(name, data=refs, dtype=h5py.ref_dtype)


def fill_values(path):
    with h5py.File(path, "w", libver="earliest") as file:
        file["data"] = np.zeros((1, 250_000))
        file.create_dataset("partial_target", (20_000, 10_000), "f8", fillvalue=1.0)


def small_chunks(path):
    with h5py.File(path, "w", libver="earliest") as file:
        file.create_dataset("data", (500_000,), "u1", chunks=(2,))


def long_chunk(path):
    """A chunk that declares 1 kB and unpacks to 500 MB."""
    with h5py.File(path, "w", libver="earliest") as file:
        data = file.create_dataset("data", (1024,), "u1", chunks=(1024,), compression="gzip")
        data.id.write_direct_chunk((0,), zlib.compress(bytes(500_000_000), 9))


def newest_format(path):
    with h5py.File(path, "w", libver="latest") as file:
        file["data"] = np.ones((2, 2))


def deflated_bytes(path):
    """60 MB of ones, stored as bytes and declared as doubles: 480 MB."""
    ones = tag(2, b"\1" * 60_000_000)
    path.write_bytes(deflated(matrix(6, (6000, 10_000), b"data", ones)))


def many_cells(path):
    empty = struct.pack("<II", 14, 0) * 1_000_000
    path.write_bytes(deflated(matrix(1, (1, 1_000_000), b"tr", empty)))


def long_name(path):
    path.write_bytes(deflated(matrix(6, (1, 1), b"a" * 10_000_000, tag(2, b"\1"))))


def wide_labels(path):
    """Sparse labels of 100,000 samples and 20,000 classes: 2 GB as a dense matrix."""
    n, m = 100_000, 20_000
    rows = tag(5, np.zeros(n, "<i4").tobytes())
    columns = tag(5, np.arange(n + 1, dtype="<i4").tobytes())
    ones = tag(2, b"\1" * n)
    labels = matrix(5, (m, n), b"partial_target", rows, columns, ones)
    path.write_bytes(deflated(matrix(6, (n, 1), b"data", ones), labels))


def many_rows(path):
    parts = tag(5, bytes(4)), tag(5, struct.pack("<ii", 0, 1)), tag(2, b"\1")
    path.write_bytes(HEADER + matrix(5, (2**31 - 1, 1), b"data", *parts))


def circular_heap(path):
    """A list of free blocks that runs in a circle, which HDF5 follows until memory is full."""
    save_v73(path, {"data": np.eye(2), "labels": np.eye(2)})
    raw = bytearray(path.read_bytes())
    free, start = struct.unpack_from("<QQ", raw, raw.index(b"HEAP") + 16)
    raw[512 + start + free : 520 + start + free] = struct.pack("<Q", free)
    path.write_bytes(bytes(raw))


def nested_cells(path):
    """Cells nested 50,000 deep, on which scipy's reader overflows the stack."""
    head = tag(6, np.array([1, 0], "<u4").tobytes()) + tag(5, np.ones(2, "<i4").tobytes())
    head += tag(1, b"")
    sizes = [(len(head) + 8) * depth + len(head) for depth in range(50_000)]
    heads = [np.array([14, size], "<u4").tobytes() + head for size in reversed(sizes)]
    path.write_bytes(HEADER + b"".join(heads))


BOMBS = {
    driver_block: "names a file driver",
    cells_of_cells: "more than 20000 variables, cells and fields",
    fill_values: "'/partial_target' declares 1600000000 bytes",
    small_chunks: "'/data' declares .*max_bytes",
    long_chunk: "a chunk that unpacks to more than it declares",
    newest_format: "header is of version 3",
    deflated_bytes: "declares 480000000 bytes.*larger `max_bytes`",
    many_cells: "more than 20000 variables, cells and fields",
    long_name: "name of 10000000 bytes",
    wide_labels: "dense matrix of partial_target",
    circular_heap: "free blocks of an HDF5 heap form a circle",
    nested_cells: "nested more than 4 deep",
    many_rows: "2147483647 rows",
}


@pytest.mark.slow  # each in a process of its own
@pytest.mark.parametrize("make", BOMBS, ids=lambda make: make.__name__)
def test_bombs_raise_in_bounded_time_and_memory(tmp_path, make):
    path = tmp_path / "a.mat"
    make(path)
    run = subprocess.run(
        [sys.executable, "-c", MEASURE, str(path)], capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0, run.stderr
    megabytes, seconds, message = run.stdout.split(" ", 2)
    assert int(megabytes) < 6 * 64
    assert float(seconds) < 20
    with pytest.raises(ValueError, match=BOMBS[make]):
        raise ValueError(message)


def test_the_content_is_bounded_before_it_is_allocated(tmp_path):
    """By default at 2 GiB: a compressed file of 700 kB that declares 2.4 GB raises at once."""
    path = tmp_path / "a.mat"
    labels = matrix(9, (1_000_000, 2), b"partial_target", tag(2, b"\1" * 2_000_000))
    data = matrix(6, (1_000_000, 10), b"data", tag(2, b"\1" * 10_000_000))
    path.write_bytes(deflated(data, labels))
    assert read_mat(path).data.shape == (1_000_000, 10)
    with pytest.raises(ValueError, match=r"max_bytes=67108864\. If you trust the file"):
        read_mat(path, max_bytes=2**26)
    with open(path, "wb") as file:
        file.write(deflated(tag(14, b"")[:4] + struct.pack("<I", 2_400_000_000)))
    with pytest.raises(ValueError, match=r"declares 2400000000 bytes.*max_bytes=2147483648"):
        read_mat(path)
    for wrong in (0, 1.5, "1 GB", None):
        with pytest.raises(ValueError, match="`max_bytes` must be a positive integer, got"):
            read_mat(path, max_bytes=wrong)


@pytest.mark.parametrize("pointers", [[0, 5, 0], [0, -1, -1]])
def test_column_pointers_must_ascend(tmp_path, pointers):
    parts = tag(5, b""), tag(5, struct.pack("<iii", *pointers)), tag(9, b"")
    (tmp_path / "a.mat").write_bytes(HEADER + matrix(5, (3, 2), b"data", *parts))
    with pytest.raises(ValueError, match="must ascend from 0"):
        read_mat(tmp_path / "a.mat")


@pytest.mark.parametrize("name", ["a v7.3 file", "a sparse group"])
@pytest.mark.parametrize("kind", ["external", "soft"])
def test_links_in_a_v73_file_are_not_followed(tmp_path, toy, name, kind):  # noqa: F811
    X, S, Y, _ = toy
    secret, path = tmp_path / "secret.h5", tmp_path / "a.mat"
    with h5py.File(secret, "w") as file:
        file["data"] = X.T
    link = h5py.ExternalLink(str(secret), "data") if kind == "external" else h5py.SoftLink("/s")
    save_v73(path, {"partial_target": S.T, "target": Y.T})
    with h5py.File(path, "r+") as file:
        if name == "a v7.3 file":
            file["data"] = link
        else:
            group = file.create_group("data")
            group.attrs["MATLAB_sparse"] = np.uint64(3)
            group["jc"] = np.zeros(2, np.uint64)
            group["data"] = link
    with pytest.raises(ValueError, match="link, which is not followed"):
        read_mat(path)


def test_storage_outside_a_v73_file_is_not_opened(tmp_path, toy):  # noqa: F811
    X, S, Y, _ = toy
    (tmp_path / "secret").write_bytes(X.tobytes())
    path = tmp_path / "a.mat"
    save_v73(path, {"partial_target": S.T, "target": Y.T})
    with h5py.File(path, "r+") as file:
        outside = [(str(tmp_path / "secret"), 0, X.nbytes)]
        file.create_dataset("data", X.T.shape, "f8", external=outside)
    with pytest.raises(ValueError, match="stored in another file"):
        read_mat(path)


def test_labels_are_not_rounded_to_the_declared_type(tmp_path):
    """Doubles in a matrix that is declared uint8 or logical, which MATLAB may store as any type."""
    data = matrix(6, (3, 1), b"data", tag(2, b"\1\2\3"))
    stored = tag(9, np.array([1, 0, 1, 0, 1.5, 1], "<f8").tobytes())
    for kind in (9, 9 | 0x200, 6 | 0x200):  # uint8; logical
        labels = matrix(kind, (3, 2), b"partial_target", stored)
        (tmp_path / "a.mat").write_bytes(HEADER + data + labels)
        with pytest.raises(ValueError, match=r"got 1\.5 in row 1, column 1"):
            read_mat(tmp_path / "a.mat")
