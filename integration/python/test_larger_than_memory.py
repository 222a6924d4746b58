"""Groups, reshuffles, side inputs and state of several times the memory that the server has."""

import contextlib
import json
import os
import pathlib
import subprocess

import pytest

import memory_limit
from driver import cache, servers

MEBIBYTE = 1 << 20
# A GiB of payload is several times this; the suite gives the server a budget of a third of it.
LIMIT_BYTES = 300 * MEBIBYTE
SMALL_DISK_BYTES = 64 * MEBIBYTE


@pytest.fixture(name="short_of_memory", scope="module")
def _short_of_memory(request):
    pid = request.config.getoption("--server-pid")
    if pid is None:
        pytest.skip("the server is not ours: its memory cannot be limited")
    with memory_limit.limited(pid, LIMIT_BYTES) as how:
        print(f"limited by {how}")
        yield


def load(endpoint, row):
    """Runs a row of the load program, which checks what comes out."""
    command = [cache.go_load(), f"--row={row}", "--runner=universal", f"--endpoint={endpoint}",
               "--environment_type=LOOPBACK"]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=300, check=False)


@pytest.mark.timeout(320)
@pytest.mark.parametrize("row", (
    "large_reshuffle", "large_group_by_key", "large_side_input", "large_state"))
def test_payload_larger_than_memory(endpoint, short_of_memory, row):
    """Every value arrives once and whole, and the server lives."""
    done = load(endpoint, row)
    assert done.returncode == 0, done.stderr[-3000:]
    payload_bytes = json.loads(done.stdout.splitlines()[-1])["payload_bytes"]
    assert payload_bytes > 3 * LIMIT_BYTES


@contextlib.contextmanager
def _small_disk(folder):
    size = f"size={SMALL_DISK_BYTES}"
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tidemill-test", str(folder)],
                             capture_output=True, check=False)
    if mounted.returncode != 0:
        pytest.skip("this user cannot mount a small disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=False)


@pytest.mark.timeout(320)
@pytest.mark.parametrize("row", ("large_reshuffle", "large_group_by_key", "large_side_input"))
def test_a_full_disk_fails_the_job(tmp_path, row):
    """The job's error names the folder and what to do; the server goes on, and leaves nothing behind."""
    tidemill = os.environ.get("TIDEMILL_BIN")
    if not tidemill:
        pytest.skip("no binary of ours to start")
    data = tmp_path / "data"
    data.mkdir()
    with _small_disk(data):
        command = [tidemill, "serve", "--port=0", "--artifact-port=0", "--data-dir", data,
                   "--port-file", tmp_path / "ports.json", "--memory-budget=50MiB"]
        server = servers.Server("tidemill", command, tmp_path / "log", tmp_path / "none",
                                port_file=tmp_path / "ports.json")
        try:
            failed = load(server.endpoint, row)
            assert failed.returncode != 0
            for words in ("No space left", str(data / "overflow"), "--data-dir", "--memory-budget"):
                assert words in failed.stderr, failed.stderr[-3000:]
            done = load(server.endpoint, "job_overhead")
            assert done.returncode == 0, done.stderr[-3000:]
            assert not list(pathlib.Path(data / "overflow").iterdir())
        finally:
            server.stop()
