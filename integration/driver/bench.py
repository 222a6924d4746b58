"""Runs the benchmark rows against each server in turn and prints one table."""

import argparse
import dataclasses
import json
import pathlib
import statistics
import subprocess
import time

from . import bench_rows, cache, children, java_tests, programs, servers

RUN_SECONDS_MAX = 300
SERVERS = ("tidemill", "prism", "local")
TITLES = {"tidemill": "Tidemill", "prism": "Prism", "local": "Python runner"}


@dataclasses.dataclass
class Measure:
    """Medians of the runs of one row on one server."""

    wall_seconds: float
    client_cpu_seconds: float
    server_cpu_seconds: float
    peak_bytes: int
    payload_bytes: int

    def text(self):
        """The three figures of a table cell."""
        return (f"{self.wall_seconds:.3f} · {self.server_cpu_seconds:.2f} · "
                f"{self.peak_bytes / bench_rows.MEBIBYTE:.0f}")


def main(arguments):
    """Runs the chosen rows; returns 1 if `--check` finds a budget missed."""
    options = _parse(arguments)
    rows = [row for row in bench_rows.ROWS
            if row.name in options.row or (not options.row and row.default)]
    children.end_on_signals()
    table = {}
    for row in rows:
        for server in options.servers.split(","):
            if server not in row.skip:
                table[row.name, server] = _measure(row, server, options)
    _print_table(rows, table, options)
    missed = _print_budgets(rows, table)
    return 1 if options.check and missed else 0


def _parse(arguments):
    parser = argparse.ArgumentParser(prog="integration/bench", description=__doc__)
    parser.add_argument("row", nargs="*", help="rows to run; without any, the usual ones: "
                        + ", ".join(row.name for row in bench_rows.ROWS))
    parser.add_argument("--servers", default=",".join(SERVERS))
    parser.add_argument("--repeat", type=int, default=3, help="runs per row; the median counts")
    parser.add_argument("--profile", default="release", help="cargo profile of tidemill")
    parser.add_argument("--check", action="store_true", help="fail where a budget is missed")
    parser.add_argument("--logs", default=str(cache.ROOT / "target" / "bench"))
    options = parser.parse_args(arguments)
    pathlib.Path(options.logs).mkdir(parents=True, exist_ok=True)
    return options


def _measure(row, kind, options):
    """One row on a fresh server; None if it did not work there."""
    log = pathlib.Path(options.logs) / f"{row.name}.{kind}.server.log"
    try:
        server = servers.start(kind, log, options.profile)
    except (servers.ServerError, RuntimeError) as error:
        cache.say(f"{row.name} on {kind}: {error}")
        return None
    try:
        _client(row, server, warm_up=True)
        runs = [_one_run(row, server) for _ in range(options.repeat)]
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        cache.say(f"{row.name} on {kind}: {error}")
        return None
    finally:
        server.kill()
    measure = Measure(*(statistics.median(run[field.name] for run in runs)
                        for field in dataclasses.fields(Measure)))
    cache.say(f"{row.name} on {kind}: {measure.text()}")
    return measure


def _one_run(row, server):
    """Figures of one run: the client's own, and the server's from /proc."""
    _reset_peak(server.pid)
    before = _cpu_seconds(server.pid)
    run = _client(row, server)
    run["server_cpu_seconds"] = _cpu_seconds(server.pid) - before
    run["peak_bytes"] = _peak_bytes(server.pid)
    return run


