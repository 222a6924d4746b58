"""Pub/Sub servers for tests, a proxy that cuts connections, and a Tidemill that uses them."""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import threading
import time
import urllib.request

START_SECONDS_MAX = 60


class Missing(Exception):
    """A server cannot be started here, for the reason given."""


class Process:
    """A child process that is ended with its test."""

    def __init__(self, *command, **options):
        try:
            self.process = subprocess.Popen([str(word) for word in command], **options)
        except FileNotFoundError as error:
            raise Missing(f"{command[0]} is not installed") from error

    def stop(self) -> int:
        """SIGTERM; returns the exit status."""
        self.process.terminate()
        return self.process.wait(10)

    def kill(self):
        """SIGKILL, if it still runs."""
        self.process.kill()
        self.process.wait()

    def _await(self, what, is_there):
        deadline = time.monotonic() + START_SECONDS_MAX
        while not is_there():
            assert self.process.poll() is None, f"{what} ended"
            assert time.monotonic() < deadline, f"{what} does not listen"
            time.sleep(0.01)


class Emulator(Process):
    """A running `tidemill pubsub-emulator` with its admin calls."""

    def __init__(self, folder: pathlib.Path, *flags: str, port: int = 0):
        port_file = folder / "port.json"
        port_file.unlink(missing_ok=True)
        super().__init__(os.environ["TIDEMILL_BIN"], "pubsub-emulator", "--port", port, "--port-file", port_file,
                         *flags)
        self._await("the emulator", port_file.exists)
        self.port = json.loads(port_file.read_text())["pubsub"]
        self.address = f"127.0.0.1:{self.port}"

    def call(self, path: str, body: dict | None = None) -> dict:
        """An admin call: GET without a body, else POST."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://{self.address}/emulator/{path}", data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)

    def stats(self, subscription: str) -> dict:
        """What one subscription has seen."""
        return self.call("stats")["subscriptions"][subscription]

    def advance(self, seconds: float):
        """Sets the emulator's clock ahead."""
        self.call("advance-clock", {"seconds": seconds})


