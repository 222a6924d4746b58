"""One benchmark pipeline with an in-process (LOOPBACK) Python harness; prints a line of JSON.

    bench_rows.py --row=group --endpoint=localhost:8099
"""

import argparse
import json
import resource
import time
import typing

import apache_beam as beam
from apache_beam.coders import BytesCoder
from apache_beam.metrics import Metrics, MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import userstate

PAIR = typing.Tuple[int, int]


class Count(beam.DoFn):
    """Counts elements, and the values in groups; one counter update for each bundle."""

    def __init__(self, in_groups=False):
        self._in_groups = in_groups
        self._seen = 0
        self._counter = Metrics.counter("bench", "elements")

    def process(self, element):
        """Counts one element."""
        self._seen += sum(1 for _ in element[1]) if self._in_groups else 1

    def finish_bundle(self):
        """Reports what this bundle saw."""
        self._counter.inc(self._seen)
        self._seen = 0


class Remember(beam.DoFn):
    """Reads and extends a bag for each element."""

    BAG = userstate.BagStateSpec("bag", BytesCoder())

    def process(self, element, bag=beam.DoFn.StateParam(BAG)):
        """Passes the element on."""
        list(bag.read())
        bag.add(b"x")
        yield element


def numbers(pipeline, count, label="Numbers"):
    """Numbers that are made in the harness, from one impulse."""
    return pipeline | f"{label}Count" >> beam.Create([count]) | label >> beam.FlatMap(
        lambda count: range(count))  # "range" by itself gives Beam no type to check.


def typed(pipeline, count, of, make):
    """Elements with a declared type, and so with a coder that costs the harness less."""
    return pipeline | beam.Create([count]) | beam.FlatMap(
        lambda count: (make(i) for i in range(count))).with_output_types(of)


def tiny(pipeline):
    """As little as a job can be."""
    return pipeline | beam.Create(range(10)) | beam.ParDo(Count())


def maps(pipeline):
    """Elements that never reach the runner."""
    values = numbers(pipeline, 1_000_000) | beam.Map(lambda i: b"x" * 100)
    for step in range(3):
        values = values | f"Map{step}" >> beam.Map(lambda value: value)
    return values | beam.ParDo(Count())


def group(pipeline):
    """Every element reaches the runner and comes back in a group."""
    return (numbers(pipeline, 1_000_000) | beam.Map(lambda i: (i % 10_000, i))
            | beam.GroupByKey() | beam.ParDo(Count(in_groups=True)))


def typed_group(pipeline):
    """The same with declared types."""
    return (typed(pipeline, 1_000_000, PAIR, lambda i: (i % 10_000, i))
            | beam.GroupByKey() | beam.ParDo(Count(in_groups=True)))


def combine(pipeline):
    """The harness combines first; the runner sees a value for each key."""
    return (numbers(pipeline, 1_000_000) | beam.Map(lambda i: (i % 10_000, 1))
            | beam.CombinePerKey(sum) | beam.ParDo(Count()))


def reshuffle(pipeline):
    """Large values through the runner."""
    return (numbers(pipeline, 100_000) | beam.Map(lambda i: (i, i.to_bytes(4, "big") * 256))
            | beam.Reshuffle() | beam.Map(lambda pair: (pair[0], len(pair[1])))
            | beam.ParDo(Count()))


def typed_reshuffle(pipeline):
    """The leanest that a harness can be: bytes that nothing looks at."""
    return (typed(pipeline, 100_000, bytes, lambda i: i.to_bytes(4, "big") * 256)
            | beam.Reshuffle() | beam.ParDo(Count()))


def side(pipeline):
    """A dictionary as side input."""
    pairs = numbers(pipeline, 10_000, "Side") | "Pairs" >> beam.Map(lambda i: (i, i))
    return (numbers(pipeline, 100_000)
            | beam.Map(lambda i, table: table[i % 10_000], beam.pvalue.AsDict(pairs))
            | beam.ParDo(Count()))


def stateful(pipeline):
    """User state for each key."""
    return (typed(pipeline, 20_000, PAIR, lambda i: (i % 10_000, i))
            | beam.ParDo(Remember()) | beam.ParDo(Count()))


# Row → (pipeline, elements that must be counted, bytes of payload that cross the runner).
ROWS = {
    "tiny": (tiny, 10, 0),
    "maps": (maps, 1_000_000, 0),
    "group": (group, 1_000_000, 8_000_000),
    "typed_group": (typed_group, 1_000_000, 8_000_000),
    "combine": (combine, 10_000, 80_000),
    "reshuffle": (reshuffle, 100_000, 102_400_000),
    "typed_reshuffle": (typed_reshuffle, 100_000, 102_400_000),
    "side": (side, 100_000, 80_000),
    "stateful": (stateful, 20_000, 160_000),
}


def main():
    """Runs one row after a small job that warms the client up."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--row", required=True, choices=tuple(ROWS))
    parser.add_argument("--endpoint", required=True)
    options = parser.parse_args()
    build, expected, payload_bytes = ROWS[options.row]
    run(options.endpoint, tiny, 10)
    wall, cpu = run(options.endpoint, build, expected)
    print(json.dumps({"row": options.row, "wall_seconds": wall, "client_cpu_seconds": cpu,
                      "payload_bytes": payload_bytes}))


def run(endpoint, build, expected):
    """Runs a pipeline; returns wall and CPU seconds of the client from submission to the end."""
    pipeline = beam.Pipeline(options=PipelineOptions([
        "--runner=PortableRunner", f"--job_endpoint={endpoint}", "--environment_type=LOOPBACK",
        "--experiments=disable_logging_submission_environment"]))
    build(pipeline)
    cpu_before, started = cpu_seconds(), time.monotonic()
    result = pipeline.run()
    state = result.wait_until_finish()
    wall, cpu = time.monotonic() - started, cpu_seconds() - cpu_before
    if state != "DONE":
        raise SystemExit(f"the job ended {state}")
    found = result.metrics().query(MetricsFilter().with_name("elements"))["counters"]
    counted = sum(counter.result or 0 for counter in found)
    if counted != expected:
        raise SystemExit(f"counted {counted} elements, not {expected}")
    return wall, cpu


def cpu_seconds():
    """User and system time of this process so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
