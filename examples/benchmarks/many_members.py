"""Throughput of many small networks trained in one batched product, beside one after another.

A step of k members (forward, backward, Adam) against k steps of one, and against k / 2 steps of
two, which is what a default fit has already. One thread; the quickest of some rounds counts.
"""

import argparse
import time

import torch

from sklearn_cleanse.deep import MLP
from sklearn_cleanse.deep._optimizer import FusedAdam


def a_step(n_members, width, n_rows, n_layers=2):
    """Return a training step and its network."""
    network = MLP(50, 10, (width,) * n_layers, dropout=0.2, n_members=n_members)
    optimizer, X = FusedAdam(network.parameters()), torch.randn(n_rows, 50)

    def step():
        optimizer.zero_grad()
        logits, _ = network(X)
        logits.log_softmax(dim=-1).select(-1, 0).mean().backward()
        optimizer.step()

    return step, network


def seconds(step, n_steps=20):
    began = time.process_time()
    for _ in range(n_steps):
        step()
    return (time.process_time() - began) / n_steps


def main(members, widths, rows, rounds):
    torch.set_num_threads(1)
    print(
        f"{'width':>6}{'rows':>6}{'members':>9}{'ms a step':>11}{'over ones':>11}{'over pairs':>12}"
    )
    for width in widths:
        for n_rows in rows:
            steps = {k: a_step(k, width, n_rows)[0] for k in (1, 2, *members)}
            taken = {k: min(seconds(step) for _ in range(rounds)) for k, step in steps.items()}
            for k in members:
                ones, pairs = k * taken[1] / taken[k], k / 2 * taken[2] / taken[k]
                row = f"{width:>6}{n_rows:>6}{k:>9}{1000 * taken[k]:>11.2f}"
                print(f"{row}{ones:>11.2f}{pairs:>12.2f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--members", type=int, nargs="+", default=[8, 16])
    parser.add_argument("--widths", type=int, nargs="+", default=[64, 300])
    parser.add_argument("--rows", type=int, nargs="+", default=[16, 64])
    parser.add_argument("--rounds", type=int, default=7)
    main(**vars(parser.parse_args()))
