"""Runs the Java SDK's ValidatesRunner tests under Maven."""

import json
import os
import shutil
import xml.etree.ElementTree as ElementTree

from . import cache, expectations, outcome

MODULE = cache.INTEGRATION / "java"

# Left out of the names of tests, which are long enough.
PACKAGE = "org.apache.beam.sdk."


def missing_tool():
    """What is not installed, in words, or None."""
    if shutil.which("mvn") is None:
        return "Maven is not installed"
    if shutil.which("javac") is None:
        return "a JDK is not installed"
    return None


def command(suite, settings, endpoint):
    """The Maven command that runs the tests of a suite, and the folder of its reports."""
    reports = settings.logs / f"{suite.name}.reports"
    shutil.rmtree(reports, ignore_errors=True)
    # The harness runs in the client's process: its class path need not be staged.
    options = ["--runner=TestUniversalRunner", "--experiments=beam_fn_api",
               "--defaultEnvironmentType=LOOPBACK", f"--jobEndpoint={endpoint}",
               f"--filesToStage={MODULE / 'pom.xml'}"]
    words = ["mvn", "--batch-mode", "--quiet", "test", f"-Dtests.reports={reports}",
             f"-DbeamTestPipelineOptions={json.dumps(options)}"]
    # A fork waits most of its time.
    forks = f"-Dtests.forks={2 * (os.cpu_count() or 1)}"
    return [*words, forks, *suite.arguments, *settings.extra], reports


def read(suite, result, reports):
    """Adds the reports of a run to the suite's outcome."""
    rows = expectations.failures(suite.name)
    files = sorted(reports.glob("TEST-*.xml"))
    if not files:
        result.fail("maven", "no test ran")
    for file in files:
        for case in ElementTree.parse(file).getroot().iter("testcase"):
            _record(result, case, rows)


def _record(result, case, rows):
    name = f"{case.get('classname').removeprefix(PACKAGE)}.{case.get('name')}"
    must_fail = rows.get(name)
    problem = outcome.problem_of(case)
    if problem is None and case.find("skipped") is not None:
        result.skipped += 1
    elif problem is None and must_fail is not None:
        result.fail(name, f"passes, but unsupported.toml says it cannot: {must_fail}")
    elif problem is None:
        result.passed += 1
    elif must_fail is not None:
        result.skipped += 1
    else:
        result.fail(name, _reason(problem))


def _reason(problem):
    """What a failed test says: the exception, and what the client only quotes."""
    lines = (problem.get("message") or problem.text or "").strip().splitlines()
    if lines and lines[0].startswith("The Runner experienced the following error"):
        lines = lines[1:]
    return lines[0] if lines else ""
