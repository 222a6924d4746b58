"""Tools that the suites need, installed once under the user's cache folder."""

import fcntl
import contextlib
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
INTEGRATION = ROOT / "integration"
REQUIREMENTS = INTEGRATION / "python" / "requirements.txt"
GO_MODULE = INTEGRATION / "go"
PRISM = "github.com/apache/beam/sdks/v2/go/cmd/prism@v2.77.0"


class MissingTool(Exception):
    """Something that only the system's package manager can install is absent."""


def folder():
    """Our cache folder, created at need."""
    base = os.environ.get("XDG_CACHE_HOME") or str(pathlib.Path.home() / ".cache")
    path = pathlib.Path(base) / "tidemill"
    path.mkdir(parents=True, exist_ok=True)
    return path


@contextlib.contextmanager
def lock(name):
    """Keeps two runs from installing the same thing at once."""
    with (folder() / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def python():
    """Interpreter of a virtual environment with exactly the pinned requirements.

    The folder is named after the requirements and finished by a marker file, so an interrupted
    installation is done again and a changed one does not disturb the old.
    """
    given = os.environ.get("TIDEMILL_TEST_PYTHON")
    if given:
        return pathlib.Path(given)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    digest = hashlib.sha256(REQUIREMENTS.read_bytes() + version.encode()).hexdigest()[:12]
    home = folder() / f"python-{digest}"
    interpreter = home / "bin" / "python"
    with lock("python"):
        if not (home / "complete").exists():
            say(f"installing apache-beam and the test tools into {home}")
            shutil.rmtree(home, ignore_errors=True)
            run([sys.executable, "-m", "venv", str(home)])
            run([interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                 "--no-input", "-r", str(REQUIREMENTS)])
            (home / "complete").touch()
    return interpreter


def go():
    """The Go command."""
    found = shutil.which("go") or (
        "/usr/local/go/bin/go" if pathlib.Path("/usr/local/go/bin/go").exists() else None)
    if found is None:
        raise MissingTool("Go 1.25 or newer is not installed")
    return found


def prism():
    """Beam's Go runner, which the benchmarks compare with."""
    binary = folder() / "go" / "prism"
    with lock("prism"):
        if not binary.exists():
            say("installing Prism")
            run([go(), "install", PRISM], env={**os.environ, "GOBIN": str(binary.parent)})
    return binary


def go_load():
    """The load program of the benchmarks, built from integration/go/load."""
    binary = folder() / "go" / "load"
    with lock("go-load"):
        run([go(), "build", "-o", str(binary), "./load"], cwd=GO_MODULE)
    return binary


def tidemill(profile):
    """Builds our binary; cargo decides whether there is anything to do."""
    run(["cargo", "build", "--quiet", "--locked", "--bin", "tidemill", "--profile", profile],
        cwd=ROOT)
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")
    return target / ("debug" if profile == "dev" else profile) / "tidemill"


def run(command, **options):
    """Runs a command to its end; its output is shown only if it fails."""
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False, **options)
    if done.returncode != 0:
        tail = "\n".join(done.stdout.splitlines()[-40:])
        raise RuntimeError(f"{' '.join(map(str, command))} failed:\n{tail}")
    return done.stdout


def say(message):
    """Talk goes to stderr; stdout carries results."""
    print(message, file=sys.stderr, flush=True)
