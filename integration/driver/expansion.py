"""An expansion service in Python, for pipelines of other languages."""

import contextlib
import os
import pathlib
import tempfile

from . import cache, servers

SCRIPT = cache.INTEGRATION / "python" / "expansion_server.py"


@contextlib.contextmanager
def python_service(log):
    """Serves Beam's test transforms, and workers to run them; gives the address of the service."""
    pool_port, port = servers.free_port(), servers.free_port()
    pool = _start("worker pool", log.with_suffix(".pool.log"), pool_port, [
        "-m", "apache_beam.runners.worker.worker_pool_main", f"--service_port={pool_port}"])
    try:
        service = _start("expansion service", log, port, [
            SCRIPT, port, f"localhost:{pool_port}"])
        try:
            yield service.endpoint
        finally:
            service.kill()
    finally:
        pool.kill()


def _start(name, log, port, words):
    python = cache.python()
    # A pool starts its workers as `python`.
    path = os.pathsep.join((str(python.parent), os.environ.get("PATH", "")))
    data = pathlib.Path(tempfile.mkdtemp(prefix="tidemill-test-"))
    return servers.Server(name, [python, *words], log, data, port=port,
                          environment={**os.environ, "PATH": path})
