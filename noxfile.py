#!/usr/bin/env -S python -m nox -f
# /// script
# dependencies = ["nox>=2025.2.9"]
# ///
"""Tasks: `nox -l` lists them, `nox -s lint types` runs some. Each installs what it needs.

With ``--no-venv`` they run in the present environment, which then has what they need.
"""

import os
import shutil
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "venv"
CONSTRAINTS = ("-c", "constraints.txt")
PROJECT = nox.project.load_toml("pyproject.toml")


def install(session, *what, group=None):
    if session.virtualenv.venv_backend != "none":
        others = nox.project.dependency_groups(PROJECT, group) if group else ()
        session.install("-q", *CONSTRAINTS, *what, *others)


@nox.session
def tests(session):
    """All tests but the slow ones; arguments after -- go to pytest."""
    install(session, "-e", ".[test]")
    session.run("python", "-m", "pytest", *(session.posargs or ["-n", "auto"]))


@nox.session(default=False)
def slow(session):
    """The slow tests: fuzzing, kills, a cluster, the paper's quick form. Linux and macOS only."""
    install(session, "-e", ".[test]")
    session.run("python", "-m", "pytest", "-n", "auto", "-m", "slow", *session.posargs)


@nox.session
def lint(session):
    """Code style, spelling and repository habits."""
    install(session, "-e", ".[test]", group="dev")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("codespell")
    session.run("repo-review", ".")


@nox.session
def types(session):
    """Type checks."""
    install(session, "-e", ".[test]", group="dev")
    session.run("mypy")


@nox.session(default=False)
def docs(session):
    """The site, with warnings as errors; `nox -s docs -- --gallery` executes the examples."""
    install(session, "-e", ".[test]", group="docs")
    gallery = [] if "--gallery" in session.posargs else ["-D", "plot_gallery=False"]
    for folder in ("docs/api/generated", "docs/auto_examples"):
        session.run("python", "-c", f"import shutil; shutil.rmtree({folder!r}, True)")
    out = ["-d", "docs/_build/doctrees", "-b", "html", "docs", "docs/_build/html"]
    session.run("python", "-m", "sphinx", "-q", "-W", "--keep-going", *gallery, *out)


def pins(session, names):
    """Write the lines of constraints.txt for some names to a file; return its path."""
    lines = Path("constraints.txt").read_text(encoding="utf-8").splitlines()
    path = Path(session.create_tmp(), "pins.txt")
    kept = [line for line in lines if line.split("==")[0] in names]
    path.write_text("\n".join(kept), encoding="utf-8")
    return str(path)


@nox.session(name="tests-oldest", default=False)
def tests_oldest(session):
    """The core's tests with the oldest versions that pyproject.toml admits.

    torch stays at the pinned version: older ones bring gigabytes of GPU libraries. Old releases
    warn of their newer neighbors, so warnings do not fail here.
    """
    project = PROJECT["project"]
    extras = project["optional-dependencies"]
    admitted = [*project["dependencies"], *extras["plots"], *extras["data"], *extras["test"]]
    tools = ("fast-poibin", "hypothesis", "pytest", "pytest-xdist", "torch")
    others = [name for name in admitted if ">=" in name and name.split(">=")[0] not in tools]
    floors = [name.replace(">=", "==") for name in others]
    session.install("-q", "-c", pins(session, tools), "-e", ".[plots,data]", *floors, *tools)
    names = "candidates comparison counts datasets_generate datasets_mat features kernel"
    names += " kernel_cleanse losses metrics model_selection network scaling voters"
    files = [f"tests/test_{name}.py" for name in names.split()]
    ignored = ("-o", "filterwarnings=", "--disable-warnings")
    session.run("python", "-m", "pytest", "-n", "auto", *ignored, *files)


@nox.session(name="tests-newest", default=False)
def tests_newest(session):
    """The tests with the newest version of every dependency; of torch with `-- --torch`.

    Otherwise torch stays at the pinned version, as the newest may bring gigabytes of GPU libraries.
    The workflow sets PIP_EXTRA_INDEX_URL to an index of those without.
    """
    pinned = () if "--torch" in session.posargs else ("torch",)
    session.install("-q", "-c", pins(session, pinned), "-e", ".[test]")
    session.run("python", "-m", "pytest", "-n", "auto")


@nox.session(default=False)
def build(session):
    """Wheel and sdist in dist/, and the wheel outside the checkout without any extra.

    `nox -s build -- v1.2.3` fails if that is not the tag of the version.
    """
    folder, dist = Path(session.create_tmp()).resolve(), Path("dist").resolve()
    shutil.rmtree(dist, ignore_errors=True)
    session.install("-q", *CONSTRAINTS, "build", "twine")
    session.run("python", "-m", "build", "--outdir", str(dist), silent=True)
    session.run("twine", "check", "--strict", *map(str, dist.iterdir()))
    (wheel,) = dist.glob("*.whl")
    tag = f"v{wheel.name.split('-')[1]}"
    if session.posargs not in ([], [tag]):
        session.error(f"The tag must be {tag}, got {' '.join(session.posargs)}.")
    session.run("python", "-m", "venv", "--clear", str(folder / "smoke"))
    python = str(folder / "smoke" / ("Scripts" if os.name == "nt" else "bin") / "python")
    smoke = Path(".ci/smoke.py").resolve()
    session.run(python, "-m", "pip", "install", "-q", *CONSTRAINTS, str(wheel), external=True)
    with session.chdir(folder):
        session.run(python, str(smoke), external=True)


@nox.session(default=False)
def bench(session):
    """The benchmarks that compare speed; they want an otherwise idle machine."""
    install(session, "-e", ".[test]")
    for name in ("epoch_time", "kernel_votes", "scaling"):
        session.run("python", f"examples/benchmarks/{name}.py")


if __name__ == "__main__":
    nox.main()
