"""The forms in which people have annotations, read into one record."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from ..candidates._labels import is_missing
from ._labels import encode_labels

_LONG = {
    "item": ("task", "item", "id"),
    "annotator": ("worker", "annotator", "performer", "rater"),
    "label": ("label",),
}
_PAIR = {"label", "score"}
_MAX_SCORE = 1e100  # sums of larger ones may overflow


@dataclass(frozen=True, eq=False)
class Answers:
    """An entry per label given: its item, its annotator if known, the label and a score.

    Items and annotators are positions in ``index`` and ``names``. `read_answers` turns labels into
    positions in ``classes``, and scores an unscored label by 1/k, k the labels of one answer.
    """

    index: Any  # of items
    entries: pd.DataFrame
    names: Any = None  # of annotators; None if they are unknown
    is_scored: bool = False
    classes: Sequence[Any] = ()

    @cached_property
    def cells(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the (item, label) cells that have entries, as flat positions, and each entry's."""
        flat = self.entries["item"] * len(self.classes) + self.entries["label"]
        return np.unique(flat, return_inverse=True)


def read_answers(
    annotations: Any,
    missing: Any,
    classes: Any,
    named: Mapping[str, Any],
    from_name: str | None,
    predictions: bool,
    index: Any = None,
) -> Answers:
    """Read annotations in any form; ``named`` holds item, annotator and label of a long table."""
    if not pd.api.types.is_scalar(missing):
        raise ValueError(f"`missing` must be a single value, got {missing!r}.")
    if hasattr(annotations, "to_pandas"):  # polars, pyarrow
        annotations = annotations.to_pandas()
    annotations = _check_container(annotations, named)
    is_table = isinstance(annotations, pd.DataFrame)
    columns = _find_columns(annotations, named) if is_table else None
    is_export = not is_table and any(map(_is_task, annotations))
    if not is_export and (from_name is not None or predictions):
        raise ValueError("`from_name` and `predictions` are for Label Studio exports, got others.")
    if is_export:
        form = _read_export(annotations, from_name, predictions)
    elif is_table:
        form = _read_long(annotations, *columns) if columns else _read_wide(annotations)
    else:
        form = _read_lists(annotations)

    odd = next((label for label in form.entries["label"] if isinstance(label, Mapping)), None)
    if odd is not None:
        raise ValueError(f"`annotations` must hold labels, or labels with scores, got {odd!r}.")
    entries = form.entries.astype({"label": object}).explode("label", ignore_index=True)
    answered = [_is_answer(label, missing) for label in entries["label"]]
    entries = entries[np.array(answered, dtype=bool)]
    labels = entries["label"].tolist()
    if not labels and classes is None:
        raise ValueError("`annotations` must hold labels, got only missing values. Pass `classes`.")
    if all(label.is_integer() for label in labels if isinstance(label, float)):
        # Integers that a missing value had made floats.
        labels = [int(label) if isinstance(label, float) else label for label in labels]
    if is_table and not columns and classes is None and missing is None:
        _check_shared(labels, entries["annotator"].to_numpy(), form.names)
    place = lambda i: f"for item {form.index.tolist()[entries['item'].iloc[i]]!r}"  # noqa: E731
    classes, codes = encode_labels(labels, classes, "annotations", place)
    entries = entries.assign(label=codes)
    if form.names is not None:
        entries = entries.drop_duplicates()
        sizes = entries.groupby(["item", "annotator"])["label"].transform("size")
        entries = entries.assign(score=1 / sizes)
    entries = entries[entries["score"] > 0].astype({"item": np.int64, "score": np.float64})
    if index is not None:
        entries["item"] = _find_items(form.index, pd.Index(index))[entries["item"]]
        form = replace(form, index=pd.Index(index))
    return replace(form, entries=entries, classes=classes)


def _is_task(entry: Any) -> bool:
    return isinstance(entry, Mapping) and "annotations" in entry


