"""The one memory limit of the package."""

#: What one step of a fit may take, in bytes. Half of a usual laptop's memory.
MEMORY_LIMIT = 8 * 2**30


#: Bytes that a cell of candidates takes: mask, prior weight (float32), and a result in float64.
BYTES_PER_CELL = 13


def check_cells(n_samples: int, n_classes: int) -> None:
    """Raise MemoryError if a dense candidate matrix would be too large."""
    what = f"{n_samples} rows of candidates among {n_classes} classes"
    check_memory(BYTES_PER_CELL * n_samples * n_classes, what, "Use `partial_fit` over parts.")


def check_memory(n_bytes: float, what: str, remedy: str) -> None:
    """Raise MemoryError if a step would need more than `MEMORY_LIMIT`.

    Parameters
    ----------
    n_bytes : float
        The estimated need.
    what : str
        What would need it, as in "a kernel matrix of 50000 × 50000".
    remedy : str
        A sentence that ends the message.

    Examples
    --------
    >>> from sklearn_cleanse.candidates import check_memory
    >>> check_memory(1e11, "candidates", "Use `partial_fit`.")
    Traceback (most recent call last):
    MemoryError: `fit` would need about 93.1 GiB for candidates, more than 8 GiB. Use `partial_fit`.
    """
    if n_bytes > MEMORY_LIMIT:
        need, limit = n_bytes / 2**30, MEMORY_LIMIT / 2**30
        found = f"`fit` would need about {need:.1f} GiB for {what}, more than {limit:g} GiB."
        raise MemoryError(f"{found} {remedy}")
