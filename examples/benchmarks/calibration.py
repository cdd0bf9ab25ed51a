"""Calibration and coverage of probabilities that are found by candidates alone.

    python examples/benchmarks/calibration.py --data-home ../shared/data --out lines.jsonl

Candidates are generated on ordinary data; true labels only score. Each set's first 1,500 rows in
random order are predicted in three folds, by models of the other two, and scored together.

First table: accuracy, mean probability of the prediction, expected calibration error before and
after tempering, and the error that labels drawn by these very probabilities would have ("chance").

Second table: ``predict_set``: coverage, labels per set, and the coverage of the worst class.
"""

import numpy as np
import pandas as pd
from protocol import SETS, SOURCES, load, make_parser, report, use_one_thread
from sklearn.model_selection import KFold

from sklearn_cleanse import CleanSEClassifier, CleanSEKernelClassifier
from sklearn_cleanse.calibration import temper
from sklearn_cleanse.datasets import make_candidates
from sklearn_cleanse.metrics import expected_calibration_error

METHODS = {"kernel": CleanSEKernelClassifier, "network": CleanSEClassifier}
WHAT = ["accuracy", "probability", "before", "error", "chance", "coverage", "labels"]


def predict(make, X, S, seed, coverage):
    """Return probabilities before and after tempering, and prediction sets, of all rows."""
    before, proba, sets = np.empty(S.shape), np.empty(S.shape), np.empty(S.shape, dtype=bool)
    for rows, new in KFold(3, shuffle=True, random_state=seed).split(X):
        model = make(random_state=seed).fit(X[rows], S[rows])
        proba[new], sets[new] = model.predict_proba(X[new]), model.predict_set(X[new], coverage)
        before[new] = np.exp(temper(np.log(proba[new]), 1 / model.proba_temperature_))
    return before, proba, sets


def measure(names, methods, sources, seeds, coverage, data_home):
    error = expected_calibration_error
    for name, seed in ((name, seed) for name in names for seed in range(seeds)):
        X, y = load(name, data_home)
        rng, classes = np.random.RandomState(seed), np.arange(y.max() + 1)
        rows = rng.permutation(len(y))[:1500]
        X, y = X[rows], y[rows]
        for source, method in ((source, method) for source in sources for method in methods):
            options = {"flip_proba": 0.3, "X": X, "classes": classes, "random_state": seed}
            S = make_candidates(y, source, **options)
            before, proba, sets = predict(METHODS[method], X, S, seed, coverage)
            drawn = (rng.uniform(size=(len(y), 1)) > proba.cumsum(axis=1)[:, :-1]).sum(axis=1)
            covers, labels = sets[np.arange(len(y)), y], sets.sum(axis=1).mean()
            errors = [error(t, p, classes=classes) for t, p in ((y, before), (y, proba))]
            errors += [error(drawn, proba, classes=classes)]
            values = [(proba.argmax(axis=1) == y).mean(), proba.max(axis=1).mean(), *errors]
            values += [covers.mean(), labels]
            worst = min(covers[y == label].mean() for label in np.unique(y))
            row = {"set": name, "source": source, "method": method, "seed": seed}
            yield row | dict(zip(WHAT, values, strict=True)) | {"worst class": worst}


if __name__ == "__main__":
    parser = make_parser(__doc__, data=True)
    parser.add_argument("--names", nargs="+", default=[*SETS, "led7digit", "movement_libras"])
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--sources", nargs="+", default=SOURCES)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--coverage", type=float, default=0.9)
    args = vars(parser.parse_args())
    use_one_thread()
    out = args.pop("out")
    lines = report(measure(**args), out)
    groups = pd.DataFrame(lines).groupby(["source", "method"], sort=False)
    for columns in (WHAT[:5], [*WHAT[5:], "worst class"]):
        least = groups[columns[0]].min().rename(f"least {columns[0]}")
        report(groups[columns].mean().join(least).reset_index().to_dict("records"))
