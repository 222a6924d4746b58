"""Metrics while a bundle runs, and those of a process rather than of a bundle."""

import time

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.metrics import Metrics
from apache_beam.metrics.metric import MetricName

import jobs
import pipelines

State = jobs.State
SECONDS_MAX = 30


class CountAndBlock(pipelines.Block):
    """Counts an element before it blocks on it."""

    def process(self, element):
        """As its base, with a count."""
        Metrics.counter("test", "begun").inc()
        yield from super().process(element)


def _counter(infos, name):
    values = [VarIntCoder().decode(info.payload) for info in infos
              if info.labels.get("NAME") == name]
    return sum(values)


def test_a_running_bundle_counts_as_attempted(flags, job_service, tmp_path):
    """What a bundle counts is seen while it runs, and is committed with it."""
    reached, release = tmp_path / "reached", tmp_path / "release"

    def build(pipeline):
        pipeline | beam.Create([1]) | beam.ParDo(CountAndBlock(reached, release))

    result = pipelines.submit(flags, build)
    pipelines.wait_for_file(reached, 60)
    pipelines.wait_until(
        lambda: _counter(job_service.metrics(result._job_id).attempted, "begun") == 1, SECONDS_MAX)
    assert _counter(job_service.metrics(result._job_id).committed, "begun") == 0
    release.write_text("go")
    job_service.wait_for(result._job_id, {State.DONE}, SECONDS_MAX)
    metrics = job_service.metrics(result._job_id)
    assert _counter(metrics.attempted, "begun") == _counter(metrics.committed, "begun") == 1


def test_metrics_of_the_process(flags, job_service):
    """A counter outside of any bundle reaches the job's metrics too."""
    name = f"calls-{time.monotonic_ns()}"

    def call(element):
        Metrics.DelegatingCounter(MetricName("test", name), process_wide=True).inc()
        return element

    def build(pipeline):
        pipeline | beam.Create(range(7)) | beam.Map(call)

    result = pipelines.submit(flags, build)
    result.wait_until_finish()
    metrics = job_service.metrics(result._job_id)
    assert _counter(metrics.committed, name) == _counter(metrics.attempted, name) == 7