def _check_container(annotations: Any, named: Mapping[str, Any]) -> Any:
    """Return a table or matrix as a DataFrame, and a Series or list as it is, or raise."""
    is_odd = isinstance(annotations, (str, bytes, Mapping)) or sp.issparse(annotations)
    if is_odd or not hasattr(annotations, "__len__"):
        found, remedy = type(annotations).__name__, "pandas.Series(annotations) or parsed JSON"
        raise ValueError(f"`annotations` must be a table or a list, got {found}. Pass {remedy}.")
    if isinstance(annotations, np.ma.MaskedArray):
        annotations = np.array(annotations.tolist(), dtype=object)  # masked becomes None
    shape = annotations.shape if hasattr(annotations, "shape") else (len(annotations),)
    if len(shape) not in (1, 2) or 0 in shape:
        need = "one or two dimensions, an item and a column at least"
        raise ValueError(f"`annotations` must have {need}, got {shape}.")
    odd = [name for name, value in named.items() if value is not None and len(shape) == 1]
    if odd:
        raise ValueError(f"`{odd[0]}` must name a column of a long table, got {named[odd[0]]!r}.")
    return annotations if len(shape) == 1 else pd.DataFrame(annotations)


def _is_answer(label: Any, missing: Any) -> bool:
    if label is np.ma.masked or is_missing(label):
        return False
    return is_missing(missing) or not np.all(label == missing)


def _find_columns(frame: Any, named: Mapping[str, Any]) -> list[Any] | None:
    """Return the columns of a long table: item, annotator, label; None if it is a wide table."""
    found = []
    for role, known in _LONG.items():
        name, columns = named[role], list(frame.columns)
        matching = [c for c in columns if (str(c).lower() in known if name is None else c == name)]
        if role == "item" and len(matching) > 1:
            matching = [column for column in matching if str(column).lower() != "id"]
        if len(matching) == 1:
            found += matching
        elif any(value is not None for value in named.values()):
            raise ValueError(f"`{role}` must name one column of {columns[:20]}, got {name!r}.")
    return found if len(found) == len(_LONG) else None


def _read_long(frame: Any, item: Any, annotator: Any, label: Any) -> Answers:
    parts = []
    for column in (item, annotator):
        codes, names = pd.factorize(frame[column])
        if (codes < 0).any():
            raise ValueError(f"{column!r} must not be missing, got none in row {codes.argmin()}.")
        parts += [pd.Index(names, name=column), codes]
    index, items, names, annotators = parts
    labels = frame[label].to_numpy(dtype=object)
    entries = pd.DataFrame({"item": items, "annotator": annotators, "label": labels})
    return Answers(index, entries, names)


def _read_wide(frame: Any) -> Answers:
    for name in map(str, frame.columns):
        if name.lower() in (*_LONG["item"], "index") or name.startswith("Unnamed: "):
            raise ValueError(
                "Columns of a wide table must be annotators, but column "
                f"{name!r} holds items by its name. Pass annotations.set_index({name!r})."
            )
    items, annotators = np.indices(frame.shape).reshape(2, -1)
    labels = frame.to_numpy(dtype=object).ravel()
    entries = pd.DataFrame({"item": items, "annotator": annotators, "label": labels})
    return Answers(frame.index, entries, frame.columns)


def _check_shared(labels: list[Any], annotators: np.ndarray, names: Any) -> None:
    """Raise ValueError if a column shares no label with the others, as in a long table."""
    gave = pd.crosstab(annotators, np.array(list(map(str, labels)), dtype=object)) > 0
    alone = gave.index[~gave.loc[:, gave.sum() > 1].any(axis=1)]
    if len(alone) and len(gave) > 1:
        raise ValueError(
            f"Columns of `annotations` must be annotators, but {names[alone[0]]!r} and the "
            "others share no label. For a long table, with a row per answer, name its columns by "
            "`item`, `annotator` and `label`. If the columns are annotators, pass `classes`."
        )


