"""Runs the integration suites: prepares tools, starts servers, collects results.

Only the standard library is used here, since this is what installs everything else.
"""
