"""The forms in which people have annotations, read into one record."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from ..candidates._labels import is_missing
from ._labels import encode_labels

#: Names of a long table's columns by role, also with "_id", and names for want of those.
_LONG = {
    "item": ("task", "item"),
    "annotator": ("worker", "annotator", "performer", "rater"),
    "label": ("label",),
}
_SPARE = {"item": ("id",), "label": ("answer", "response", "annotation")}
_NO_ANNOTATOR = re.compile(rf"(.*_)?id|index|unnamed: .*|{'|'.join(chain(*_LONG.values()))}", re.I)
_PAIR = {"label", "score"}
_MAX_SCORE = 1e100  # sums of larger ones may overflow
_FOR_LONG = "For a long table, with a row per answer, pass `item=`, `annotator=` and `label=`."


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
    annotations: Any, missing: Any, classes: Any, named: Any, export: Any, index: Any = None
) -> Answers:
    """Read annotations in any form.

    ``named`` holds the options of a long table, ``export`` those of a Label Studio export.
    """
    if not pd.api.types.is_scalar(missing):
        raise ValueError(f"`missing` must be a single value, got {missing!r}.")
    if hasattr(annotations, "to_pandas"):  # polars, pyarrow
        annotations = annotations.to_pandas()
    annotations = _check_container(annotations)
    is_table = isinstance(annotations, pd.DataFrame)
    is_export = any(isinstance(task, Mapping) and "annotations" in task for task in annotations)
    for name, value in {**named, **export}.items():
        if not (value is None or value is False) and not (is_table if name in named else is_export):
            need = "a long table" if name in named else "the parsed JSON of a Label Studio export"
            raise ValueError(f"`{name}` must come with {need}, got {value!r}. Leave it out.")
    columns = _find_columns(annotations, named) if is_table else None
    if is_table:
        form = _read_long(annotations, *columns) if columns else _read_wide(annotations)
    else:
        form = _read_export(annotations, **export) if is_export else _read_lists(annotations)
    entries = form.entries
    # A cell may hold several labels. `encode_labels` rejects dicts.
    lists = filter(pd.api.types.is_list_like, entries["label"].to_numpy(dtype=object))
    if {isinstance(label, Mapping) for label in lists} == {False}:
        entries = entries.astype({"label": object}).explode("label", ignore_index=True)
    labels = entries["label"].to_numpy(dtype=object)
    try:
        codes, labels = pd.factorize(labels)
    except TypeError:  # Masked values cannot be hashed, nor what `encode_labels` rejects.
        codes = np.arange(len(labels))
    missing = None if is_missing(missing) else missing
    gaps = [b is np.ma.masked or is_missing(b) or np.all(b == missing) for b in (*labels, None)]
    is_given = ~np.array(gaps)[codes]  # the code of a missing value is -1
    entries, (codes, used) = entries[is_given], pd.factorize(codes[is_given])
    labels = labels[used].tolist()
    if not labels and classes is None:
        raise ValueError("`annotations` must hold labels, got only missing values. Pass `classes`.")
    if all(label.is_integer() for label in labels if isinstance(label, float)):
        # Integers that a missing value had made floats.
        labels = [int(label) if isinstance(label, float) else label for label in labels]
    # Each rule of a label matrix may give a label of its own.
    are_rules = missing is not None and all(isinstance(label, Integral) for label in labels)
    if is_table and not columns and classes is None and not are_rules:
        _check_shared(codes, entries["annotator"].to_numpy(), form.names)
    rows = entries["item"].to_numpy()[~pd.Series(codes).duplicated()]  # where each is given first
    place: Any = lambda i: f"for item {form.index.tolist()[rows[i]]!r}"  # noqa: E731
    for i, label in enumerate(labels):
        if isinstance(label, str) and not label:
            raise ValueError(f"Labels must not be empty, got '' {place(i)}. Pass missing=''.")
    classes, columns_of = encode_labels(labels, classes, "annotations", place)
    entries = entries.assign(label=columns_of[codes])
    if form.names is not None:
        entries = entries.drop_duplicates()
        entries["score"] = 1 / entries.groupby(["item", "annotator"])["label"].transform("size")
    entries = entries[entries["score"] > 0].astype({"item": np.int64, "score": np.float64})
    if index is not None:
        if not pd.api.types.is_list_like(index):
            raise ValueError(f"`index` must be a list of items, got {index!r}. Pass X.index.")
        entries["item"] = _find_items(form.index, pd.Index(index))[entries["item"]]
        form = replace(form, index=pd.Index(index))
    return replace(form, entries=entries, classes=classes)


def _check_container(annotations: Any) -> Any:
    """Return a table or matrix as a DataFrame, and a Series or list as it is, or raise."""
    is_odd = isinstance(annotations, (str, bytes, Mapping)) or sp.issparse(annotations)
    if is_odd or not hasattr(annotations, "__len__"):
        found, remedy = type(annotations).__name__, "pandas.Series(annotations) or parsed JSON"
        raise ValueError(f"`annotations` must be a table or a list, got {found}. Pass {remedy}.")
    shape = annotations.shape if hasattr(annotations, "shape") else (len(annotations),)
    if len(shape) not in (1, 2) or 0 in shape:
        need = "one or two dimensions, an item and a column at least"
        raise ValueError(f"`annotations` must have {need}, got {shape}.")
    return annotations if len(shape) == 1 else pd.DataFrame(annotations)


def _match(columns: Any, role: str) -> list[Any]:
    """Return the columns that have a role by their names."""
    groups = (_LONG[role], [f"{name}_id" for name in _LONG[role]], _SPARE.get(role, ()))
    matching = ([c for c in columns if str(c).lower() in names] for names in groups)
    return next(filter(None, matching), [])


def _find_columns(frame: Any, named: Mapping[str, Any]) -> list[Any] | None:
    """Return the columns of a long table: item, annotator, label; None if it is a wide table."""
    found, columns = [], list(frame.columns)
    for role, name in named.items():
        matching = _match(columns, role) if name is None else [c for c in columns if c == name]
        if len(matching) == 1:
            found += matching
        elif any(value is not None for value in named.values()):
            raise ValueError(f"`{role}` must name one column of {columns[:20]}, got {name!r}.")
    odd = [name for name in map(str, columns) if _NO_ANNOTATOR.fullmatch(name)]
    if odd and len(found) < len(_LONG):
        remedy = f"pass annotations.set_index({odd[0]!r}) if it holds the items, or rename it"
        need = "Columns of a wide table must be annotators"
        raise ValueError(f"{need}, got {odd[0]!r}. {_FOR_LONG} For a wide one, {remedy}.")
    return found if len(found) == len(_LONG) else None


def _read_long(frame: Any, item: Any, annotator: Any, label: Any) -> Answers:
    for column in (item, annotator):
        for row in np.flatnonzero(frame[column].isna())[:1]:
            found = f"a missing value in row {row}"
            raise ValueError(f"{column!r} must not be missing, got {found}. Drop such rows.")
    (items, index), (annotators, names) = pd.factorize(frame[item]), pd.factorize(frame[annotator])
    labels = frame[label].to_numpy(dtype=object)
    entries = pd.DataFrame({"item": items, "annotator": annotators, "label": labels})
    return Answers(pd.Index(index, name=item), entries, pd.Index(names, name=annotator))


def _read_wide(frame: Any) -> Answers:
    items, annotators = np.indices(frame.shape).reshape(2, -1)
    labels = frame.to_numpy(dtype=object).ravel()
    entries = pd.DataFrame({"item": items, "annotator": annotators, "label": labels})
    return Answers(frame.index, entries, frame.columns)


def _check_shared(codes: np.ndarray, annotators: np.ndarray, names: Any) -> None:
    """Raise ValueError if a column shares no label with the others, as in a long table."""
    gave = np.zeros((len(names), codes.max() + 1), dtype=bool)
    gave[annotators, codes] = True
    alone = np.flatnonzero(gave.any(axis=1) & ~gave[:, gave.sum(axis=0) > 1].any(axis=1))
    if len(alone) and gave.any(axis=1).sum() > 1:
        found = f"none in {names[alone[0]]!r} and the others"
        need = "Columns of a wide table must share labels"
        raise ValueError(f"{need}, got {found}. {_FOR_LONG} For a wide one, pass `classes=`.")


def _read_lists(annotations: Any) -> Answers:
    """Read per item a list of labels, or of labels with scores."""
    entries, scored, pooled = list(annotations), [], []
    if all(isinstance(entry, Mapping) for entry in entries):
        _check_records(entries)
    for row, entry in enumerate(entries):
        if is_missing(entry) or (hasattr(entry, "__len__") and not len(entry)):
            continue
        if isinstance(entry, (str, bytes)) or not hasattr(entry, "__iter__"):
            need = "`annotations` must be a table, or hold a list of labels per item"
            remedy = f"Pass a DataFrame with a column per annotator, or [{entry!r}]."
            raise ValueError(f"{need}, got {entry!r} in row {row}. {remedy}")
        pairs = _score_pairs(entry)
        if pairs is None:
            pooled += [(row, label, 1.0) for label in entry]
        for label, score in pairs or ():
            if not isinstance(score, Real) or not 0 <= float(score) <= _MAX_SCORE:
                is_log, need = str(score).startswith("-"), f"from 0 to {_MAX_SCORE:g}"
                remedy = "For log-probabilities, pass np.exp" if is_log else "Pass floats"
                raise ValueError(f"Scores must be {need}, got {score!r} in row {row}. {remedy}.")
            scored.append((row, label, float(score)))
    if scored and pooled:
        rows = f"scores in row {scored[0][0]}, none in row {pooled[0][0]}"
        raise ValueError(f"`annotations` must have scores for all items or none, got {rows}.")
    table = pd.DataFrame(scored or pooled, columns=["item", "label", "score"], dtype=object)
    index = annotations.index if isinstance(annotations, pd.Series) else pd.RangeIndex(len(entries))
    return Answers(index, table, is_scored=bool(scored))


def _check_records(entries: list[Any]) -> None:
    """Raise ValueError if dicts are rows of a table, or hold labels and scores in two lists."""
    keys = set(entries[0]).intersection(*entries)
    roles = [role for role in _LONG if _match(keys - _PAIR if keys >= _PAIR else keys, role)]
    values = [] if keys >= _PAIR else [entry[key] for entry in entries for key in keys]
    if len(roles) > 1 or (len(keys) > 1 and any(isinstance(v, (str, list, dict)) for v in values)):
        remedy = "A list of records is a long table: pass pandas.DataFrame(annotations)."
        if keys >= {"labels", "scores"}:
            remedy = 'Pass [dict(zip(r["labels"], r["scores"])) for r in annotations].'
        raise ValueError(f"Dicts must map labels to floats, got {entries[0]!r:.200}. {remedy}")


def _score_pairs(entry: Any) -> list[Any] | None:
    """Return the (label, score) pairs of an item; None if it holds labels only."""
    if isinstance(entry, Mapping) and not set(entry) >= _PAIR:
        return list(entry.items())
    parts = [entry] if isinstance(entry, Mapping) else list(entry)
    if all(isinstance(part, Mapping) and set(part) >= _PAIR for part in parts):
        return [(part["label"], part["score"]) for part in parts]
    pairs = all(isinstance(part, (list, tuple)) and len(part) == 2 for part in parts)
    are_scores = (not isinstance(part[1], str) or part[1][:1].isdigit() for part in parts)
    return parts if pairs and all(are_scores) else None


def _read_export(tasks: Any, from_name: str | None, predictions: bool) -> Answers:
    """Read the choices of a Label Studio export."""
    found: dict[str, list[tuple[int, str, Any]]] = {}
    ids: dict[Any, tuple[int, Any]] = {}
    emails: dict[str, str] = {}
    for row, task in enumerate(tasks):
        try:
            item, data = ids.setdefault(task.get("id", row), (len(ids), task.get("data")))
            if data != task.get("data"):
                need, remedy = "Tasks of one id must have equal data", "Rename those of one export"
                raise ValueError(f"{need}, got other data in row {row}. {remedy}.")
            answers = [a for a in task["annotations"] or () if not a.get("was_cancelled")]
            sources = [(answer, answer["completed_by"]) for answer in answers]
            for model in (predictions and task.get("predictions")) or ():
                sources.append((model, f"model {model.get('model_version')}"))
            for source, who in sources:
                if isinstance(who, Mapping):
                    who, email = who.get("id") or who["email"], who.get("email")
                    emails.update({str(who): email} if email else {})
                for result in source["result"]:
                    if result["type"] == "choices":
                        choices = [(item, str(who), c) for c in result["value"]["choices"]]
                        found.setdefault(result["from_name"], []).extend(choices)
        except (AttributeError, KeyError, TypeError) as error:
            odd = f"a task with {type(error).__name__} {error} in row {row}"
            raise ValueError(f"`annotations` must be a Label Studio export, got {odd}.") from error
    if from_name not in found and (from_name is not None or len(found) != 1):
        raise ValueError(f"`from_name` must be a choice tag, one of {[*found]}, got {from_name!r}.")
    rows = found[from_name or next(iter(found))]
    table = pd.DataFrame(rows, columns=["item", "annotator", "label"])
    codes, names = pd.factorize(table["annotator"])
    names = pd.Index([emails.get(name, name) for name in names], name="annotator")
    return Answers(pd.Index([*ids]), table.assign(annotator=codes), names)


def _find_items(known: Any, index: Any) -> np.ndarray:
    """Return the positions of the items in the index that the caller wants."""
    for name, labels in (("index", index), ("annotations", known)):
        if not labels.is_unique:
            twice = labels[labels.duplicated()].tolist()[0]
            raise ValueError(f"Items of `{name}` must be unique with `index`, got {twice!r} twice.")
    position = np.asarray(index.get_indexer(known))
    if (position < 0).any():
        found = f"it without {known[position < 0].tolist()[0]!r}"
        types = f"Items have dtype {known.dtype}, and `index` {index.dtype}."
        remedy = "Select items, or name those of a list by pandas.Series(annotations, index)."
        raise ValueError(f"`index` must hold all items, got {found}. {types} {remedy}")
    return position
