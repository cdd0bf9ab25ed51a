"""Milliseconds of a training step on one thread and on all cores, for networks of several sizes.

From which size do more threads pay? `sklearn_cleanse.deep._threads.WORK_PER_THREAD` is read off
this table. Steps on one thread and on all alternate, and the quickest of some rounds counts; the
clock is the wall's, so the machine must have nothing else to do.
"""

import argparse
import os
import time

import torch
from many_members import a_step


def milliseconds(step, n_threads, n_steps):
    torch.set_num_threads(n_threads)
    step()
    began = time.perf_counter()
    for _ in range(n_steps):
        step()
    return 1000 * (time.perf_counter() - began) / n_steps


def main(widths, batch_sizes, rounds, threads):
    print(f"{'width':>6}{'batch':>7}{'millions':>10}{'one':>9}{threads:>9}{'ratio':>8}")
    for width in widths:
        for n_rows in batch_sizes:
            step, network = a_step(2, width, n_rows, n_layers=3)
            work = n_rows * sum(p.numel() for p in network.parameters()) / 1e6
            n_steps = 5 + int(500 / (1 + work))
            taken = [[milliseconds(step, n, n_steps) for n in (1, threads)] for _ in range(rounds)]
            one, several = (min(column) for column in zip(*taken, strict=True))
            print(
                f"{width:>6}{n_rows:>7}{work:>10.1f}{one:>9.2f}{several:>9.2f}{one / several:>8.2f}"
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--widths", type=int, nargs="+", default=[100, 300, 1000, 2000])
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[16, 64, 256])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    main(**vars(parser.parse_args()))
