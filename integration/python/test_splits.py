"""Jobs that end only if the runner takes work off a running bundle and gives it to another."""

import pathlib
import time

import apache_beam as beam
import pytest
from apache_beam.transforms import userstate, window

import jobs
import pipelines
from restrictions import Bounded, Unbounded

ELEMENTS = 10
# Far more than a split takes, and less than the suite may.
SENTINEL_SECONDS_MAX = 60


class WaitForOthers(beam.DoFn):
    """The first element waits until all that came with it have been processed elsewhere."""

    def __init__(self, folder):
        self._folder = str(folder)

    def process(self, element):
        """Leaves a file for each element."""
        folder = pathlib.Path(self._folder)
        if element == 0:
            for other in range(1, ELEMENTS):
                pipelines.wait_for_file(folder / str(other), SENTINEL_SECONDS_MAX)
        (folder / str(element)).write_text("done")
        yield element


class WaitForTheEnd(beam.DoFn):
    """The first number of the element waits until its last has been processed elsewhere."""

    def __init__(self, folder):
        self._folder = str(folder)

    def process(self, element, tracker=beam.DoFn.RestrictionParam(Bounded())):
        """Leaves a file for each number."""
        folder = pathlib.Path(self._folder)
        number = tracker.current_restriction().start
        while tracker.try_claim(number):
            if number == 0:
                pipelines.wait_for_file(folder / str(element - 1), SENTINEL_SECONDS_MAX)
            (folder / str(number)).write_text("done")
            yield number
            number += 1


class NeverReturns(beam.DoFn):
    """Counts for as long as it is let, without ever deferring."""

    @beam.DoFn.unbounded_per_element()
    def process(self, element, tracker=beam.DoFn.RestrictionParam(Unbounded())):
        """One number every ten milliseconds, with its own as time in seconds."""
        number = tracker.current_restriction().start
        while tracker.try_claim(number):
            yield window.TimestampedValue(("key", number), number)
            time.sleep(0.01)
            number += 1


class KeepSum(beam.DoFn):
    """Adds up what came for a key and writes it."""

    SUM = userstate.CombiningValueStateSpec("sum", sum)

    def __init__(self, file):
        self._file = str(file)

    def process(self, element, total=beam.DoFn.StateParam(SUM)):
        """One line for each element."""
        total.add(element[1])
        with open(self._file, "a", encoding="utf-8") as lines:
            lines.write(f"{total.read()}\n")


@pytest.fixture(name="two_workers")
def _two_workers(flags):
    return [*flags, "--sdk_worker_parallelism=2"]


def test_elements_behind_a_slow_one_go_elsewhere(two_workers, tmp_path):
    """Ten elements of one bundle."""
    def build(pipeline):
        (pipeline | beam.Create([ELEMENTS]) | beam.FlatMap(lambda count: range(count)) | beam.Reshuffle()
         | beam.ParDo(WaitForOthers(tmp_path)))

    assert pipelines.submit(two_workers, build).wait_until_finish() == "DONE"
    assert len(list(tmp_path.iterdir())) == ELEMENTS


def test_the_rest_of_a_slow_restriction_goes_elsewhere(two_workers, tmp_path):
    """One element of a splittable DoFn."""
    def build(pipeline):
        pipeline | beam.Create([ELEMENTS]) | beam.ParDo(WaitForTheEnd(tmp_path))

    assert pipelines.submit(two_workers, build).wait_until_finish() == "DONE"
    assert len(list(tmp_path.iterdir())) == ELEMENTS


def test_a_bundle_that_never_ends_is_checkpointed(flags, job_service, tmp_path):
    """What it put out is committed and reaches state behind it while it goes on."""
    seen = tmp_path / "seen"

    def build(pipeline):
        (pipeline | beam.Create([10**9]) | beam.ParDo(NeverReturns())
         | beam.ParDo(KeepSum(seen)))

    result = pipelines.submit(flags, build)
    pipelines.wait_until(lambda: seen.exists() and len(seen.read_text().splitlines()) > 200, 60)
    assert job_service.drain(result._job_id) in (jobs.State.DRAINING, jobs.State.DONE)
    job_service.wait_for(result._job_id, {jobs.State.DONE}, SENTINEL_SECONDS_MAX)
    sums = [int(line) for line in seen.read_text().split()]
    numbers = [after - before for before, after in zip([0, *sums], sums)]
    assert sorted(numbers) == list(range(len(numbers)))
