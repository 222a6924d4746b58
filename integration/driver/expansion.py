"""Expansion services with the transforms of Beam's cross-language tests, and workers to run them."""

import contextlib
import os

from . import cache, java_tests, programs, servers

PYTHON_SERVICE = cache.INTEGRATION / "python" / "expansion_server.py"
JAVA_SERVICE = "org.apache.beam.sdk.expansion.service.ExpansionService"


@contextlib.contextmanager
def python_service(log):
    """Gives the address of a service in Python."""
    python = cache.python()
    # A pool starts its workers as `python`.
    path = os.pathsep.join((str(python.parent), os.environ.get("PATH", "")))
    environment = {**os.environ, "PATH": path}
    pool_port, port = servers.free_port(), servers.free_port()
    pool = [python, "-m", "apache_beam.runners.worker.worker_pool_main", f"--service_port={pool_port}"]
    with (servers.beside("Python worker pool", pool, log.with_suffix(".pool.log"), pool_port,
                         environment) as workers,
          servers.beside("Python expansion service", [python, PYTHON_SERVICE, port, workers], log,
                         port, environment) as address):
        yield address


@contextlib.contextmanager
def java_service(log):
    """Gives the address of a service in Java."""
    port = servers.free_port()
    with programs.java_pool(log.with_suffix(".pool.log")) as workers:
        # The workers have the class path already; only something has to be staged.
        command = ["java", "-cp", programs.java_class_path(), JAVA_SERVICE, port,
                   "--defaultEnvironmentType=EXTERNAL", f"--defaultEnvironmentConfig={workers}",
                   f"--filesToStage={java_tests.MODULE / 'pom.xml'}"]
        with servers.beside("Java expansion service", command, log, port) as address:
            yield address
