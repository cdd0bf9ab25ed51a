"""Time, memory and error of the count loss beside the plain log-space recursion.

    python examples/benchmarks/count_loss.py            # the whole table, about two minutes
    python examples/benchmarks/count_loss.py --quick    # small sizes only

Each line measures value + gradient of the sum of interval log-probabilities, float64 logits, for

plain
    the log-space recursion over rows under autograd, with a table of n + 1 counts per class, as
    published code has it;
cut
    the same recursion with its table cut at the largest upper bound, which is the fairer rival;
ours
    :func:`sklearn_cleanse.counts.interval_log_prob`.

The three run in turn, so that other load on the machine hits them alike. Times are the fastest of
the runs, which load disturbs least, and the ratios are of these; "median" is the median over the
turns of plain/ours. With two threads on a busy machine torch's threads wait for each other, which
slows the recursion out of proportion: believe those lines only on a quiet one.
Memory is the peak of each allocation profile, in a run of its own. The error is the largest
relative error of a probability, measured in extended precision.
"""

import argparse
import math
import time
import tracemalloc

import numpy as np
import torch
from skorch.callbacks import Callback
from torch.profiler import ProfilerActivity, profile

from sklearn_cleanse import CleanSEClassifier
from sklearn_cleanse.counts import COUNT_LOSSES, interval_log_prob

SIZES = [
    ("16 x 10", 16, 10, "real"),
    ("64 x 16", 64, 16, "real"),
    ("64 x 219", 64, 219, "real"),
    ("256 x 10", 256, 10, "real"),
    ("256 x 171", 256, 171, "real"),
    ("256 x 171 wide", 256, 171, "wide"),
    ("1024 x 10", 1024, 10, "real"),
]


def make_candidates(n, m, rng):
    share = 1.0 / np.arange(1, m + 1)
    truth = rng.choice(m, size=n, p=share / share.sum())
    sets = rng.random((n, m)) < 1.0 / m
    sets[np.arange(n), truth] = True
    return sets, truth


