"""Beam's cross-language suite, with a Python expansion service and two environments in a job."""

import os
import pathlib
import subprocess
import sys

import pytest

import conftest
import worker_pool

# Read by the upstream module while it is imported, and again by each test.
PORT = worker_pool.free_port()
os.environ["EXPANSION_PORT"] = str(PORT)

from apache_beam.transforms import validate_runner_xlang_test  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def expansion_service(request):
    """Runs the expansion service with the worker pool that the client uses too."""
    pool = conftest.shared_pool(request.config)
    script = pathlib.Path(__file__).with_name("expansion_server.py")
    process = subprocess.Popen([sys.executable, script, str(PORT), pool.address],
                               env=worker_pool.worker_environment())
    try:
        worker_pool.wait_until_listening(PORT, process)
        yield
    finally:
        process.terminate()
        process.wait(timeout=10)


class CrossLanguageTest(validate_runner_xlang_test.ValidateRunnerXlangTest):
    """The eight inherited tests; options come from the run's `--environment=EXTERNAL`."""
