"""Annotators' tables in every form, their weights, and the messages for bad ones."""

import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from sklearn_cleanse.candidates import check_candidates
from sklearn_cleanse.datasets import annotator_quality, candidates_from_annotations

# Item "b" is ambiguous; two annotators answered each item.
WIDE = pd.DataFrame(
    {"ann": ["cat", "dog", None], "bob": ["cat", None, "fox"], "cy": [None, "cat", "fox"]},
    index=["a", "b", "c"],
)
EXPECTED = pd.DataFrame(
    [[1, 0, 0], [0.5, 0.5, 0], [0, 0, 1]], ["a", "b", "c"], ["cat", "dog", "fox"], dtype=float
)
ROWS = [("a", "ann", "cat"), ("b", "ann", "dog"), ("a", "bob", "cat")]
ROWS += [("b", "cy", "cat"), ("c", "bob", "fox"), ("c", "cy", "fox")]


def long(*columns):
    return pd.DataFrame(ROWS, columns=list(columns))


def choice(who, *labels, tag="pet", **more):
    result = [{"from_name": tag, "type": "choices", "value": {"choices": list(labels)}}]
    return {"completed_by": who, "result": result, **more}


# "bob@x" is annotator 2, model "1" is not annotator 1, and task "a" comes in two parts.
EXPORT = [
    {"id": "a", "annotations": [choice(1, "cat")], "predictions": None},
    {
        "id": "b",
        "annotations": [choice(1, "dog"), choice(3, "cat"), choice(4, "fox", was_cancelled=True)],
        "predictions": [{"model_version": "1", "result": choice(0, "dog")["result"]}],
    },
    {"id": "a", "annotations": [choice({"id": 2, "email": "bob@x"}, "cat")]},
    {"id": "c", "annotations": [choice(2, "fox"), choice(3, "fox")]},
    {"id": "c", "annotations": None},
]

