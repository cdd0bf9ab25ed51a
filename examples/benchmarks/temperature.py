"""Calibration error before and after a temperature that candidates alone have chosen.

Half of the rows are trained on, a quarter chooses the temperature by its candidates, and the rest
measures the error by true labels. "by labels" is what true labels would have chosen.
"""

import argparse

import ordinary_sets

from sklearn_cleanse import CleanSEKernelClassifier
from sklearn_cleanse.datasets import make_candidates
from sklearn_cleanse.metrics import candidate_temperature, expected_calibration_error


def main(names, kinds, data_home):
    numbers = f"{'dependence_':>12}{'T':>6}{'before':>9}{'after':>8}{'by labels':>11}"
    print(f"{'set':<10}{'candidates':<12}{numbers}")
    for name in names:
        X, y, X_rest, y_rest = ordinary_sets.split(*ordinary_sets.load(name, data_home), seed=0)
        n = len(X) * 5 // 8
        for kind in kinds:
            S = make_candidates(y, kind, flip_proba=0.3, X=X, random_state=0)
            model = CleanSEKernelClassifier(random_state=0).fit(X[:n], S[:n])
            held_out, new = model.predict_log_proba(X[n:]), model.predict_log_proba(X_rest)
            ours = candidate_temperature(S[n:], held_out, log=True)
            best = candidate_temperature(y[n:], held_out, log=True, classes=model.classes_)
            errors = [
                expected_calibration_error(y_rest, new / t, log=True, classes=model.classes_)
                for t in (1.0, ours, best)
            ]
            before, after, by_labels = errors
            numbers = f"{ours:>6.2f}{before:>9.3f}{after:>8.3f}{by_labels:>11.3f}"
            print(f"{name:<10}{kind:<12}{model.dependence_:>12.2f}{numbers}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--names", nargs="+", default=["digits", "segment", "vowel", "vehicle"])
    parser.add_argument("--kinds", nargs="+", default=["flip", "bag", "confusable", "instance"])
    parser.add_argument("--data-home")
    main(**vars(parser.parse_args()))
