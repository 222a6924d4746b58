"""Reads integration/unsupported.toml: what must fail, and why."""

import functools
import pathlib
import tomllib

PATH = pathlib.Path(__file__).resolve().parent.parent / "unsupported.toml"


@functools.cache
def table():
    """The whole file, parsed once."""
    with PATH.open("rb") as file:
        return tomllib.load(file)


def features():
    """Rows of features that a pipeline may not use yet, each with the message it must get."""
    return table().get("feature", [])


def failures(suite):
    """Test name → reason, for the tests of `suite` that must fail.

    A name is `test`, for every class that has it, or `Class::test`.
    """
    rows = {}
    for row in table().get("failure", []):
        if suite is not None and suite in row["suites"]:
            rows.update(dict.fromkeys(row["tests"], row["reason"]))
    return rows


def reason_for(node_id, rows):
    """The reason why the test with this pytest node id must fail, or None."""
    qualified = node_id.partition("::")[2] or node_id
    return rows.get(qualified, rows.get(qualified.rpartition("::")[2]))