def _client(row, server, warm_up=False):
    """Runs the client program of a row and reads the line of JSON that it prints."""
    if row.client == "go":
        name = "job_overhead" if warm_up else row.name
        command = [cache.go_load(), f"--row={name}", "--runner=universal",
                   f"--endpoint={server.endpoint}", "--environment_type=LOOPBACK"]
    elif row.client == "java":
        # The harness runs in the client's process: its class path need not be staged.
        name = "job_overhead" if warm_up else row.name.removeprefix("java_")
        command = ["java", "-Xmx2g", "-cp", programs.java_class_path(), "dev.tidemill.Load",
                   f"--row={name}", "--runner=PortableRunner", "--experiments=beam_fn_api",
                   "--defaultEnvironmentType=LOOPBACK", f"--jobEndpoint={server.endpoint}",
                   f"--filesToStage={java_tests.MODULE / 'pom.xml'}"]
    else:
        name = "tiny" if warm_up else row.name
        command = [cache.python(), cache.INTEGRATION / "python" / "bench_rows.py",
                   f"--row={name}", f"--endpoint={server.endpoint}"]
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=RUN_SECONDS_MAX, check=False)
    if done.returncode != 0:
        raise RuntimeError("\n".join(done.stderr.splitlines()[-10:]))
    return json.loads(done.stdout.splitlines()[-1])


def _cpu_seconds(pid):
    # Linux's number for the CPU clock of a process: to the nanosecond, where /proc counts ticks of 10 ms.
    return time.clock_gettime(~pid << 3 | 2)


def _reset_peak(pid):
    """Makes the kernel forget the highest resident size seen so far."""
    try:
        pathlib.Path(f"/proc/{pid}/clear_refs").write_text("5")
    except OSError:
        pass  # Then the peak is that of all runs, which is an upper bound.


def _peak_bytes(pid):
    """Highest resident size of a process since the last reset."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def _print_table(rows, table, options):
    names = options.servers.split(",")
    print(f"Median of {options.repeat}; wall s · server CPU s · server peak MiB.\n")
    print("| row | client CPU s | " + " | ".join(TITLES[name] for name in names)
          + " | wall / Prism's | wall / client CPU |")
    print("| --- " * (len(names) + 4) + "|")
    for row in rows:
        measures = [table.get((row.name, name)) for name in names]
        cells = ["–" if one is None else one.text() for one in measures]
        ours, prism = table.get((row.name, "tidemill")), table.get((row.name, "prism"))
        base = ours or next((one for one in measures if one is not None), None)
        client = "–" if base is None else f"{base.client_cpu_seconds:.2f}"
        print(f"| {row.title} | {client} | " + " | ".join(cells)
              + f" | {_ratio(ours, prism)} | {_client_ratio(ours)} |")


def _ratio(ours, prism):
    if ours is None or prism is None:
        return "–"
    return f"{ours.wall_seconds / prism.wall_seconds:.2f}"


def _client_ratio(ours):
    if ours is None or not ours.client_cpu_seconds:
        return "–"
    return f"{ours.wall_seconds / ours.client_cpu_seconds:.2f}"


def _print_budgets(rows, table):
    """Prints each budget with the figure reached; returns how many are missed."""
    missed = 0
    print()
    for row in rows:
        ours, prism = table.get((row.name, "tidemill")), table.get((row.name, "prism"))
        if ours is None:
            continue
        for what, value, limit in _budgets(row, ours, prism):
            met = value <= limit
            missed += not met
            print(f"- {row.name}: {what} {value:.2f}, at most {limit:.2f}: "
                  f"{'met' if met else 'MISSED'}")
    return missed


def _budgets(row, ours, prism):
    """(what, figure, limit) for each budget of a row."""
    if row.wall_of_prism_max is not None and prism is not None:
        yield "wall of Prism's", ours.wall_seconds / prism.wall_seconds, row.wall_of_prism_max
    if row.wall_of_client_cpu_max is not None:
        yield ("wall of client CPU", ours.wall_seconds / ours.client_cpu_seconds,
               row.wall_of_client_cpu_max)
    if row.server_cpu_seconds_max is not None:
        yield "server CPU s", ours.server_cpu_seconds, row.server_cpu_seconds_max
    if row.server_cpu_of_client_max is not None:
        yield ("server CPU of client's", ours.server_cpu_seconds / ours.client_cpu_seconds,
               row.server_cpu_of_client_max)
    if row.memory_of_payload:
        yield ("peak MiB", ours.peak_bytes / bench_rows.MEBIBYTE,
               bench_rows.memory_budget_bytes(ours.payload_bytes) / bench_rows.MEBIBYTE)
