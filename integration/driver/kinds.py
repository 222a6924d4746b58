"""How each kind of suite is run: a function from a suite to its outcome."""

import os
import pathlib
import subprocess
import time

from . import cache, children, expansion, go_tests, java_tests, outcome, servers

PYTHON_TESTS = cache.INTEGRATION / "python"


class Settings:
    """What the whole run was asked for."""

    def __init__(self, runner, endpoint, profile, logs, extra):
        self.runner = runner
        self.endpoint = endpoint
        self.profile = profile
        self.logs = logs
        self.extra = extra


def run(suite, settings):
    """Runs one suite; whatever goes wrong becomes a failure of it."""
    started = time.monotonic()
    result = outcome.Outcome(suite.name)
    try:
        KINDS[suite.kind](suite, settings, result)
    except subprocess.TimeoutExpired:
        result.fail("suite", f"not done after {suite.timeout_minutes} minutes")
    except (cache.MissingTool, servers.ServerError, RuntimeError, OSError) as error:
        result.fail("suite", str(error))
    result.seconds = time.monotonic() - started
    return result


def _cargo(suite, settings, result):
    status, text = _logged(suite, settings, ["cargo", *suite.arguments], cwd=cache.ROOT)
    if status == 0:
        result.passed += 1
    else:
        result.fail(suite.title, _first_problem(text))


def _cargo_test(suite, settings, result):
    # Some tests compare the wire format with an installed apache-beam.
    environment = {**os.environ, "TIDEMILL_PYTHON": str(cache.python())}
    status, text = _logged(
        suite, settings, ["cargo", *suite.arguments], cwd=cache.ROOT, env=environment)
    outcome.read_cargo(result, text)
    if status != 0 and result.failed == 0:
        result.fail("cargo test", _first_problem(text))


def _pytest(suite, settings, result):
    _run_pytest(suite, settings, result, list(suite.arguments))


def _pytest_package(suite, settings, result):
    """Tests inside the installed package: they know nothing of our conftest unless told."""
    _run_pytest(suite, settings, result, ["--noconftest", "-p", "conftest", "--pyargs", *suite.arguments])


def _run_pytest(suite, settings, result, arguments):
    report = settings.logs / f"{suite.name}.xml"
    report.unlink(missing_ok=True)
    with _Endpoint(suite, settings, result) as endpoint:
        command = [
            cache.python(), "-m", "pytest", "-c", PYTHON_TESTS / "pytest.ini",
            "--rootdir", PYTHON_TESTS, f"--junitxml={report}", f"--endpoint={endpoint.address}",
            f"--suite={suite.name}", *arguments, *settings.extra,
        ]
        if endpoint.pid is not None:
            command.append(f"--server-pid={endpoint.pid}")
        # Some of Beam's tests fork the process that holds the harness; gRPC's own care about forks makes some of
        # the children crash, whatever the runner.
        paths = os.pathsep.join((str(PYTHON_TESTS), str(cache.INTEGRATION)))
        environment = {**os.environ, "PYTHONPATH": paths, "GRPC_ENABLE_FORK_SUPPORT": "0"}
        if settings.runner == "tidemill":
            environment["TIDEMILL_BIN"] = str(cache.tidemill(settings.profile))
        _logged(suite, settings, command, cwd=PYTHON_TESTS, env=environment)
        outcome.read_junit(result, report)


def _go(suite, settings, result):
    with _Endpoint(suite, settings, result) as endpoint:
        go_tests.run(suite, settings, result, endpoint.address)


def _go_to_python(suite, settings, result):
    _go_xlang(suite, settings, result, expansion.python_service)


def _go_to_java(suite, settings, result):
    if not _skipped_without_java(suite, result):
        _go_xlang(suite, settings, result, expansion.java_service)


def _go_xlang(suite, settings, result, service):
    """Only the tests with pipelines: the package's others check how Go finds and downloads a jar."""
    log = settings.logs / f"{suite.name}.expansion.log"
    with _Endpoint(suite, settings, result) as endpoint, service(log) as address:
        flags = [f"--expansion_addr=test:{address}"]
        go_tests.run(suite, settings, result, endpoint.address, flags, pattern="^TestXLang_")


def _skipped_without_java(suite, result):
    """Counts the suite as skipped, and says so, where it has not what it needs."""
    missing = java_tests.missing_tool()
    if missing is not None:
        cache.say(f"{suite.name}: skipped, since {missing}")
        result.skipped += 1
    return missing is not None


def _java(suite, settings, result):
    if _skipped_without_java(suite, result):
        return
    with _Endpoint(suite, settings, result) as endpoint:
        command, reports = java_tests.command(suite, settings, endpoint.address)
        _logged(suite, settings, command, cwd=java_tests.MODULE)
    java_tests.read(suite, result, reports)


class _Endpoint:
    """The job service of one suite: the given one, or a server of its own."""

    def __init__(self, suite, settings, result):
        self._suite = suite
        self._settings = settings
        self._result = result
        self._server = None
        self.address = settings.endpoint
        self.pid = None

    def __enter__(self):
        if self.address is None:
            log = self._settings.logs / f"{self._suite.name}.server.log"
            self._server = servers.start(
                self._settings.runner, log, self._settings.profile, self._suite.serve)
            self.address = self._server.endpoint
            self.pid = self._server.pid
        return self

    def __exit__(self, kind, _error, _trace):
        if self._server is None:
            return
        if kind is not None:
            self._server.kill()
            return
        try:
            self._server.stop()
        except servers.ServerError as error:
            self._result.fail("server", str(error))


def _logged(suite, settings, command, **options):
    """Runs a command with its output in the suite's log; returns status and output.

    The command leads a process group, so that a timeout ends what it started too.
    """
    log = settings.logs / f"{suite.name}.log"
    with log.open("wb") as output:
        process = children.start(command, stdout=output, stderr=subprocess.STDOUT, **options)
        try:
            status = process.wait(timeout=suite.timeout_minutes * 60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        finally:
            children.forget(process)
    return status, pathlib.Path(log).read_text(errors="replace")


def _first_problem(text):
    """The first line of an output that looks like an error."""
    lines = text.splitlines()
    for line in lines:
        if line.startswith(("error", "Diff in", "warning")):
            return line
    return lines[-1] if lines else "no output"


KINDS = {
    "cargo": _cargo, "cargo_test": _cargo_test, "pytest": _pytest,
    "pytest_package": _pytest_package, "go": _go, "java": _java,
    "go_to_python": _go_to_python, "go_to_java": _go_to_java,
}
