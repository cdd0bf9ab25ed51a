"""Wrong candidate sets, rare classes, verdicts of `explain`, and rows to label next.

    python examples/benchmarks/robustness.py noise --names vehicle vowel segment --out lines.jsonl
    python examples/benchmarks/robustness.py rare --ratios 100 --seeds 2 --out lines.jsonl
    python examples/benchmarks/robustness.py verdicts --names vowel segment vehicle led7digit
    python examples/benchmarks/robustness.py labeling --sources flip --seeds 10

Candidates are generated on ordinary data; one thread; new rows are scored by their true labels.

noise: prints the accuracy where a proportion of the sets lacks the true label, for methods that
assume none, that estimate the proportion ("auto", with the estimate), and for a kernel to which
wrong sets are marked: there every label is a candidate, which is roughly the most one can expect.

rare: class sizes fall geometrically. Prints the accuracy on new rows of the same class proportions
and the balanced accuracy (mean recall), without and with ``class_prior="uniform"``.

verdicts: explains 200 ambiguous training rows. Prints how many have each verdict, how often it is
right ("no candidate fits" if the set lacks the true label, any other if the choice is the true
label), and how often most similar rows were resolved as the choice.

labeling: 700 training rows. Prints the accuracy before and after 35 of them are labeled: those of
least margin by `rank_for_labeling`, or ambiguous ones drawn at random.
"""

from itertools import product

import numpy as np
import pandas as pd
from protocol import SETS, SOURCES, load, make_parser, report, split, use_one_thread
from sklearn.metrics import recall_score

from sklearn_cleanse import CleanSEClassifier, CleanSEKernelClassifier, PartialLabelClassifier
from sklearn_cleanse.datasets import long_tail_rows, make_candidates
from sklearn_cleanse.inspection import explain, rank_for_labeling

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
VERDICTS = ["clear", "not certain", "close call", "no candidate fits"]


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


def verdicts(names, seeds, data_home, sources, rates, **_):
    for name, seed, (X, y, *_) in problems(names, seeds, data_home):
        for source, rate in product(sources, rates):
            options = {"flip_proba": 0.3, "noise_rate": rate, "X": X, "random_state": seed}
            S = make_candidates(y, source, **options)
            rows = np.flatnonzero(S.sum(axis=1) > 1)[:200]
            found = explain(CleanSEKernelClassifier(random_state=seed).fit(X, S), X[rows], S[rows])
            truth = np.where(S[rows, y[rows]], y[rows], None)
            claim = [None if why.verdict == VERDICTS[-1] else why.label for why in found]
            agree = [why.candidates["n_similar"].idxmax() == 0 for why in found]
            table = 100.0 * pd.DataFrame({"right, %": truth == claim, "agree, %": agree})
            table["verdict"] = [why.verdict for why in found]
            for verdict in VERDICTS:
                part = table[table["verdict"] == verdict].drop(columns="verdict")
                row = {"set": name, "source": source, "noise rate": rate, "seed": seed}
                row |= {"verdict": verdict, "rows, %": 100 * len(part) / len(table)}
                yield row | part.mean().to_dict()


def labeling(names, seeds, data_home, sources, **_):
    for name, seed, (X, y, X_new, y_new) in problems(names, seeds, data_home):
        X, y = X[:700], y[:700]
        for source in sources:
            S = make_candidates(y, source, flip_proba=0.3, X=X, random_state=seed)
            model = CleanSEKernelClassifier(random_state=seed).fit(X, S)
            drawn = np.random.RandomState(seed).permutation(np.flatnonzero(S.sum(axis=1) > 1))[:35]
            chosen = {"margin": rank_for_labeling(model, X, S, n=35)["row"], "random": drawn}
            row = {"set": name, "source": source, "seed": seed}
            row["before"] = 100 * model.score(X_new, y_new)
            for order, rows in chosen.items():
                known = S.copy()
                known[rows] = np.eye(S.shape[1], dtype=bool)[y[rows]]
                row[order] = 100 * model.fit(X, known).score(X_new, y_new)
            yield row


def mean_over(rows, what, by):
    """Return the means over sets and seeds."""
    means = pd.DataFrame(rows).groupby(by, sort=False)[what].mean()
    return means.reset_index().to_dict("records")


PARTS = {
    "noise": (noise, ["accuracy, %", "estimate"], ["method", "noise rate"]),
    "rare": (rare, ["accuracy, %", "balanced, %"], ["method", "prior", "ratio"]),
    "verdicts": (
        verdicts,
        ["rows, %", "right, %", "agree, %"],
        ["noise rate", "source", "verdict"],
    ),
    "labeling": (labeling, ["before", "margin", "random"], ["source"]),
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
