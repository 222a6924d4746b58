"""The command line: chooses suites, runs them side by side, prints what came out."""

import argparse
import concurrent.futures
import os
import pathlib
import time

from . import cache, children, kinds, outcome, suites


def main(arguments):
    """Runs the suites named in `arguments`; returns the exit status."""
    options = _parse(arguments)
    if options.list:
        for suite in suites.ALL:
            print(f"{suite.name:22}{'' if suite.default else '(only by name) '}{suite.title}")
        return 0
    chosen = suites.ALL if options.all else _choose(options.suite)
    logs = pathlib.Path(options.logs).resolve()
    logs.mkdir(parents=True, exist_ok=True)
    children.end_on_signals()
    settings = kinds.Settings(options.runner, options.endpoint, options.profile, logs,
                              options.extra)
    started = time.monotonic()
    outcomes = list(_run_all(chosen, settings, options.jobs))
    return _report(outcomes, time.monotonic() - started, logs)


def _parse(arguments):
    parser = argparse.ArgumentParser(
        prog="integration/test", description="Tests the Tidemill binary with real Beam SDKs.")
    parser.add_argument("suite", nargs="*", help="suites to run; without any, the default ones")
    parser.add_argument("--list", action="store_true", help="list the suites and stop")
    parser.add_argument("--all", action="store_true", help="also the suites that run only by name")
    parser.add_argument("--endpoint", help="use the job service at HOST:PORT, start none")
    parser.add_argument("--runner", default="tidemill", choices=("tidemill", "prism", "local"),
                        help="which server to start for each suite")
    parser.add_argument("--profile", default="dev", help="cargo profile of the binary under test")
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 2, 4),
                        help="suites run side by side")
    parser.add_argument("--logs", default=str(cache.ROOT / "target" / "integration"),
                        help="folder for logs and reports")
    own, _, extra = _partition(arguments, "--")
    options = parser.parse_args(own)
    options.extra = extra
    return options


def _partition(words, separator):
    """Splits a list at the first `separator`; what follows goes to the tool of the suite."""
    if separator not in words:
        return words, None, []
    at = words.index(separator)
    return words[:at], separator, words[at + 1:]


def _choose(names):
    known = suites.by_name()
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f"no such suite: {', '.join(unknown)}; see --list")
    if names:
        return [suite for suite in suites.ALL if suite.name in names]
    return [suite for suite in suites.ALL if suite.default]


def _run_all(chosen, settings, jobs):
    """Exclusive suites one by one while tools are installed, then the others side by side."""
    alone = [suite for suite in chosen if suite.exclusive or suite.kind == "cargo"]
    together = [suite for suite in chosen if suite not in alone]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        python = pool.submit(cache.python) if _need_python(together) else None
        for suite in alone:
            yield _announced(suite, settings)
        if together and settings.endpoint is None and settings.runner == "tidemill":
            cache.say("building tidemill")
            try:
                cache.tidemill(settings.profile)
            except RuntimeError as error:
                yield _broken("build", error)
                return
        if python is not None:
            try:
                python.result()
            except (RuntimeError, OSError) as error:
                yield _broken("python", error)
                return
        pending = [pool.submit(_announced, suite, settings) for suite in together]
        for future in pending:
            yield future.result()


def _need_python(chosen):
    return any(suite.kind.startswith("pytest") or suite.kind == "go_to_python" for suite in chosen)


def _announced(suite, settings):
    """Runs a suite and says on stderr how it went."""
    cache.say(f"{suite.name}: started")
    result = kinds.run(suite, settings)
    cache.say(f"{suite.name}: {result.summary()} in {result.seconds:.0f} s")
    return result


def _broken(name, error):
    result = outcome.Outcome(name)
    cache.say(str(error))
    result.fail(name, str(error).splitlines()[-1])
    return result


def _report(outcomes, seconds, logs):
    """Prints each suite, every failure, and the sum as the last line."""
    for result in outcomes:
        print(f"{result.suite}: {result.summary()} ({result.seconds:.0f} s)")
    for result in outcomes:
        for failure in result.failures:
            print(f"FAILED {result.suite}: {failure}")
    total = outcome.total(outcomes)
    print(f"{len(outcomes)} suites in {seconds:.0f} s, logs in {os.path.relpath(logs)}")
    print(total.summary(), flush=True)
    return 0 if total.failed == 0 and total.passed > 0 else 1
