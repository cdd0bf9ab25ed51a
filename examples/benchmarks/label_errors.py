"""Find wrong labels and wrong candidate sets, beside cleanlab (``pip install cleanlab``).

    python examples/benchmarks/label_errors.py --out lines.jsonl
    python examples/benchmarks/label_errors.py --part messy --seeds 2

labels: a proportion of the labels is replaced by another one, at random or by one of a similar
class (as a logistic regression confuses them). Prints the area under the ROC curve of
`find_candidate_issues` by its own kernel and by out-of-fold probabilities of a logistic regression
and an RBF-SVM, and that of cleanlab by the same probabilities, if it is installed.

sets: wrong candidate sets, which cleanlab does not find. Prints how many rows are listed, precision
and recall of the list, the area, and "in top", the proportion of the wrong sets among the first 1.5
times as many rows.

messy: the same for a table with missing values, a column of forty levels and three annotators of
different accuracy, whose annotations give the candidates prior weights or plain sets. One thread.
"""

import numpy as np
import pandas as pd
from protocol import load, make_parser, report, use_one_thread
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from sklearn_cleanse.datasets import candidates_from_annotations, make_candidates
from sklearn_cleanse.inspection import find_candidate_issues

try:
    from cleanlab.rank import get_label_quality_scores
except ImportError:
    get_label_quality_scores = None

MODELS = {
    "logistic": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
    "svm": lambda: make_pipeline(StandardScaler(), CalibratedClassifierCV(SVC(), ensemble=False)),
}


def replaced(X, y, rate, similar, seed):
    """Return the labels with a proportion of them wrong, and which are."""
    if not similar:
        S = make_candidates(y, "flip", flip_proba=0.0, noise_rate=rate, random_state=seed)
        return S.argmax(axis=1), S.argmax(axis=1) != y
    rng = np.random.RandomState(seed)
    proba = MODELS["logistic"]().fit(X, y).predict_proba(X) ** 0.3
    proba[np.arange(len(y)), y] = 0
    cumulated = np.cumsum(proba / proba.sum(axis=1, keepdims=True), axis=1)
    other = (cumulated < rng.uniform(size=(len(y), 1))).sum(axis=1)
    wrong = np.zeros(len(y), dtype=bool)
    wrong[rng.permutation(len(y))[: round(rate * len(y))]] = True
    return np.where(wrong, other, y), wrong


def scores(X, S, **params):
    """Return each row's score."""
    issues = find_candidate_issues(X, S, include="all", **params)
    return issues.set_index("row")["score"].loc[range(len(issues))].to_numpy()


def quality(wrong, score):
    first = np.argsort(-score, kind="stable")[: int(1.5 * wrong.sum())]
    return {"area": roc_auc_score(wrong, score), "in top": wrong[first].sum() / wrong.sum()}


def labels(names, rate, seeds, data_home):
    for name in names:
        X, y = load(name, data_home)
        for errors in ("random", "similar"):
            for seed in range(seeds):
                noisy, wrong = replaced(X, y, rate, errors == "similar", seed)
                found = {"issues": scores(X, noisy, random_state=seed)}
                for model, make in MODELS.items():
                    params = {"estimator": make(), "random_state": seed}
                    found[f"issues, {model}"] = scores(X, noisy, **params)
                    if get_label_quality_scores is not None:
                        folds = StratifiedKFold(5, shuffle=True, random_state=seed)
                        params = {"cv": folds, "method": "predict_proba"}
                        proba = cross_val_predict(make(), X, noisy, **params)
                        found[f"cleanlab, {model}"] = 1 - get_label_quality_scores(noisy, proba)
                for method, score in found.items():
                    row = {"set": name, "errors": errors, "method": method, "seed": seed}
                    yield row | quality(wrong, score)


def sets(names, rate, seeds, data_home):
    for name in names:
        X, y = load(name, data_home)
        for source in ("flip", "bag"):
            for seed in range(seeds):
                params = {"flip_proba": 0.3, "noise_rate": rate, "random_state": seed}
                S = make_candidates(y, source, **params)
                wrong = ~S[np.arange(len(y)), y]
                found = wrong[find_candidate_issues(X, S, random_state=seed)["row"]]
                row = {"set": name, "source": source, "seed": seed, "listed": len(found)}
                row |= {"precision": found.mean(), "recall": found.sum() / wrong.sum()}
                yield row | quality(wrong, scores(X, S, random_state=seed))


def messy_table(rate, seed, n_rows=800, n_classes=4):
    """Return features, prior weights and which sets are wrong.

    The annotators know 90, 75 and 40 % of the labels and guess otherwise; then a proportion of the
    rows has the true label removed from the annotations.
    """
    rng = np.random.RandomState(seed)
    y = rng.randint(n_classes, size=n_rows)
    X = pd.DataFrame(np.eye(n_classes)[y] + rng.normal(scale=0.5, size=(n_rows, n_classes)))
    X = X.mask(rng.uniform(size=X.shape) < 0.1).rename(columns=str)
    level = np.where(rng.uniform(size=n_rows) < 0.5, 10 * y, 0) + rng.randint(10, size=n_rows)
    X["level"] = [f"level {number}" for number in level]
    wrong = np.zeros(n_rows, dtype=bool)
    wrong[rng.permutation(n_rows)[: round(rate * n_rows)]] = True
    annotations = {}
    for name, knows in (("ann", 0.9), ("bob", 0.75), ("cy", 0.4)):
        label = np.where(rng.uniform(size=n_rows) < knows, y, rng.randint(n_classes, size=n_rows))
        mistaken = (y + rng.randint(1, n_classes, size=n_rows)) % n_classes
        annotations[name] = np.where(wrong & (label == y), mistaken, label)
    S = candidates_from_annotations(pd.DataFrame(annotations), weights="accuracy")
    return X, S, ~(S.to_numpy()[np.arange(n_rows), y] > 0)


def messy(names, rate, seeds, data_home):
    for form in ("prior weights", "plain sets"):
        for seed in range(seeds):
            X, S, wrong = messy_table(rate, seed)
            candidates = S if form == "prior weights" else S > 0
            score = scores(pd.get_dummies(X, dtype=float), candidates, random_state=seed)
            yield {"set": "messy", "candidates": form, "seed": seed} | quality(wrong, score)


PARTS = {"labels": labels, "sets": sets, "messy": messy}

if __name__ == "__main__":
    parser = make_parser(__doc__, data=True)
    parser.add_argument("--part", choices=PARTS, nargs="+", default=list(PARTS))
    parser.add_argument("--names", nargs="+", default=["digits", "segment"])
    parser.add_argument("--rate", type=float, default=0.2, help="proportion that is wrong")
    parser.add_argument("--seeds", type=int, default=2)
    args = vars(parser.parse_args())
    use_one_thread()
    parts, out = args.pop("part"), args.pop("out")
    for part in parts:
        report(PARTS[part](**args), out)
