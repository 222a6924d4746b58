"""Processes that a run has started, so that none outlives it."""

import os
import signal
import subprocess
import threading

_lock = threading.Lock()
_running = set()


def start(command, **options):
    """Starts a command as the leader of a process group of its own."""
    words = [str(word) for word in command]
    process = subprocess.Popen(words, start_new_session=True, **options)
    with _lock:
        _running.add(process)
    return process


def forget(process):
    """Says that a process has ended and was waited for; what it left behind is killed."""
    with _lock:
        _running.discard(process)
    _kill_group(process)


def end_on_signals():
    """Makes SIGTERM and SIGINT end everything that was started, then this process."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end_all)


def _end_all(number, _frame):
    with _lock:
        left = list(_running)
    for process in left:
        _kill_group(process)
    os._exit(128 + number)


def _kill_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
