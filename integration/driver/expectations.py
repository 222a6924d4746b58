"""Reads integration/unsupported.toml for suites that are not run by pytest."""

import tomllib

from . import cache


def failures(suite):
    """Test name → reason, for the tests of `suite` that must fail."""
    with (cache.INTEGRATION / "unsupported.toml").open("rb") as file:
        table = tomllib.load(file)
    rows = {}
    for row in table.get("failure", []):
        if suite in row["suites"]:
            rows.update(dict.fromkeys(row["tests"], row["reason"]))
    return rows
