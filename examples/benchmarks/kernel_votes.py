"""What kernel votes cost: seconds and memory by the number of rows, exact and by landmarks.

Each size runs in a process of its own, whose peak resident size, less that before the fit, is the
memory shown. The last column is the accuracy on new rows.
"""

import argparse
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context


def run(n_samples, n_features, n_classes, n_landmarks):
    from sklearn_cleanse import CleanSEKernelClassifier
    from sklearn_cleanse.datasets import make_partial_classification

    n_test = 2000
    X, S, y = make_partial_classification(
        n_samples + n_test, n_features, n_classes, kind="flip", flip_proba=0.05, random_state=0
    )
    X = X.astype("float32")
    CleanSEKernelClassifier().fit(X[:200], S[:200])  # imports and first calls
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    model = CleanSEKernelClassifier(n_landmarks=n_landmarks, random_state=0)
    model.fit(X[:n_samples], S[:n_samples])
    seconds = time.perf_counter() - began
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    accuracy = (model.predict(X[n_samples:]) == y[n_samples:]).mean()
    return model.n_landmarks_, seconds, memory, accuracy


def main(rows, n_features, n_classes, n_landmarks):
    print(f"{n_features} features, {n_classes} classes\n")
    print(f"{'rows':>8}{'landmarks':>11}{'seconds':>9}{'MiB':>8}{'accuracy, %':>13}")
    for n_samples in rows:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            found = pool.submit(run, n_samples, n_features, n_classes, n_landmarks).result()
        count, seconds, memory, accuracy = found
        print(f"{n_samples:>8}{count:>11}{seconds:>9.1f}{memory:>8.0f}{100 * accuracy:>13.1f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[1000, 5000, 20_000, 100_000])
    parser.add_argument("--features", type=int, default=100)
    parser.add_argument("--classes", type=int, default=50)
    parser.add_argument("--landmarks", type=int, default=None, help="instead of the automatic ones")
    args = parser.parse_args()
    main(args.rows, args.features, args.classes, args.landmarks or "auto")
