"""Job services that suites run against: Tidemill, and the two runners it is compared with."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from . import cache, children

START_DEADLINE_SECONDS = 60
STOP_DEADLINE_SECONDS = 20


class ServerError(Exception):
    """A server did not start, or did not end as it should."""


class Server:
    """One running job service with its own data folder and log."""

    def __init__(self, name, command, log, data, port=None, port_file=None, environment=None):
        self.name = name
        self.log = log
        self._data = data
        with log.open("wb") as output:
            self.process = children.start(
                command, stdout=output, stderr=subprocess.STDOUT, env=environment)
        try:
            self.port = port if port_file is None else self._read_port(port_file)
            self._wait_until_listening()
        except ServerError:
            self.kill()
            raise

    @property
    def endpoint(self):
        """host:port of the job service."""
        return f"localhost:{self.port}"

    @property
    def pid(self):
        """Process id of the server."""
        return self.process.pid

    def stop(self):
        """SIGTERM; an error if the server had ended already, hangs or ends badly."""
        early = self.process.poll()
        if early is not None:
            self._remove_data()
            children.forget(self.process)
            raise ServerError(f"{self.name} ended during the suite with status {early}"
                              f" (log: {self.log})")
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(timeout=STOP_DEADLINE_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ServerError(f"{self.name} ran on for {STOP_DEADLINE_SECONDS} s after SIGTERM"
                              ) from None
        self._remove_data()
        children.forget(self.process)
        if self.name == "tidemill" and status != 0:
            raise ServerError(f"tidemill ended with status {status} after SIGTERM")

    def kill(self):
        """Ends the process at once."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        children.forget(self.process)
        self._remove_data()

    def _remove_data(self):
        shutil.rmtree(self._data, ignore_errors=True)

    def _read_port(self, port_file):
        deadline = time.monotonic() + START_DEADLINE_SECONDS
        while time.monotonic() < deadline:
            self._check_alive()
            if port_file.exists() and port_file.stat().st_size > 0:
                try:
                    return json.loads(port_file.read_text())["job"]
                except json.JSONDecodeError:
                    pass  # Seen between its creation and its last byte.
            time.sleep(0.05)
        raise ServerError(f"{self.name} wrote no port file (log: {self.log})")

    def _wait_until_listening(self):
        deadline = time.monotonic() + START_DEADLINE_SECONDS
        while time.monotonic() < deadline:
            self._check_alive()
            try:
                socket.create_connection(("localhost", self.port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.05)
        raise ServerError(f"{self.name} does not listen on {self.port} (log: {self.log})")

    def _check_alive(self):
        if self.process.poll() is not None:
            text = self.log.read_text(errors="replace")[-2000:]
            raise ServerError(f"{self.name} ended with {self.process.returncode}:\n{text}")


def start(kind, log, profile="dev", extra=()):
    """Starts a server of the kind: `tidemill`, `prism` or `local`."""
    data = pathlib.Path(tempfile.mkdtemp(prefix="tidemill-test-"))
    starters = {"tidemill": _tidemill, "prism": _prism, "local": _local}
    return starters[kind](log, data, profile, extra)


def _tidemill(log, data, profile, extra):
    port_file = data / "ports.json"
    command = [cache.tidemill(profile), "serve", "--port", "0", "--artifact-port", "0",
               "--port-file", port_file, "--data-dir", data / "data", "--log-format", "json", *extra]
    return Server("tidemill", command, log, data, port_file=port_file)


def _prism(log, data, _profile, _extra):
    port, web = free_port(), free_port()
    command = [cache.prism(), "--job_port", port, "--web_port", web, "--serve_http=false",
               "--log_level", "warn", "--idle_shutdown_timeout", "-1s"]
    return Server("prism", command, log, data, port=port)


def _local(log, data, _profile, _extra):
    port = free_port()
    command = [cache.python(), "-m", "apache_beam.runners.portability.local_job_service_main",
               "--job_port", port, "--staging_dir", data / "staging"]
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    return Server("local", command, log, data, port=port)


@contextlib.contextmanager
def beside(name, command, log, port, environment=None):
    """Runs something that a suite needs beside its job service; gives its address."""
    data = pathlib.Path(tempfile.mkdtemp(prefix="tidemill-test-"))
    server = Server(name, command, log, data, port=port, environment=environment)
    try:
        yield server.endpoint
    finally:
        server.kill()


def free_port():
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return probe.getsockname()[1]
