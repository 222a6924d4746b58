"""User state from bundle to bundle, as the harness remembers it and as the runner keeps it."""

import pathlib

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.runners.worker import sdk_worker
from apache_beam.transforms import userstate
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.utils.timestamp import Timestamp

import pipelines

ELEMENTS = 30
FAILS_AT = 10


class CountUp(beam.DoFn):
    """Tells how many elements a key had before this one; fails once if given a marker."""

    SEEN = userstate.BagStateSpec("seen", VarIntCoder())

    def __init__(self, marker=None):
        self._marker = marker

    def process(self, element, seen=beam.DoFn.StateParam(SEEN)):
        """Adds to the bag first, so that a failure would leave something behind."""
        before = sum(1 for _ in seen.read())
        seen.add(before)
        if before == FAILS_AT and self._marker and not pathlib.Path(self._marker).exists():
            pathlib.Path(self._marker).touch()
            raise ValueError("a failure that is to leave nothing")
        yield before


def _counts(flags, tmp_path, count_up):
    """What CountUp tells of one key, each element in a bundle of its own more or less."""
    file = tmp_path / "counts"

    def write(before):
        with open(file, "a", encoding="utf-8") as lines:
            lines.write(f"{before}\n")

    def build(pipeline):
        # Once the job runs: what is overdue by then would come in one bundle.
        start = Timestamp.now() + 5
        impulses = PeriodicImpulse(start, start + 0.2 * (ELEMENTS - 0.5), 0.2)
        (pipeline | impulses | beam.Map(lambda _: ("key", 1)) | beam.ParDo(count_up)
         | beam.Reshuffle() | beam.Map(write))

    caching = [*flags, "--max_cache_memory_usage_mb=100"]
    assert pipelines.submit(caching, build).wait_until_finish() == "DONE"
    return sorted(int(line) for line in file.read_text().split())


@pytest.fixture(name="reads")
def _reads(monkeypatch):
    """The state that the harness, which is in this process, asks the runner for."""
    asked = []
    get_raw = sdk_worker.GrpcStateHandler.get_raw

    def counted(self, state_key, *arguments, **named):
        asked.append(state_key.WhichOneof("type"))
        return get_raw(self, state_key, *arguments, **named)

    monkeypatch.setattr(sdk_worker.GrpcStateHandler, "get_raw", counted)
    return asked


def test_a_harness_remembers_what_it_read(flags, tmp_path, reads):
    """A key that comes again and again is read once."""
    assert _counts(flags, tmp_path, CountUp()) == list(range(ELEMENTS))
    assert reads.count("bag_user_state") == 1


def test_several_harnesses_do_not_trust_what_they_remember(flags, tmp_path, reads):
    """Another one may have had the key meanwhile."""
    two = [*flags, "--sdk_worker_parallelism=2"]
    assert _counts(two, tmp_path, CountUp()) == list(range(ELEMENTS))
    assert reads.count("bag_user_state") > 1


def test_what_a_failed_bundle_wrote_is_not_remembered(flags, tmp_path):
    """Neither by the runner nor by the harness."""
    count_up = CountUp(str(tmp_path / "marker"))
    assert _counts(flags, tmp_path, count_up) == list(range(ELEMENTS))
    assert (tmp_path / "marker").exists()


def test_a_harness_remembers_a_side_input_that_is_complete(flags, tmp_path, reads):
    """It is read once for all bundles; with one of several harnesses, once by each."""
    for workers in (1, 2):
        reads.clear()
        file = tmp_path / f"sums{workers}"

        def write(element, side, file=file):
            with open(file, "a", encoding="utf-8") as lines:
                lines.write(f"{sum(side)}\n")

        def build(pipeline, write=write):
            # pylint: disable=expression-not-assigned
            side = pipeline | "Side" >> beam.Create([1, 2, 3])
            start = Timestamp.now() + 5
            impulses = PeriodicImpulse(start, start + 0.2 * (ELEMENTS - 0.5), 0.2)
            pipeline | impulses | beam.Map(write, beam.pvalue.AsList(side))

        more = ["--max_cache_memory_usage_mb=100", f"--sdk_worker_parallelism={workers}"]
        assert pipelines.submit([*flags, *more], build).wait_until_finish() == "DONE"
        assert file.read_text().split() == ["6"] * ELEMENTS
        assert 1 <= reads.count("iterable_side_input") <= workers
