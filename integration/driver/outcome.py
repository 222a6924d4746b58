"""What a suite reports, and how reports of each tool are read."""

import dataclasses
import re
import xml.etree.ElementTree as ElementTree


@dataclasses.dataclass
class Outcome:
    """Counts of one suite, with a line for each failure."""

    suite: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: list = dataclasses.field(default_factory=list)
    seconds: float = 0.0

    def fail(self, name, reason=""):
        """Counts one failure."""
        self.failed += 1
        first_line = (reason.strip().splitlines() or [""])[0][:300]
        self.failures.append(f"{name}: {first_line}" if first_line else name)

    def summary(self):
        """The line printed for the suite."""
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def total(outcomes):
    """The sum of several outcomes."""
    result = Outcome("total")
    for outcome in outcomes:
        result.passed += outcome.passed
        result.failed += outcome.failed
        result.skipped += outcome.skipped
    return result


def read_junit(outcome, path):
    """Adds the cases of a JUnit report (pytest, surefire) to the outcome."""
    if not path.exists():
        outcome.fail("report", "the run ended without writing its report")
        return
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = f"{case.get('classname', '')}.{case.get('name')}".lstrip(".")
        problem = problem_of(case)
        if problem is not None:
            outcome.fail(name, last_line(problem))
        elif case.find("skipped") is not None:
            outcome.skipped += 1
        else:
            outcome.passed += 1


def problem_of(case):
    """The failure or error of a test case, or None."""
    failure = case.find("failure")
    return case.find("error") if failure is None else failure


def last_line(problem):
    """The line of a failure that says most: the exception, which pytest puts last."""
    message = problem.get("message") or ""
    if message and not message.startswith("Traceback"):
        return message
    lines = [line for line in (problem.text or message).splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


CARGO_LINE = re.compile(r"^test (?P<name>.+?) \.\.\. (?P<result>ok|FAILED|ignored)")


def read_cargo(outcome, text):
    """Adds the tests that `cargo test` printed to the outcome."""
    for line in text.splitlines():
        match = CARGO_LINE.match(line)
        if match is None:
            continue
        if match["result"] == "ok":
            outcome.passed += 1
        elif match["result"] == "ignored":
            outcome.skipped += 1
        else:
            outcome.fail(match["name"])
