"""What a device other than the CPU would be asked, told without one: see fake_device.py."""

import json
import subprocess
import sys
from pathlib import Path

import fake_device
import pytest

CASES = [name for name, _ in fake_device.cases("cpu")]
CONTROLS = [name for name in CASES if name.startswith("control")]

# Most operations per step, of 64 rows, 16 classes and two members with two hidden layers. Counting
# adds some 310 to those of a plain loss.
MOST = {
    "plain-average": 98,
    "plain-cc": 105,
    "plain-proden": 104,
    "plain-rc": 132,
    "plain-lws": 121,
    "plain-cavl": 110,
    "plain-scarce": 199,
    "kernel-dataset-cc": 413,
    "soft-batch-cc": 456,
    "hard-batch-cc": 474,
    "count-interval": 419,
    "count-entropy": 425,
    "count-proportion": 152,
    "between-counts": 105,
}


@pytest.fixture(scope="module")
def results():
    # In a process of its own: a device stays registered, and must be before the first gradient.
    script = Path(__file__).with_name("fake_device.py")
    root = Path(__file__).parents[1]
    run = [sys.executable, "-W", "ignore", str(script)]
    done = subprocess.run(run, capture_output=True, text=True, check=True, cwd=root)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("case", [name for name in CASES if name not in CONTROLS])
def test_nothing_in_a_step_leaves_the_device(case, results):
    error, n_operations = results[case]
    assert error is None, error
    assert n_operations > 0


@pytest.mark.parametrize(
    ("control", "message"),
    [
        ("control-read_a_value", "_local_scalar_dense"),
        ("control-mix_devices", "has a tensor on cpu"),
        ("control-copy_to_the_host", "has a tensor on cpu"),
    ],
)
def test_what_leaves_the_device_is_noticed(control, message, results):
    error, _ = results[control]
    assert message in error


@pytest.mark.parametrize("case", MOST)
def test_operations_per_step(case, results):
    assert results[case][1] <= MOST[case]


def test_operations_of_a_default_step_on_average(results):
    counted, between = results["kernel-dataset-cc"][1], results["between-counts"][1]
    assert (counted + 3 * between) / 4 <= 200  # a half of counting in every step
