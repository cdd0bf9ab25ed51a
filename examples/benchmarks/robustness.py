"""Wrong candidate sets, rare classes, and probabilities that hold.

    python examples/benchmarks/robustness.py noise --names vehicle vowel segment --out lines.jsonl
    python examples/benchmarks/robustness.py rare --ratios 100 --seeds 2 --out lines.jsonl
    python examples/benchmarks/robustness.py probabilities --out lines.jsonl

Candidates are generated on ordinary data; one thread; new rows are scored by their true labels.

noise: prints the accuracy where a proportion of the sets lacks the true label, for methods that
assume none, that estimate the proportion ("auto", with the estimate), and for a kernel to which
wrong sets are marked: there every label is a candidate, which is roughly the most one can expect.

rare: class sizes fall geometrically. Prints the accuracy on new rows of the same class proportions
and the balanced accuracy (mean recall), without and with ``class_prior="uniform"``.

probabilities: prints accuracy, mean probability of the prediction, and expected calibration error.
"""

import numpy as np
from protocol import SETS, load, make_parser, report, split, use_one_thread
from sklearn.metrics import recall_score

from sklearn_cleanse import CleanSEClassifier, CleanSEKernelClassifier, PartialLabelClassifier
from sklearn_cleanse.datasets import long_tail_rows, make_candidates
from sklearn_cleanse.metrics import expected_calibration_error

METHODS = {
    "CC": lambda **params: PartialLabelClassifier("cc", **params),
    "PRODEN": lambda **params: PartialLabelClassifier("proden", **params),
    "CleanSE": CleanSEClassifier,
    "kernel": CleanSEKernelClassifier,
}
AUTO = {
    f"{name}, auto": lambda make=METHODS[name], **params: make(noise_rate="auto", **params)
    for name in ("CleanSE", "kernel")
}
MARKED = {"kernel, marked": CleanSEKernelClassifier}
SOURCES = ["flip", "bag", "class-dependent", "instance-dependent"]


def problems(names, seeds, data_home):
    """Yield name, seed, and training and test rows."""
    for name in names:
        X, y = load(name, data_home)
        for seed in range(seeds):
            yield name, seed, split(X, y, seed)


def noise(names, seeds, data_home, rates, **_):
    for name, seed, (X, y, X_new, y_new) in problems(names, seeds, data_home):
        for rate in rates:
            S = make_candidates(y, "flip", flip_proba=0.3, noise_rate=rate, X=X, random_state=seed)
            is_right = S[np.arange(len(S)), y][:, None]
            for method, make in (METHODS | AUTO | MARKED).items():
                sets = S | ~is_right if method in MARKED else S
                model = make(random_state=seed).fit(X, sets)
                accuracy, found = 100 * model.score(X_new, y_new), getattr(model, "noise_rate_", 0)
                row = {"set": name, "method": method, "seed": seed, "noise rate": rate}
                yield row | {"accuracy, %": accuracy, "estimate": float(found)}


def rare(names, seeds, data_home, ratios, **_):
    for name, seed, (X, y, X_new, y_new) in problems(names, seeds, data_home):
        classes = np.unique(y)
        for ratio in ratios:
            rows = long_tail_rows(y, ratio, random_state=seed)
            S = make_candidates(y[rows], "flip", flip_proba=0.3, classes=classes, random_state=seed)
            proportions = np.bincount(y[rows], minlength=len(classes)) / len(rows)
            for method, make in METHODS.items():
                model = make(random_state=seed).fit(X[rows], S)
                for prior in (None, "uniform"):
                    predicted = model.set_params(class_prior=prior).predict(X_new)
                    recall = recall_score(y_new, predicted, average=None, labels=classes)
                    row = {"set": name, "method": method, "prior": str(prior)}
                    row |= {"seed": seed, "ratio": ratio, "accuracy, %": 100 * proportions @ recall}
                    yield row | {"balanced, %": 100 * recall.mean()}


def probabilities(names, seeds, data_home, sources, **_):
    for name, seed, (X, y, X_new, y_new) in problems(names, seeds, data_home):
        for source in sources:
            S = make_candidates(y, source, flip_proba=0.3, X=X, random_state=seed)
            for method, make in METHODS.items():
                model = make(random_state=seed).fit(X, S)
                proba = model.predict_proba(X_new)
                error = expected_calibration_error(y_new, proba, classes=model.classes_)
                row = {"set": name, "source": source, "method": method, "seed": seed}
                row |= {"accuracy, %": 100 * model.score(X_new, y_new)}
                yield row | {"probability": proba.max(axis=1).mean(), "error": error}


def mean_over(rows, what, by):
    """Yield the means over sets and seeds."""
    groups = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in by), []).append([row[n] for n in what])
    for key, values in groups.items():
        means = np.mean(values, axis=0)
        yield {"mean": "of all"} | dict(zip((*by, *what), (*key, *means), strict=True))


PARTS = {
    "noise": (noise, ["accuracy, %", "estimate"], ["method", "noise rate"]),
    "rare": (rare, ["accuracy, %", "balanced, %"], ["method", "prior", "ratio"]),
    "probabilities": (
        probabilities,
        ["accuracy, %", "probability", "error"],
        ["source", "method"],
    ),
}

if __name__ == "__main__":
    parser = make_parser(__doc__, data=True)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--names", nargs="+", default=SETS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rates", type=float, nargs="+", default=[0.0, 0.1, 0.2, 0.4])
    parser.add_argument("--ratios", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--sources", nargs="+", default=SOURCES)
    args = vars(parser.parse_args())
    use_one_thread()
    run, what, by = PARTS[args.pop("part")]
    out = args.pop("out")
    report(mean_over(report(run(**args), out), what, by))