def _read_lists(annotations: Any) -> Answers:
    """Read per item a list of labels, or of labels with scores."""
    entries, scored, pooled = list(annotations), [], []
    for row, entry in enumerate(entries):
        if is_missing(entry) or (hasattr(entry, "__len__") and not len(entry)):
            continue
        if isinstance(entry, (str, bytes)) or not hasattr(entry, "__iter__"):
            raise ValueError(
                f"`annotations` must be a table, or hold a list of labels per item, got {entry!r} "
                f"in row {row}. Pass a DataFrame with a column per annotator, or [{entry!r}]."
            )
        pairs = _score_pairs(entry)
        if pairs is None:
            pooled += [(row, label, 1.0) for label in entry]
        for label, score in pairs or ():
            if not isinstance(score, Real) or not 0 <= float(score) <= _MAX_SCORE:
                need, remedy = f"from 0 to {_MAX_SCORE:g}", "For log-probabilities, pass np.exp"
                raise ValueError(f"Scores must be {need}, got {score!r} in row {row}. {remedy}.")
            scored.append((row, label, float(score)))
    if scored and pooled:
        rows = f"scores in row {scored[0][0]}, none in row {pooled[0][0]}"
        raise ValueError(f"`annotations` must have scores for all items or none, got {rows}.")
    table = pd.DataFrame(scored or pooled, columns=["item", "label", "score"], dtype=object)
    index = annotations.index if isinstance(annotations, pd.Series) else pd.RangeIndex(len(entries))
    return Answers(index, table, is_scored=bool(scored))


def _score_pairs(entry: Any) -> list[Any] | None:
    """Return the (label, score) pairs of an item; None if it holds labels only."""
    if isinstance(entry, Mapping) and not set(entry) >= _PAIR:
        return list(entry.items())
    parts = [entry] if isinstance(entry, Mapping) else list(entry)
    if all(isinstance(part, Mapping) and set(part) >= _PAIR for part in parts):
        return [(part["label"], part["score"]) for part in parts]
    pairs = all(isinstance(part, (list, tuple)) and len(part) == 2 for part in parts)
    return parts if pairs and all(isinstance(part[1], Real) for part in parts) else None


def _read_export(tasks: Any, from_name: str | None, predictions: bool) -> Answers:
    """Read the choices of a Label Studio export."""
    found: dict[str, list[tuple[int, Any, Any]]] = {}
    ids = []
    for row, task in enumerate(tasks):
        try:
            ids.append(task.get("id", row))
            answers = [a for a in task["annotations"] if not a.get("was_cancelled")]
            sources = [(answer, answer["completed_by"]) for answer in answers]
            if predictions:
                sources += [(p, p.get("model_version")) for p in task.get("predictions", ())]
            for source, who in sources:
                who = who.get("email") or who["id"] if isinstance(who, Mapping) else who
                for result in source["result"]:
                    if result["type"] == "choices":
                        choices = [(row, str(who), c) for c in result["value"]["choices"]]
                        found.setdefault(result["from_name"], []).extend(choices)
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(
                f"`annotations` must be a parsed Label Studio export, got a task without {error} "
                f"in row {row}."
            ) from error
    if from_name not in found and (from_name is not None or len(found) != 1):
        raise ValueError(f"`from_name` must be a choice tag, one of {[*found]}, got {from_name!r}.")
    columns = ["item", "annotator", "label"]
    table = pd.DataFrame(found[from_name or next(iter(found))], columns=columns)
    codes, names = pd.factorize(table["annotator"])
    return Answers(pd.Index(ids), table.assign(annotator=codes), pd.Index(names, name="annotator"))


def _find_items(known: Any, index: Any) -> np.ndarray:
    """Return the positions of the items in the index that the caller wants."""
    for name, labels in (("index", index), ("annotations", known)):
        if not labels.is_unique:
            twice = labels[labels.duplicated()].tolist()[0]
            raise ValueError(f"Items of `{name}` must be unique with `index`, got {twice!r} twice.")
    position = np.asarray(index.get_indexer(known))
    if (position < 0).any():
        raise ValueError(
            f"`index` must hold all items, got it without {known[position < 0].tolist()[0]!r}. "
            "Select items beforehand, or name those of a list by pandas.Series(annotations, index)."
        )
    return position
