"""Takes memory from a process that runs: by a control group, else by a limit of its data."""

import contextlib
import os
import pathlib
import resource
import time

CGROUP = pathlib.Path("/sys/fs/cgroup")
# A process cannot have all of its data within a limit of addresses: stacks and arenas reserve some.
ADDRESSES_PER_BYTE = 2


@contextlib.contextmanager
def limited(pid, limit_bytes):
    """The process may have so much memory, what the kernel caches for it included; gives how that is seen to."""
    group = _control_group(limit_bytes)
    if group is None:
        most = limit_bytes * ADDRESSES_PER_BYTE
        resource.prlimit(pid, resource.RLIMIT_DATA, (most, most))
        yield f"RLIMIT_DATA of {most} bytes"
        return
    try:
        (group / "cgroup.procs").write_text(str(pid))
        yield f"the control group {group}"
    finally:
        with contextlib.suppress(OSError):
            (group.parent / "cgroup.procs").write_text(str(pid))
        _remove(group)


def _control_group(limit_bytes):
    """A new group with the limit; None where this user or kernel has none."""
    name = f"tidemill-test-{os.getpid()}"
    for parent, file in ((CGROUP, "memory.max"), (CGROUP / "memory", "memory.limit_in_bytes")):
        group = parent / name
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / file).write_text(str(limit_bytes))
            # Swap would only hide what does not fit.
            with contextlib.suppress(OSError):
                (group / "memory.swap.max").write_text("0")
            return group
        except OSError:
            group.rmdir()
    return None


def _remove(group):
    """A group can be removed once nothing runs in it."""
    for _ in range(100):
        try:
            group.rmdir()
            return
        except OSError:
            time.sleep(0.05)