def make_problem(n, m, kind, rng):
    """Softmax log-odds and the bounds of a batch: long-tailed labels, two candidates a row.

    "real" bounds are counted on such candidate sets, as in training; "wide" ones span half of
    [0, n] around the middle.
    """
    sets, truth = make_candidates(n, m, rng)
    logits = torch.tensor(rng.normal(size=(n, m)) + 3.0 * np.eye(m)[truth])
    p = torch.softmax(logits, 1)
    log_odds = p.log() - torch.log1p(-p)
    if kind == "wide":
        lower, upper = np.full(m, n // 4), np.full(m, 3 * n // 4)
    else:
        clean = sets.sum(1) == 1
        lower, upper = sets[clean].sum(0), sets.sum(0)
    return log_odds, torch.tensor(lower), torch.tensor(upper)


def recursion(logits, lower, upper, size):
    """The log-space recursion under autograd; -1e30 stands for log 0 (-inf has NaN gradients)."""
    m = logits.shape[1]
    one, zero = torch.nn.functional.logsigmoid(logits), torch.nn.functional.logsigmoid(-logits)
    never = torch.full((1, m), -1e30, dtype=logits.dtype)
    table = torch.cat([torch.zeros(1, m, dtype=logits.dtype), never.expand(size, m)])
    for i in range(len(logits)):
        table = torch.logaddexp(table + zero[i], torch.cat([never, table[:-1]]) + one[i])
    k = torch.arange(size + 1)[:, None]
    return torch.logsumexp(table.masked_fill((k < lower) | (k > upper), -1e30), 0)


def exact(logits, lower, upper):
    z = logits.numpy().astype(np.longdouble)
    size = int(upper.max())
    p, q = 1 / (1 + np.exp(-z)), 1 / (1 + np.exp(z))
    table = np.zeros((size + 1, z.shape[1]), dtype=np.longdouble)
    table[0] = 1
    for i in range(len(z)):
        table[1:] = table[1:] * q[i] + table[:-1] * p[i]
        table[0] *= q[i]
    k = np.arange(size + 1)[:, None]
    return np.where((k >= lower.numpy()) & (k <= upper.numpy()), table, 0).sum(0)


def once(function, logits):
    logits = logits.detach().requires_grad_()
    value = function(logits)
    value.sum().backward()
    return value.detach()


def timed(functions, logits, seconds):
    """Times of each function, run in turn: (functions, turns)."""
    for function in functions:
        once(function, logits)
    times = [[] for _ in functions]
    stop = time.perf_counter() + seconds
    while time.perf_counter() < stop or len(times[0]) < 3:
        for function, record in zip(functions, times, strict=True):
            start = time.perf_counter()
            once(function, logits)
            record.append(time.perf_counter() - start)
    return np.array(times)


def peak_memory(function, logits):
    """Peak bytes above the start: torch's allocations from its profiler, numpy's from Python's."""
    tracemalloc.start()
    once(function, logits)
    peak_numpy = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        once(function, logits)
    level = peak = 0
    for event in record.profiler.kineto_results.events():
        if event.name() == "[memory]":
            level += event.nbytes()
            peak = max(peak, level)
    return max(peak, 0) + peak_numpy


def table(seconds, quick):
    print(
        "| n x m | threads | max count | plain ms | cut ms | ours ms | plain/ours "
        "| median | cut/ours | plain MB | ours MB | rel. error |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    for name, n, m, kind in SIZES:
        if quick and n > 64:
            continue
        logits, lower, upper = make_problem(n, m, kind, np.random.default_rng(0))
        largest = int(upper.max())
        functions = [
            lambda z, n=n, lo=lower, up=upper: recursion(z, lo, up, n),
            lambda z, k=largest, lo=lower, up=upper: recursion(z, lo, up, k),
            lambda z, k=largest, lo=lower, up=upper: interval_log_prob(z, lo, up, max_count=k),
        ]
        memory = [peak_memory(functions[i], logits) / 2**20 for i in (0, 2)]
        want = np.log(exact(logits, lower, upper))
        error = float(np.abs(np.expm1(once(functions[2], logits).numpy() - want)).max())
        for threads in (1, 2):
            torch.set_num_threads(threads)
            times = timed(functions, logits, seconds)
            plain, cut, ours = times.min(1)
            median = np.median(times[0] / times[2])
            print(
                f"| {name} | {threads} | {largest} | {plain * 1e3:.2f} | {cut * 1e3:.2f} "
                f"| {ours * 1e3:.3f} | {plain / ours:.1f} | {median:.1f} | {cut / ours:.1f} "
                f"| {memory[0]:.1f} | {memory[1]:.2f} | {error:.0e} |",
                flush=True,
            )


def growth():
    """At a fixed width the time should grow in proportion to n."""
    print("\n| n (m = 10, bounds [2, 8]) | ours ms | microseconds per row |\n|---|---|---|")
    rng = np.random.default_rng(0)
    for n in (256, 512, 1024, 2048, 4096, 8192):
        logits = torch.tensor(rng.normal(size=(n, 10)) - math.log(n / 5))
        ours = timed([lambda z: interval_log_prob(z, 2, 8, max_count=8)], logits, 0.5).min()
        print(f"| {n} | {ours * 1e3:.2f} | {ours / n * 1e6:.2f} |", flush=True)


def bare_step(seconds):
    """A step of a plain torch loop at BirdSong's size (38 features, 13 classes, batch 64)."""
    torch.manual_seed(0)
    _, lower, upper = make_problem(64, 13, "real", np.random.default_rng(0))
    features = torch.randn(64, 38)
    target = torch.softmax(torch.randn(64, 13), 1)
    largest = int(upper.max())
    layers = []
    for width_in in (38, 300, 300):
        layers += [torch.nn.Linear(width_in, 300), torch.nn.ReLU(), torch.nn.BatchNorm1d(300)]
    net = torch.nn.Sequential(*layers, torch.nn.Linear(300, 13))
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-3, weight_decay=1e-5)

    def step(weight):
        optimiser.zero_grad()
        logits = net(features)
        loss = -(target * torch.log_softmax(logits, 1)).sum(1).mean()
        if weight:
            count = COUNT_LOSSES["interval"](logits, lower, upper, None, max_count=largest)
            loss = loss + weight * count
        loss.backward()
        optimiser.step()

    times = {0.0: [], 1e-3: []}
    stop = time.perf_counter() + seconds
    while time.perf_counter() < stop or len(times[0.0]) < 20:
        for weight, record in times.items():
            start = time.perf_counter()
            step(weight)
            record.append(time.perf_counter() - start)
    print_steps("bare network", *times.values())


class EveryOtherStep(Callback):
    """Leaves the count loss out of every other step; times of the steps without and with it."""

    def on_train_begin(self, net, **kwargs):
        self.times = [], []

    def on_batch_begin(self, net, **kwargs):
        self.with_count = len(self.times[0]) > len(self.times[1])
        net.calibration = net.calibration._replace(count_weight=1e-3 * self.with_count)
        self.start = time.perf_counter()

    def on_batch_end(self, net, **kwargs):
        self.times[self.with_count].append(time.perf_counter() - self.start)

    def on_epoch_end(self, net, **kwargs):
        net.calibration = net.calibration._replace(count_weight=1e-3)  # so that bounds are counted


def default_step(seconds):
    """A step of the package's own loop and default network, on data of BirdSong's size."""
    rng = np.random.default_rng(0)
    sets, truth = make_candidates(4998, 13, rng)
    features = (rng.normal(size=(13, 38))[truth] + rng.normal(size=(4998, 38))).astype(np.float32)
    classifier = CleanSEClassifier(
        max_epochs=math.ceil(2 * seconds),
        device="cpu",
        random_state=0,
        callbacks=[("every_other_step", EveryOtherStep())],
    ).fit(features, sets)
    print_steps("default network", *dict(classifier.net_.callbacks_)["every_other_step"].times)


def print_steps(name, *times):
    size = min(map(len, times))
    without, with_count = (np.array(part[10:size]) * 1e3 for part in times)
    ratio, median = with_count.min() / without.min(), np.median(with_count / without)
    print(
        f"Training step, {name}, batch 64, 13 classes: {without.min():.2f} ms without, "
        f"{with_count.min():.2f} ms with the count loss, ratio {ratio:.2f}, median {median:.2f}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes only")
    parser.add_argument("--seconds", type=float, default=3.0, help="time per line of the table")
    args = parser.parse_args()
    table(args.seconds, args.quick)
    torch.set_num_threads(1)
    print()
    bare_step(2 * args.seconds)
    default_step(4 * args.seconds)
    if not args.quick:
        growth()


if __name__ == "__main__":
    main()
