"""Beam's cross-language suite: transforms of an expansion service, in a second environment of the job."""

import os
import pathlib
import subprocess
import sys

import pytest

import conftest
import worker_pool
from driver import cache, expansion

# Without it the upstream module skips its tests while it is imported; each test reads it again.
os.environ["EXPANSION_PORT"] = "0"

from apache_beam.transforms import validate_runner_xlang_test  # noqa: E402


@pytest.fixture(scope="class")
def python_service(request):
    """Runs an expansion service whose worker pool the client uses too."""
    port = worker_pool.free_port()
    pool = conftest.shared_pool(request.config)
    script = pathlib.Path(__file__).with_name("expansion_server.py")
    process = subprocess.Popen([sys.executable, script, str(port), pool.address],
                               env=worker_pool.worker_environment())
    try:
        worker_pool.wait_until_listening(port, process)
        os.environ["EXPANSION_PORT"] = str(port)
        yield
    finally:
        process.terminate()
        process.wait(timeout=10)


@pytest.fixture(scope="class")
def java_service(tmp_path_factory):
    """Runs an expansion service with a worker pool of its own."""
    log = tmp_path_factory.mktemp("java") / "service.log"
    try:
        with expansion.java_service(log) as address:
            os.environ["EXPANSION_PORT"] = address.rpartition(":")[2]
            yield
    except cache.MissingTool as error:
        pytest.skip(str(error))


@pytest.mark.usefixtures("python_service")
class PythonToPythonTest(validate_runner_xlang_test.ValidateRunnerXlangTest):
    """The eight inherited tests; options come from the run's `--environment=EXTERNAL`."""


@pytest.mark.usefixtures("java_service")
class PythonToJavaTest(validate_runner_xlang_test.ValidateRunnerXlangTest):
    """The same, with transforms in Java."""
