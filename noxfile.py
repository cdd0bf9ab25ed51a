#!/usr/bin/env -S python -m nox -f
# /// script
# dependencies = ["nox>=2025.2.9"]
# ///
"""Tasks: `nox -l` lists them, `nox -s lint types` runs some. Each installs what it needs.

With ``--no-venv`` they run in the present environment, which then has what they need.
"""

import re
import tomllib
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "venv"
CONSTRAINTS = ("-c", "constraints.txt")


def install(session, *what, group=None):
    if session.virtualenv.venv_backend != "none":
        project = nox.project.load_toml("pyproject.toml")
        others = nox.project.dependency_groups(project, group) if group else ()
        session.install("-q", *CONSTRAINTS, *what, *others)


@nox.session
def tests(session):
    """All tests but the slow ones; arguments after -- go to pytest."""
    install(session, "-e", ".[test]")
    session.run("python", "-m", "pytest", *(session.posargs or ["-n", "auto"]))


@nox.session(default=False)
def slow(session):
    """The slow tests: fuzzing, kills, a cluster, the quick form of the paper's experiments."""
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


@nox.session(name="tests-oldest", default=False)
def tests_oldest(session):
    """The core's tests with the oldest versions that pyproject.toml admits.

    torch stays at the pinned version: older ones bring gigabytes of GPU libraries. Old releases
    warn of their newer neighbors, so warnings do not fail here.
    """
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"]]
    for extra in ("plots", "data"):
        wanted += project["optional-dependencies"][extra]
    floors = [name.replace(">=", "==") for name in wanted if not name.startswith("torch")]
    pins = Path("constraints.txt").read_text(encoding="utf-8")
    tools = "torch|pyarrow|pytest|pytest-xdist|hypothesis|fast-poibin"
    floors += re.findall(rf"^(?:{tools})==.+$", pins, re.M)
    path = Path(session.create_tmp(), "floors.txt")
    path.write_text("\n".join(floors), encoding="utf-8")
    tools = ("fast-poibin", "hypothesis", "pyarrow", "pytest", "pytest-xdist")
    session.install("-q", "-c", str(path), "-e", ".[plots,data]", *tools)
    names = "candidates comparison counts datasets_generate datasets_mat features kernel"
    names += " kernel_cleanse losses metrics model_selection network scaling voters"
    files = [f"tests/test_{name}.py" for name in names.split()]
    session.run(
        "python",
        "-m",
        "pytest",
        "-n",
        "auto",
        "-o",
        "filterwarnings=",
        "--disable-warnings",
        *files,
    )


@nox.session(default=False)
def build(session):
    """Wheel and sdist, and the wheel outside the checkout without any extra."""
    folder = Path(session.create_tmp()).resolve()
    session.install("-q", *CONSTRAINTS, "build", "twine")
    session.run("python", "-m", "build", "--outdir", str(folder / "dist"), silent=True)
    built = sorted(map(str, (folder / "dist").glob("*")))
    session.run("twine", "check", "--strict", *built)
    wheel = next(name for name in built if name.endswith(".whl"))
    session.run("python", "-m", "venv", "--clear", str(folder / "smoke"))
    python = str(folder / "smoke" / "bin" / "python")
    smoke = Path(".ci/smoke.py").resolve()
    session.run(python, "-m", "pip", "install", "-q", *CONSTRAINTS, wheel, external=True)
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
