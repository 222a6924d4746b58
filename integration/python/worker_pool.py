"""An SDK worker pool in a process of its own, for pipelines with an EXTERNAL environment."""

import os
import pathlib
import socket
import subprocess
import sys
import time

START_DEADLINE_SECONDS = 60


class WorkerPool:
    """Beam's own worker pool; each worker it starts is a further process."""

    def __init__(self, executable=None):
        port = free_port()
        self.address = f"localhost:{port}"
        command = [sys.executable, "-m", "apache_beam.runners.worker.worker_pool_main",
                   f"--service_port={port}"]
        if executable:
            command.append(f"--container_executable={executable}")
        self.process = subprocess.Popen(
            command, env=worker_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until_listening(port, self.process)

    def stop(self):
        """Ends the pool; SIGINT lets it end its workers first."""
        self.process.terminate()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def worker_environment():
    """Environment of a worker: our interpreter first on PATH, the tests importable."""
    here = str(pathlib.Path(__file__).resolve().parent)
    environment = dict(os.environ)
    binaries = str(pathlib.Path(sys.executable).parent)
    environment["PATH"] = binaries + os.pathsep + environment.get("PATH", "")
    paths = [here, environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    return environment


def free_port():
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return probe.getsockname()[1]


def wait_until_listening(port, process):
    """Returns once `port` accepts connections; raises if `process` ends first."""
    deadline = time.monotonic() + START_DEADLINE_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"process ended with {process.returncode} before it listened")
        try:
            socket.create_connection(("localhost", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"nothing listens on port {port}")