class Official(Process):
    """Google's emulator, where the Google Cloud SDK has put its jar."""

    def __init__(self):
        jar = official_jar()
        if jar is None:
            raise Missing("the official Pub/Sub emulator is not installed: no cloud-pubsub-emulator-*-all.jar in "
                          "platform/pubsub-emulator/lib of a google-cloud-sdk folder")
        port = free_port()
        super().__init__("java", "-Xmx512m", "-jar", jar, "--host=127.0.0.1", f"--port={port}",
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.address = f"127.0.0.1:{port}"
        self._await("the official emulator", lambda: listens(port))


class Pstest(Process):
    """Go's fake, in a process of ours."""

    def __init__(self, folder: pathlib.Path):
        go = shutil.which("go") or "/usr/local/go/bin/go"
        if not pathlib.Path(go).exists():
            raise Missing("Go is not installed, which the pstest server is built with")
        binary = folder / "pstest"
        source = pathlib.Path(__file__).with_name("pstest")
        subprocess.run([go, "build", "-o", binary, "."], cwd=source, check=True, stdout=subprocess.DEVNULL)
        super().__init__(binary, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()
        self._asking = threading.Lock()

    def unacknowledged(self, topic: str) -> int:
        """How many messages of a topic no subscriber has acknowledged."""
        with self._asking:
            self.process.stdin.write(f"{topic}\n")
            self.process.stdin.flush()
            return int(self.process.stdout.readline())


class Tidemill(Process):
    """`tidemill serve` whose Pub/Sub is at the given address."""

    def __init__(self, folder: pathlib.Path, pubsub: str, *flags: str):
        port_file = folder / "tidemill.json"
        port_file.unlink(missing_ok=True)
        super().__init__(
            os.environ["TIDEMILL_BIN"], "serve", "--port", 0, "--artifact-port", 0, "--port-file", port_file,
            "--data-dir", folder / "data", "--log-level", "warn", *flags,
            env={**os.environ, "PUBSUB_EMULATOR_HOST": pubsub})
        self._await("tidemill", port_file.exists)
        self.endpoint = f"localhost:{json.loads(port_file.read_text())['job']}"


class Proxy:
    """Passes connections on to a server, and cuts them when told.

    A server that `lingers` (the official emulator) goes on giving the streams of a cut connection their share of
    all later messages, for ever; it only lets go of a stream that the client has half closed. There a cut ends the
    open streams towards the server in that way, so that it is only what was on its way that comes late.
    """

    def __init__(self, upstream: str, lingers: bool = False):
        self._upstream = upstream.rpartition(":")
        self._lingers = lingers
        self._lock = threading.Lock()
        self._links: list[_Link] = []
        self._stopping = threading.Event()
        self._is_open = True
        self.cuts = 0
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self):
        """Cuts every connection that is open now."""
        with self._lock:
            links, self._links = self._links, []
        for link in links:
            self.cuts += link.cut()

    def cut_every(self, seconds: float, times: int):
        """Cuts all connections so many times, in the background."""
        def cut_again_and_again():
            for _ in range(times):
                if self._stopping.wait(seconds):
                    return
                self.cut()

        threading.Thread(target=cut_again_and_again, daemon=True).start()

    def close_gate(self):
        """Cuts everything, and every connection to come, as if nobody listened."""
        self._is_open = False
        self.cut()

    def open_gate(self):
        """Lets connections pass again."""
        self._is_open = True

    def stop(self):
        """Ends everything."""
        self._stopping.set()
        self._listener.close()
        self.cut()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                if not self._is_open:
                    raise ConnectionRefusedError
                server = socket.create_connection((self._upstream[0], int(self._upstream[2])))
            except OSError:
                client.close()
                continue
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._links.append(_Link(client, server, self._lingers))


class _Link:
    """One connection through the proxy."""

    PREFACE = len(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    FRAME_HEADER = 9
    DATA, HEADERS = 0, 1
    END_STREAM = 1

    def __init__(self, client, server, lingers):
        self._client, self._server, self._lingers = client, server, lingers
        self._sending = threading.Lock()
        self._is_cut = False
        # Streams that the client has opened and not ended.
        self._streams: set[bytes] = set()
        for work in (self._forward_requests, self._forward_responses):
            threading.Thread(target=work, daemon=True).start()

    def cut(self) -> bool:
        """Cuts the connection; `False` if it was over before."""
        with self._sending:
            if self._is_cut:
                return False
            self._is_cut = True
            _close(self._client)
            if self._lingers:
                for stream in self._streams:
                    self._to_server(b"\0\0\0" + bytes([self.DATA, self.END_STREAM]) + stream)
            else:
                _close(self._server)
        return True

    def _forward_requests(self):
        waiting = b""
        preface = self.PREFACE
        while received := _receive(self._client):
            waiting += received
            # Only whole frames, so that a cut does not come in the middle of one.
            end = preface
            while len(waiting) >= end + self.FRAME_HEADER:
                after = end + self.FRAME_HEADER + int.from_bytes(waiting[end:end + 3])
                if after > len(waiting):
                    break
                self._note(waiting[end:end + self.FRAME_HEADER])
                end = after
            if end == preface:
                continue
            with self._sending:
                if self._is_cut:
                    return
                self._to_server(waiting[:end])
            waiting, preface = waiting[end:], 0
        self.cut()

    def _note(self, header):
        kind, flags, stream = header[3], header[4], header[5:]
        if kind == self.HEADERS:
            self._streams.add(stream)
        if kind in (self.DATA, self.HEADERS) and flags & self.END_STREAM:
            self._streams.discard(stream)

    def _forward_responses(self):
        while received := _receive(self._server):
            try:
                self._client.sendall(received)
            except OSError:
                if not self._lingers:
                    break
        self.cut()

    def _to_server(self, data):
        try:
            self._server.sendall(data)
        except OSError:
            pass  # The other thread sees it too, and cuts.


def _receive(end):
    try:
        return end.recv(1 << 16)
    except OSError:
        return b""


def _close(end):
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    end.close()


def official_jar() -> pathlib.Path | None:
    """Where the official emulator is, if anywhere."""
    given = os.environ.get("TIDEMILL_PUBSUB_EMULATOR_JAR")
    if given:
        return pathlib.Path(given)
    roots = [os.environ.get("CLOUDSDK_ROOT_DIR"), "/usr/lib/google-cloud-sdk", "/opt/google-cloud-sdk",
             pathlib.Path.home() / "google-cloud-sdk"]
    for root in filter(None, roots):
        for jar in pathlib.Path(root, "platform/pubsub-emulator/lib").glob("*-all.jar"):
            return jar
    return None


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listens(port: int) -> bool:
    """Whether somebody accepts connections there."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    except OSError:
        return False
