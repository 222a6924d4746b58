"""The rows of the benchmark, and what each of them must reach."""

import dataclasses

MEBIBYTE = 1 << 20


@dataclasses.dataclass(frozen=True)
class Row:
    """One pipeline; its name is known to integration/go/load or integration/python/bench_rows.py, and
    without `java_` to integration/java."""

    name: str
    title: str
    client: str  # "go", "java" or "python"
    # Budgets of Tidemill; None where there is none.
    wall_of_prism_max: float | None = None
    wall_of_client_cpu_max: float | None = None
    server_cpu_seconds_max: float | None = None
    server_cpu_of_client_max: float | None = None
    memory_of_payload: bool = False
    # Servers that would take minutes or break on it.
    skip: tuple = ()
    default: bool = True


def memory_budget_bytes(payload_bytes):
    """Three times the payload plus 50 MiB."""
    return 3 * payload_bytes + 50 * MEBIBYTE


def _python(name, title, **more):
    return Row(name, title, "python", wall_of_client_cpu_max=1.1, server_cpu_of_client_max=0.1,
               **more)


# Beam's Python runner polls a Go job's state every five seconds, which hides all else.
_NOT_LOCAL = ("local",)

ROWS = (
    Row("job_overhead", "Go: a job of 10 elements", "go", wall_of_prism_max=1.0, skip=_NOT_LOCAL),
    Row("fused_5m", "Go: 5 M elements through fused ParDos", "go", skip=_NOT_LOCAL),
    Row("group_by_key_1m", "Go: GroupByKey, 1 M elements, 1 k keys", "go", wall_of_prism_max=0.2,
        server_cpu_seconds_max=0.5, memory_of_payload=True, skip=_NOT_LOCAL),
    Row("group_by_key_3m", "Go: GroupByKey, 3 M elements, 1 k keys", "go", wall_of_prism_max=0.1,
        server_cpu_seconds_max=1.5, memory_of_payload=True, skip=_NOT_LOCAL),
    Row("combine_1m_keys", "Go: Combine, 1 M elements, 1 M keys", "go", wall_of_prism_max=0.1,
        server_cpu_seconds_max=0.5, memory_of_payload=True, skip=_NOT_LOCAL),
    Row("group_by_key_1kb", "Go: GroupByKey, 300 k × 1 KB, 1 k keys", "go",
        memory_of_payload=True, skip=_NOT_LOCAL),
    Row("reshuffle_1m", "Go: Reshuffle, 1 M elements", "go", skip=_NOT_LOCAL, default=False),
    Row("side_input_1m", "Go: side input of 1 M elements", "go", wall_of_prism_max=0.2,
        skip=_NOT_LOCAL),
    Row("stateful_100k", "Go: stateful DoFn, 100 k elements, 50 k keys", "go",
        wall_of_prism_max=0.2, skip=_NOT_LOCAL),
    Row("timers_1m", "Go: 1 M timers at one instant", "go", wall_of_prism_max=0.2, skip=_NOT_LOCAL),
    Row("group_by_key_10m", "Go: GroupByKey, 10 M elements, 10 k keys", "go", skip=_NOT_LOCAL,
        default=False),
    Row("java_group_by_key_1m", "Java: GroupByKey, 1 M elements, 1 k keys", "java",
        server_cpu_of_client_max=0.25, memory_of_payload=True, skip=_NOT_LOCAL),
    # Prism takes four minutes and 12 GiB for it.
    Row("java_group_by_key_10m", "Java: GroupByKey, 10 M elements, 10 k keys", "java",
        wall_of_prism_max=0.1, server_cpu_of_client_max=0.25, memory_of_payload=True,
        skip=_NOT_LOCAL, default=False),
    Row("tiny", "Python: a job of 10 elements", "python", wall_of_prism_max=1.0),
    _python("maps", "Python: 1 M × 100 B through fused maps"),
    _python("group", "Python: GroupByKey, 1 M elements, 10 k keys"),
    Row("typed_group", "Python: GroupByKey, 1 M elements of a declared type, 10 k keys", "python"),
    _python("combine", "Python: CombinePerKey, 1 M elements, 10 k keys"),
    _python("reshuffle", "Python: Reshuffle, 100 k × 1 KB"),
    Row("typed_reshuffle", "Python: Reshuffle, 100 k × 1 KB of a declared type", "python"),
    _python("side", "Python: 100 k elements, side dictionary of 10 k"),
    Row("stateful", "Python: stateful DoFn, 20 k elements, 10 k keys", "python", default=False),
)
