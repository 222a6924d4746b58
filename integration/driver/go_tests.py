"""Runs test packages of the Go SDK, each test in a process of its own.

A test that hangs or takes its process down then costs only itself.
"""

import concurrent.futures
import hashlib
import subprocess

from . import cache, expectations

TEST_SECONDS_MAX = 120
PARALLEL = 2


def run(suite, settings, result, endpoint):
    """Builds the packages named by the suite and runs every test in them."""
    rows = expectations.failures(suite.name)
    flags = ["--runner=universal", f"--endpoint={endpoint}", "--environment_type=LOOPBACK"]
    log = (settings.logs / f"{suite.name}.log").open("w", encoding="utf-8")
    with log, concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
        pending = []
        for package in suite.arguments:
            binary, folder = _build(package)
            for name in _list(binary, folder):
                if not settings.extra or name in settings.extra:
                    pending.append((name, pool.submit(_run_one, binary, folder, name, flags)))
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


def _list(binary, folder):
    listing = subprocess.run([binary, "-test.list", "^Test"], cwd=folder, capture_output=True,
                             text=True, check=True)
    return [line for line in listing.stdout.splitlines() if line.startswith("Test")]


def _run_one(binary, folder, name, flags):
    command = [binary, "-test.run", f"^{name}$", "-test.v", *flags]
    try:
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
