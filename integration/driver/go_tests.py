"""Runs test packages of the Go SDK, each test in a process of its own.

A test that hangs or takes its process down then costs only itself.
"""

import concurrent.futures
import contextlib
import hashlib
import subprocess
import threading

from . import cache, expectations

TEST_SECONDS_MAX = 120
PARALLEL = 2
# Tests whose pipelines end only by a drain.
DRAINED = ("TestDrain",)
POLL_SECONDS = 0.5


def run(suite, settings, result, endpoint, more_flags=(), pattern="^Test"):
    """Builds the packages named by the suite and runs every test in them that fits the pattern."""
    rows = expectations.failures(suite.name)
    flags = ["--runner=universal", f"--endpoint={endpoint}", "--environment_type=LOOPBACK",
             *more_flags]
    drainer = _Drainer(cache.tidemill(settings.profile), endpoint)
    log = (settings.logs / f"{suite.name}.log").open("w", encoding="utf-8")
    with log, concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
        pending = []
        for package in suite.arguments:
            binary, folder = _build(package)
            for name in _list(binary, folder, pattern):
                if not settings.extra or name in settings.extra:
                    pending.append((name, pool.submit(_run_one, binary, folder, name, flags, drainer)))
        for name, future in pending:
            status, output = future.result()
            log.write(f"=== {name}: {status}\n{output}\n")
            _record(result, name, status, output, rows.get(name))


def _record(result, name, status, output, must_fail):
    if status == "passed" and must_fail is None:
        result.passed += 1
    elif status == "passed":
        result.fail(name, f"passes, but unsupported.toml says it cannot: {must_fail}")
    elif status == "skipped" or must_fail is not None:
        result.skipped += 1
    else:
        result.fail(name, _reason(output))


def _build(package):
    """Compiles a package's tests; returns the binary and the package's folder."""
    digest = hashlib.sha256(package.encode()).hexdigest()[:12]
    binary = cache.folder() / "go" / f"test-{digest}"
    cache.run([cache.go(), "test", "-c", "-o", binary, package], cwd=cache.GO_MODULE)
    folder = cache.run([cache.go(), "list", "-f", "{{.Dir}}", package], cwd=cache.GO_MODULE)
    return binary, folder.strip()


def _list(binary, folder, pattern):
    listing = subprocess.run([binary, "-test.list", pattern], cwd=folder, capture_output=True,
                             text=True, check=True)
    return [line for line in listing.stdout.splitlines() if line.startswith("Test")]


class _Drainer:
    """Drains jobs from outside, as a user would."""

    def __init__(self, tidemill, endpoint):
        self._tidemill = tidemill
        self._endpoint = endpoint

    @contextlib.contextmanager
    def jobs_of(self, test):
        """Drains, until left, each running job whose name has the test's in it."""
        if test not in DRAINED:
            yield
            return
        left = threading.Event()
        thread = threading.Thread(target=self._drain, args=(test.lower(), left))
        thread.start()
        try:
            yield
        finally:
            left.set()
            thread.join()

    def _drain(self, part_of_name, left):
        while not left.wait(POLL_SECONDS):
            for line in self._jobs("list").splitlines():
                job, state, name = line.split(maxsplit=2)
                if state == "RUNNING" and part_of_name in name.lower():
                    self._jobs("drain", job)

    def _jobs(self, *words):
        command = [self._tidemill, "jobs", *words, "--endpoint", self._endpoint]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def _run_one(binary, folder, name, flags, drainer):
    command = [binary, "-test.run", f"^{name}$", "-test.v", *flags]
    try:
        with drainer.jobs_of(name):
            done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, errors="replace",
                                  timeout=TEST_SECONDS_MAX, check=False)
    except subprocess.TimeoutExpired as error:
        output = (error.stdout or b"").decode(errors="replace")
        return "hung", f"{output}\nnot done after {TEST_SECONDS_MAX} s"
    if f"--- SKIP: {name} " in done.stdout:
        return "skipped", done.stdout
    return ("passed" if done.returncode == 0 else "failed"), done.stdout


def _reason(output):
    """The line that says why a Go test failed."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for line in reversed(lines):
        if "_test.go:" in line or line.startswith(("panic:", "not done after")):
            return line
    return lines[-1] if lines else "no output"
