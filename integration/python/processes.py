"""What runs on this machine, read from /proc."""

import pathlib
import time


def descendants(pid):
    """Ids of all living processes below `pid`; a dead one not yet reaped does not count."""
    children = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            parent = _parent(entry)
            if parent is not None:
                children.setdefault(parent, []).append(int(entry.name))
    found, frontier = set(), [pid]
    while frontier:
        for child in children.get(frontier.pop(), []):
            found.add(child)
            frontier.append(child)
    return found


def wait_until_childless(pid, seconds):
    """Waits until `pid` has no descendants; returns those left at the deadline."""
    deadline = time.monotonic() + seconds
    while True:
        left = descendants(pid)
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.1)


def resident_bytes(pid):
    """How much memory a process has in use."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"process {pid} is gone")


def _parent(entry):
    """Parent id of a process, or None for one that is dead or gone."""
    try:
        fields = (entry / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[1])