FORMS = {
    "wide": WIDE,
    "wide, categories": WIDE.astype("category"),
    "wide, lists": WIDE.map(lambda v: [v]),
    "long": long("task", "worker", "label"),
    "long, other names": long("Item", "Rater", "Label"),
    "long, categories": long("id", "performer", "label").astype("category"),
    "long, beside ids": long("task", "worker", "label").assign(id=range(6), label_id=range(6)),
    "long, ids and answers": long("item_id", "Worker_ID", "answer").assign(id=range(6)),
    "long, repeats": pd.concat([long("task", "worker", "label")] * 2),
    "pyarrow": pa.Table.from_pandas(long("task", "annotator", "label")),
    "pooled": pd.Series([["cat", "cat"], ("cat", "dog"), ["fox", None]], EXPECTED.index),
    "scored": pd.Series([{"cat": 3}, {"cat": 0.2, "dog": 0.2}, {"fox": 1e-9}], EXPECTED.index),
    "pairs": pd.Series(
        [[("cat", 0.9)], [["cat", 0.2], ["dog", 0.2]], [("fox", 1)]], EXPECTED.index
    ),
    "dicts": pd.Series(
        [
            {"label": "cat", "score": 0.4},
            [{"label": "cat", "score": 0.2}, {"label": "dog", "score": 0.2}],
            [{"label": "fox", "score": np.float32(1), "rank": 1}, {"label": "cat", "score": 0}],
        ],
        EXPECTED.index,
    ),
    "export": EXPORT,
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_holds_the_same_candidates(form):
    S = candidates_from_annotations(FORMS[form])
    np.testing.assert_allclose(S, EXPECTED)
    assert S.columns.tolist() == ["cat", "dog", "fox"]
    assert S.index.tolist() == ["a", "b", "c"]
    candidates = check_candidates(S)
    np.testing.assert_array_equal(candidates.mask, EXPECTED > 0)
    np.testing.assert_allclose(candidates.prior, EXPECTED)


def test_arrays_lists_and_masked_arrays_name_items_by_position():
    array = WIDE.to_numpy(dtype=object)
    masked = np.ma.array(WIDE.fillna("fox").to_numpy(dtype=object), mask=WIDE.isna().to_numpy())
    for annotations in (array, masked, array.tolist()):
        S = candidates_from_annotations(annotations)
        np.testing.assert_array_equal(S, EXPECTED)
        assert S.index.tolist() == [0, 1, 2]


def test_snorkel_matrices_take_a_missing_value():
    L = np.array([[0, -1, -1], [-1, 1, -1], [0, 1, 1]])
    for classes in (None, [0, 1]):
        S = candidates_from_annotations(L, missing=-1, classes=classes)
        np.testing.assert_allclose(S, [[1, 0], [0, 1], [1 / 3, 2 / 3]])
        assert S.columns.tolist() == [0, 1]
    assert annotator_quality(L, missing=-1)["answers"].tolist() == [2, 2, 1]


def test_integers_stay_integers_despite_missing_values():
    nullable = pd.DataFrame({"u": pd.array([0, 1, None], dtype="Int64"), "v": [1, 1, 2]})
    for table in (pd.DataFrame({"u": [0, 1, np.nan], "v": [1.0, 1.0, 2.0]}), nullable):
        S = candidates_from_annotations(table)
        assert repr(S.columns.tolist()) == "[0, 1, 2]"


def test_several_labels_of_one_annotator_are_one_answer():
    table = pd.DataFrame(
        [("a", "ann", "x"), ("a", "ann", "y"), ("a", "bob", "x"), ("b", "bob", "y")],
        columns=["item", "annotator", "label"],
    )
    S = candidates_from_annotations(table)
    np.testing.assert_allclose(S, [[0.75, 0.25], [0, 1]])
    quality = annotator_quality(table)
    assert quality["answers"].tolist() == [1, 2]
    np.testing.assert_allclose(quality["agreement"], [0.5, 0.5])
    assert quality["accuracy"].isna().all()  # of two annotators


def test_weights_and_least_numbers_of_annotators():
    table = pd.DataFrame({"u": ["a", "b"], "v": ["a", "a"], "w": ["b", "c"]})
    plain = candidates_from_annotations(table, weights=None)
    np.testing.assert_array_equal(plain.to_numpy(dtype=bool), [[1, 1, 0], [1, 1, 1]])
    assert plain.to_numpy().dtype == bool
    S = candidates_from_annotations(table)
    np.testing.assert_allclose(S, [[2 / 3, 1 / 3, 0], [1 / 3, 1 / 3, 1 / 3]])
    pd.testing.assert_frame_equal(candidates_from_annotations(table, weights="count"), S)
    two = candidates_from_annotations(table, min_annotators=2)
    np.testing.assert_allclose(two, [[1, 0, 0], [1 / 3, 1 / 3, 1 / 3]])  # "b": the most there are


def test_classes_fix_the_columns():
    S = candidates_from_annotations(WIDE, classes=["fox", "dog", "cat", "owl"])
    np.testing.assert_array_equal(S[["cat", "dog", "fox"]], EXPECTED)
    assert S.columns.tolist() == ["fox", "dog", "cat", "owl"]


def test_items_follow_the_index():
    table = long("task", "worker", "label")
    assert candidates_from_annotations(table[::-1]).index.tolist() == ["c", "b", "a"]
    index = pd.Index(["c", "z", "a", "b"])
    for annotations in (table, WIDE, EXPORT):
        S = candidates_from_annotations(annotations, index=index, unlabeled="all")
        pd.testing.assert_index_equal(S.index, index)
        np.testing.assert_allclose(S.loc[["a", "b", "c"]], EXPECTED)
        np.testing.assert_allclose(S.loc["z"], 1 / 3)
        with pytest.raises(ValueError, match="none for item 'z'"):
            candidates_from_annotations(annotations, index=index)
        with pytest.raises(ValueError, match="`index` must hold all items, got it without 'b'"):
            candidates_from_annotations(annotations, index=["a", "c"])


def test_exports_of_label_studio():
    S = candidates_from_annotations(EXPORT, predictions=True)
    np.testing.assert_allclose(S.loc["b"], [1 / 3, 2 / 3, 0])
    assert annotator_quality(EXPORT).index.tolist() == ["1", "3", "bob@x"]
    assert "model 1" in annotator_quality(EXPORT, predictions=True).index
    two = [*EXPORT, {"id": "c", "annotations": [choice(9, "x", tag="color")]}]
    np.testing.assert_allclose(candidates_from_annotations(two, from_name="pet"), EXPECTED)
    for wrong in (None, "size"):
        with pytest.raises(ValueError, match=rf"one of \['pet', 'color'\], got {wrong!r}"):
            candidates_from_annotations(two, from_name=wrong)
    with pytest.raises(ValueError, match="got a task with KeyError 'completed_by' in row 1"):
        candidates_from_annotations([EXPORT[0], {"annotations": [{"result": []}]}])
    with pytest.raises(ValueError, match="must have equal data, got other data in row 5"):
        candidates_from_annotations([*EXPORT, {**EXPORT[0], "data": {"text": "other"}}])


def integers(*columns):
    return pd.DataFrame([[0, 1, 2], [1, 2, 0], [2, 0, 1]], columns=columns)


SMALL = pd.DataFrame({"u": ["a", "b"], "v": ["b", "a"]}, index=["x", "y"])
LONG = long("task", "worker", "label")
BAD = {
    "items in a column": (SMALL.reset_index(), {},
        r"got 'index'. For a long table.*For a wide one, pass annotations.set_index\('index'\)"),
    "an id in a column": (integers("image_id", "ann", "bob"), {}, r"set_index\('image_id'\)"),
    "an item without a role": (integers("img", "worker", "label"), {}, "pass `item=`, `annotator="),
    "an answer beside it": (integers("q", "rater", "response"), {}, "'rater'. For a long table"),
    "an id of an answer": (integers("id", "annotator", "annotation_id"), {}, "and `label=`"),
    "a column shares no label": (LONG.set_axis(["img", "who", "tag"], axis=1), {"missing": -1},
        "got none in 'img' and the others. For a long table.*`item=`, `annotator=` and `label=`"),
    "an array of answers": (LONG.to_numpy(), {}, "must share labels, .* For a long table"),
    "records": ([{"task": 0, "worker": 1, "label": 2}] * 2, {}, "pass pandas.DataFrame.annot"),
    "JSON-MIN": ([{"id": 1, "choice": 3, "annotator": 1}], {}, "A list of records is a long table"),
    "records with scores": ([{"task": 1, "worker": 2, "label": 0, "score": 1}], {}, "of records"),
    "records of text": ([{"img": 1, "tag": "a"}, {"img": 2, "tag": "b"}], {}, "got {'img': 1, "),
    "zero-shot": ([{"labels": ["a"], "scores": [1]}], {}, r"Pass .dict\(zip\(r..labels.."),
    "an empty text": ([["a", "b"], ["a", ""]], {}, "got '' for item 1. Pass missing=''"),
    "-1 outside the classes": ([[0, 1], [-1, 0]], {"classes": [0, 1]}, "got -1 for item 1.*=-1"),
    "outside the classes": (SMALL, {"classes": ["a", "c"]}, "got 'b' for item 'x'. Correct it"),
    "two annotators": (SMALL, {"weights": "accuracy"}, "annotators who share items, got 2"),
    "unknown annotators": ([["a", "b"]], {"weights": "accuracy"}, "needs three annotators"),
    "negative scores": ([{"a": 1}, {"a": -0.1}], {}, r"got -0\.1 in row 1.*np\.exp"),
    "infinite scores": ([{"a": np.inf}], {}, "got inf in row 0"),
    "NaN as a score": ([[("a", np.nan)]], {}, "got nan in row 0. Pass floats"),
    "None as a score": ([[("a", None), ("b", 1)]], {}, "got None in row 0. Pass floats"),
    "text as a score": ([[("a", "0.5")]], {}, "got '0.5' in row 0. Pass floats"),
    "weights beside scores": ([{"a": 1, "b": 1}], {"weights": "count"}, "`weights`, got 'count'"),
    "no weights beside scores": ([{"a": 1, "b": 1}], {"weights": None}, "`weights`, got None"),
    "numbers beside scores": ([{"a": 1, "b": 1}], {"min_annotators": 2}, "`min_annotators`, got 2"),
    "some scores": ([["a"], {"a": 1}], {}, "got scores in row 1, none in row 0"),
    "all scores 0": ([{"a": 0, "b": 0}], {}, "none for item 0"),
    "other dicts": ([[{"name": "a"}]], {}, "got {'name': 'a'}"),
    "all None": (pd.DataFrame({"u": [None], "v": [None]}), {}, "got only missing values"),
    "a list of None": ([None, []], {}, "got only missing values"),
    "without columns": (pd.DataFrame(index=["x"]), {}, r"an item and a column.*got \(1, 0\)"),
    "an array without columns": (np.empty((3, 0)), {}, r"an item and a column.*got \(3, 0\)"),
    "without rows": (SMALL[:0], {}, r"an item and a column at least, got \(0, 2\)"),
    "an empty list": ([], {}, "an item and a column"),
    "an item without a label": (pd.DataFrame({"u": ["a", None], "v": ["b", None]}, ["x", "y"]),
        {"classes": ["a", "b"]}, "none for item 'y' .1 such items.. Leave .* out of X"),
    "one label": ([["a"], ["a"]], {}, r"must have two labels, got \['a'\]"),
    "one class": ([["a"]], {"classes": ["a"]}, r"must have two labels, got \['a'\]"),
    "mixed labels": ([[1], ["a"]], {}, "comparable"),
    "labels of one annotator": (["a", "b"], {}, r"got 'a' in row 0.*DataFrame.*or \['a'\]"),
    "a dict": ({"x": ["a"]}, {}, r"got dict. Pass pandas.Series\(annotations\)"),
    "JSON as text": ("[]", {}, "got str.*parsed JSON"),
    "an unknown column": (LONG, {"item": "img"}, "`item` must name one column of.*got 'img'"),
    "a column to be named": (LONG.rename(columns={"label": "tag"}), {"item": "task"},
        "`label` must name one column of"),
    "a column of a list": ([["a"]], {"item": "img"}, "`item` must come with a long table, got"),
    "a missing item": (LONG.replace({"task": {"b": None}}), {}, "'task'.* missing value in row 1"),
    "a tag without an export": (SMALL, {"from_name": "pet"}, "must come with .* export, got 'pet'"),
    "predictions without an export": (SMALL, {"predictions": True}, "export, got True. Leave it"),
    "an export without choices": ([{"annotations": []}], {}, r"one of \[\], got None"),
    "text as index": (SMALL.set_axis([1, 2]), {"index": ["1"]}, "int64, and `index` (str|object)"),
    "one text as index": (SMALL, {"index": "abc"}, "must be a list of items, got 'abc'. Pass X.in"),
    "an index with repeats": (SMALL, {"index": ["x", "y", "x"]}, "`index` must be unique.*'x'"),
    "items with repeats": (SMALL.set_axis(["x", "x"]), {"index": ["x"]}, "`annotations` must be"),
    "a list with an index": ([["a"], ["b"]], {"index": ["x", "y"]}, "pandas.Series.annotations"),
    "unknown weights": (SMALL, {"weights": "best"}, "`weights` must be one of"),
    "no annotator": (SMALL, {"min_annotators": 0}, "`min_annotators` must be a positive integer"),
    "unlabeled": (SMALL, {"unlabeled": "drop"}, "`unlabeled` must be one of"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_annotations_raise_and_name_the_remedy(name):
    annotations, options, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        candidates_from_annotations(annotations, **options)


def test_quality_needs_names():
    by_name = annotator_quality(long("img", "who", "tag"), item="img", annotator="who", label="tag")
    assert by_name.index.tolist() == ["ann", "bob", "cy"]
    for annotations in ([["a", "b"]], [{"a": 1, "b": 2}]):
        with pytest.raises(ValueError, match="must name annotators"):
            annotator_quality(annotations)


RIGHT = {"ann": 0.95, "bob": 0.75, "cy": 0.5}


@pytest.fixture
def simulated(rng):
    """Three annotators who are right more or less often, with missing answers: table and truth."""
    y = rng.randint(5, size=2000)
    table = {
        name: np.where(rng.uniform(size=2000) < right, y, (y + rng.randint(1, 5, 2000)) % 5)
        for name, right in RIGHT.items()
    }
    table = pd.DataFrame(table).map("vwxyz".__getitem__)
    table = table.where(rng.uniform(size=table.shape) > 0.1)
    table.loc[table.isna().all(axis=1), "ann"] = "v"
    return table, y


def test_the_accuracy_of_annotators_is_found(simulated):
    table, _ = simulated
    quality = annotator_quality(table)
    np.testing.assert_allclose(quality["accuracy"], list(RIGHT.values()), atol=0.04)
    # what the function found before it was rewritten
    np.testing.assert_allclose(quality["accuracy"], [0.943760, 0.755824, 0.506390], atol=1e-5)
    assert quality["answers"].tolist() == table.notna().sum().tolist()
    assert quality["agreement"].is_monotonic_decreasing
    by_row = table.reset_index().melt("index", var_name="rater", value_name="label")
    again = annotator_quality(by_row.rename(columns={"index": "item"}))
    np.testing.assert_allclose(again, quality, atol=1e-9)


def test_accuracies_come_from_shared_items(simulated):
    table, _ = simulated
    alone = pd.concat([table, pd.DataFrame({"dee": list("vwxyz")})], ignore_index=True)
    accuracies = annotator_quality(alone)["accuracy"]
    np.testing.assert_allclose(accuracies, [*annotator_quality(table)["accuracy"], np.nan])
    S = candidates_from_annotations(alone, weights="accuracy")
    np.testing.assert_array_equal(S[-5:], np.eye(5))
    del alone["cy"]
    assert annotator_quality(alone)["accuracy"].isna().all()
    with pytest.raises(ValueError, match="three annotators who share items, got 2"):
        candidates_from_annotations(alone, weights="accuracy", unlabeled="all")


def test_agreement_counts_the_others_labels():
    table = pd.DataFrame([["a", "a", "b"], ["a", None, "a"], ["b", None, None]])
    quality = annotator_quality(table)
    assert quality["agreement"].tolist() == [2 / 3, 1 / 2, 1 / 3]
    assert quality["answers"].tolist() == [3, 1, 2]


def test_accurate_annotators_decide(simulated):
    table, y = simulated
    right = {}
    for weights in ("count", "accuracy"):
        S = candidates_from_annotations(table, weights=weights).to_numpy()
        np.testing.assert_allclose(S.sum(axis=1), 1)
        right[weights] = (S.argmax(axis=1) == y).mean()
    assert right["accuracy"] > right["count"] + 0.02


def test_a_hundred_thousand_rows_take_seconds(rng):
    items, labels = np.repeat(np.arange(25_000), 4), rng.randint(10, size=100_000)
    columns = {"task": items, "worker": rng.randint(200, size=100_000), "label": labels}
    table = pd.DataFrame(columns).assign(label=labels.astype(str))
    start = time.process_time()
    S = candidates_from_annotations(table, weights="accuracy")
    assert S.shape == (25_000, 10)
    assert len(annotator_quality(table)) == 200
    assert time.process_time() - start < 20


def test_candidates_in_tables_of_arrow_are_read():
    frame = pd.DataFrame({"a": [1, 0], "b": [1, 1]})
    assert check_candidates(pa.Table.from_pandas(frame)).to_frame().equals(frame.astype(bool))
    assert check_candidates(pa.array(["b", "a"])).classes.tolist() == ["a", "b"]
    assert check_candidates(pa.array([["b", "a"], ["a"]])).sizes.tolist() == [2, 1]
