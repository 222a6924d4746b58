"""Small pipelines that several suites submit without waiting for them."""

import contextlib
import os
import pathlib
import time

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import environments
from apache_beam.transforms.periodicsequence import PeriodicImpulse

PATIENCE_SECONDS = 100


class Block(beam.DoFn):
    """Says that it was reached by making a file, and waits until another one exists."""

    def __init__(self, reached, release):
        self._reached = str(reached)
        self._release = str(release)

    def process(self, element):
        """Passes the element on once released, or after `PATIENCE_SECONDS`."""
        pathlib.Path(self._reached).write_text(str(os.getpid()))
        wait_for_file(self._release, PATIENCE_SECONDS, missing_ok=True)
        yield element


class DieOnce(beam.DoFn):
    """Ends its whole process at the element 7, unless the file says that it did so before."""

    def __init__(self, marker):
        self._marker = str(marker)

    def process(self, element):
        """Doubles the element, if it lives."""
        if element == 7:
            with contextlib.suppress(FileExistsError):
                os.close(os.open(self._marker, os.O_CREAT | os.O_EXCL))
                os._exit(17)
        yield element * 2


class DieAlways(beam.DoFn):
    """Ends its process at every element."""

    def process(self, element):
        """Does not return."""
        os._exit(18)


def options(flags, *more):
    """Pipeline options for the run's endpoint."""
    return PipelineOptions([*flags, "--runner=PortableRunner", *more])


def serialized(pipeline):
    """The pipeline as a proto, for a server that is not to run it: its worker pool is not there."""
    nowhere = environments.ExternalEnvironment(
        "localhost:1", capabilities=environments.python_sdk_capabilities())
    return pipeline.to_runner_api(default_environment=nowhere)


def submit(flags, build, *more):
    """Builds and submits a pipeline; returns the client's result without waiting."""
    pipeline = beam.Pipeline(options=options(flags, *more))
    build(pipeline)
    return pipeline.run()


def blocked(folder):
    """A pipeline that stops inside a bundle, and the files by which it is watched and released."""
    reached, release = folder / "reached", folder / "release"

    def build(pipeline):
        # pylint: disable=expression-not-assigned
        pipeline | beam.Create([1]) | "Blocked" >> beam.ParDo(Block(reached, release))

    return build, reached, release


def endless(pipeline):
    """A streaming pipeline that never ends by itself."""
    (  # pylint: disable=expression-not-assigned
        pipeline
        | PeriodicImpulse(fire_interval=0.2)
        | beam.Map(lambda element: element)
        | beam.WindowInto(beam.window.FixedWindows(1))
        | beam.Map(lambda element: (element % 2, 1))
        | beam.CombinePerKey(sum))


def busy(pipeline):
    """A batch pipeline that computes for a while, with a shuffle in the middle."""
    (  # pylint: disable=expression-not-assigned
        pipeline
        | beam.Create(range(50))
        | beam.FlatMap(lambda i: ((i, j % 100) for j in range(20_000)))
        | beam.GroupByKey()
        | beam.FlatMap(lambda group: group[1])
        | beam.CombineGlobally(sum))


def wait_until(condition, seconds):
    """Waits until the condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds} s in vain")
        time.sleep(0.05)


def wait_for_file(path, seconds, missing_ok=False):
    """Waits until a file exists and returns its text."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(FileNotFoundError):
            text = pathlib.Path(path).read_text()
            if text or missing_ok:
                return text
        time.sleep(0.05)
    if missing_ok:
        return ""
    raise AssertionError(f"{path} did not appear in {seconds} s")
