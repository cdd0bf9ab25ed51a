"""Find wrong labels and wrong candidate sets, beside cleanlab (``pip install cleanlab``).

Label errors: a share of the labels is replaced by another one, at random or by one of a similar
class (as a logistic regression confuses them). cleanlab ranks labels by the out-of-fold
probabilities of a classifier, logistic regression as in its tutorials, or an RBF-SVM. Wrong sets,
which cleanlab does not know, follow for `find_candidate_issues` alone: "in top" is the share of the
wrong sets among the first 1.5 times as many rows. Last, `--messy`: a table with gaps, a column of
forty levels and three annotators of different quality, whose votes grade the candidates.
"""

import argparse

import numpy as np
import ordinary_sets
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

from sklearn_cleanse import find_candidate_issues
from sklearn_cleanse.datasets import candidates_from_votes, make_candidates

MODELS = {
    "logistic": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
    "svm": lambda: make_pipeline(StandardScaler(), SVC(probability=True, random_state=0)),
}


def replaced(X, y, share, similar, seed):
    """Return the labels with a share of them wrong, and which are."""
    if not similar:
        S = make_candidates(y, "flip", flip_proba=0.0, noise=share, random_state=seed)
        return S.argmax(axis=1), S.argmax(axis=1) != y
    rng = np.random.RandomState(seed)
    proba = MODELS["logistic"]().fit(X, y).predict_proba(X) ** 0.3
    proba[np.arange(len(y)), y] = 0
    cumulated = np.cumsum(proba / proba.sum(axis=1, keepdims=True), axis=1)
    other = (cumulated < rng.uniform(size=(len(y), 1))).sum(axis=1)
    wrong = np.zeros(len(y), dtype=bool)
    wrong[rng.permutation(len(y))[: round(share * len(y))]] = True
    return np.where(wrong, other, y), wrong


def score_of(issues, n_samples):
    """Return each row's score."""
    score = np.zeros(n_samples)
    np.maximum.at(score, issues["row"], issues["score"])
    return score


def in_top(wrong, score):
    first = np.argsort(-score, kind="stable")[: int(1.5 * wrong.sum())]
    return wrong[first].sum() / wrong.sum()


def messy_table(share, seed, n_rows=800, n_classes=4):
    """Return features with gaps and forty levels, graded candidates, and which sets are wrong.

    The annotators know 90, 75 and 40 % of the labels and guess else; then a share of the rows has
    the true label taken out of what they said.
    """
    rng = np.random.RandomState(seed)
    y = rng.randint(n_classes, size=n_rows)
    X = pd.DataFrame(np.eye(n_classes)[y] + rng.normal(scale=0.5, size=(n_rows, n_classes)))
    X = X.mask(rng.uniform(size=X.shape) < 0.1).rename(columns=str)
    level = np.where(rng.uniform(size=n_rows) < 0.5, 10 * y, 0) + rng.randint(10, size=n_rows)
    X["level"] = [f"level {number}" for number in level]
    wrong = np.zeros(n_rows, dtype=bool)
    wrong[rng.permutation(n_rows)[: round(share * n_rows)]] = True
    votes = {}
    for name, knows in (("ann", 0.9), ("bob", 0.75), ("cy", 0.4)):
        said = np.where(rng.uniform(size=n_rows) < knows, y, rng.randint(n_classes, size=n_rows))
        mistaken = (y + rng.randint(1, n_classes, size=n_rows)) % n_classes
        votes[name] = np.where(wrong & (said == y), mistaken, said)
    S = candidates_from_votes(pd.DataFrame(votes), grade="quality")
    return X, S, ~(S.to_numpy()[np.arange(n_rows), y] > 0)


def messy(share, seeds):
    """Print how well wrong sets of messy tables are found."""
    print(f"Messy table, {share:.0%} of the sets made wrong")
    print(f"{'candidates':<12}{'area':>6}{'in top':>8}")
    for form in ("graded", "plain"):
        found = []
        for seed in range(seeds):
            X, S, wrong = messy_table(share, seed)
            encode = make_column_transformer(
                (OneHotEncoder(handle_unknown="ignore"), ["level"]), remainder="passthrough"
            )
            sets = S if form == "graded" else S > 0
            issues = find_candidate_issues(
                encode.fit_transform(X), sets, min_score=0, random_state=seed
            )
            score = score_of(issues, len(X))
            found.append([roc_auc_score(wrong, score), in_top(wrong, score)])
        area, top = np.mean(found, axis=0)
        print(f"{form:<12}{area:>6.3f}{top:>8.2f}", flush=True)


def main(names, share, seeds, data_home):
    from cleanlab.rank import get_label_quality_scores

    columns = [*(f"cleanlab, {m}" for m in MODELS), "issues", *(f"issues, {m}" for m in MODELS)]
    print(f"Label errors, {share:.0%}: area under the ROC curve")
    print(f"{'set':<10}{'errors':<10}", *(f"{name:>18}" for name in columns))
    for name in names:
        X, y = ordinary_sets.load(name, data_home)
        for errors in ("random", "similar"):
            found = []
            for seed in range(seeds):
                labels, wrong = replaced(X, y, share, errors == "similar", seed)
                folds = StratifiedKFold(5, shuffle=True, random_state=seed)
                theirs, ours = [], [find_candidate_issues(X, labels, min_score=0)]
                for make in MODELS.values():
                    proba = cross_val_predict(make(), X, labels, cv=folds, method="predict_proba")
                    theirs.append(1 - get_label_quality_scores(labels, proba))
                    model = {"estimator": make(), "random_state": seed}
                    ours.append(find_candidate_issues(X, labels, min_score=0, **model))
                scores = [*theirs, *(score_of(issues, len(y)) for issues in ours)]
                found.append([roc_auc_score(wrong, score) for score in scores])
            cells = " ".join(f"{value:18.3f}" for value in np.mean(found, axis=0))
            print(f"{name:<10}{errors:<10} {cells}", flush=True)
    print(f"\nWrong sets, {share:.0%}\n{'set':<10}{'candidates':<12}{'area':>6}{'in top':>8}")
    for name in names:
        X, y = ordinary_sets.load(name, data_home)
        for kind in ("flip", "bag"):
            S = make_candidates(y, kind, flip_proba=0.3, noise=share, random_state=0)
            wrong = ~S[np.arange(len(y)), y]
            score = score_of(find_candidate_issues(X, S, min_score=0), len(y))
            area, top = roc_auc_score(wrong, score), in_top(wrong, score)
            print(f"{name:<10}{kind:<12}{area:>6.3f}{top:>8.2f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--names", nargs="+", default=["digits", "segment"])
    parser.add_argument("--share", type=float, default=0.2)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--data-home")
    parser.add_argument("--messy", action="store_true", help="only the messy table")
    arguments = vars(parser.parse_args())
    if arguments.pop("messy"):
        messy(arguments["share"], arguments["seeds"])
    else:
        main(**arguments)
