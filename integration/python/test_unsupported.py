"""Each feature that is refused is refused at submission, with a message that names it.

The rows stand in unsupported.toml; a row leaves when its feature works, and this suite fails until
it has left.
"""

import apache_beam as beam
import grpc
import pytest
from apache_beam.coders import BytesCoder
from apache_beam.coders.coders import IntervalWindowCoder
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.transforms import trigger, userstate, window
from apache_beam.transforms.core import RestrictionProvider

import expected
import pipelines


def keyed(pipeline):
    """A small keyed collection."""
    return pipeline | beam.Create([("a", 1), ("b", 2)])


class WithState(beam.DoFn):
    """Uses a bag."""

    BAG = userstate.BagStateSpec("bag", BytesCoder())

    def process(self, element, bag=beam.DoFn.StateParam(BAG)):
        """Remembers that it was called."""
        bag.add(b"x")
        yield element


class WithEventTimer(beam.DoFn):
    """Sets a timer in event time."""

    TIMER = userstate.TimerSpec("timer", userstate.TimeDomain.WATERMARK)

    def process(self, element, timer=beam.DoFn.TimerParam(TIMER)):
        """Sets the timer."""
        timer.set(10)
        yield element

    @userstate.on_timer(TIMER)
    def fired(self):
        """Says that it fired."""
        yield ("timer", 0)


class WithProcessingTimer(beam.DoFn):
    """Sets a timer in processing time."""

    TIMER = userstate.TimerSpec("timer", userstate.TimeDomain.REAL_TIME)

    def process(self, element, timer=beam.DoFn.TimerParam(TIMER)):
        """Sets the timer."""
        timer.set(10)
        yield element

    @userstate.on_timer(TIMER)
    def fired(self):
        """Says that it fired."""
        yield ("timer", 0)


class OneRestriction(RestrictionProvider):
    """A single position for each element."""

    def create_tracker(self, restriction):
        """The usual tracker of offsets."""
        return OffsetRestrictionTracker(restriction)

    def initial_restriction(self, element):
        """All there is."""
        return OffsetRange(0, 1)

    def restriction_size(self, element, restriction):
        """How many positions."""
        return restriction.size()


class WithStateAndRestriction(beam.DoFn):
    """Uses a bag and is splittable."""

    BAG = userstate.BagStateSpec("bag", BytesCoder())

    def process(self, element, bag=beam.DoFn.StateParam(BAG),
                tracker=beam.DoFn.RestrictionParam(OneRestriction())):
        """Remembers that it was called."""
        if tracker.try_claim(0):
            bag.add(b"x")
            yield element


class EvenOddWindows(window.NonMergingWindowFn):
    """Windows of a kind of our own."""

    def assign(self, context):
        """Two windows side by side."""
        start = int(context.timestamp) // 2 * 2
        return [window.IntervalWindow(start, start + 2)]

    def get_window_coder(self):
        """The coder of the windows."""
        return IntervalWindowCoder()


def windowed(window_fn, **strategy):
    """A pipeline that groups in the given windows."""
    def build(pipeline):
        return keyed(pipeline) | beam.WindowInto(window_fn, **strategy) | beam.GroupByKey()
    return build


def triggered(when):
    """A pipeline that groups under the given trigger."""
    return windowed(window.GlobalWindows(), trigger=when,
                    accumulation_mode=trigger.AccumulationMode.DISCARDING)


def leaf(urn, payload=b""):
    """A pipeline with a transform that only the runner could execute."""
    class Leaf(beam.PTransform):
        """The transform itself."""

        def expand(self, pcoll):
            """One output of the input's kind."""
            return beam.pvalue.PCollection.from_(pcoll)

        def to_runner_api_parameter(self, _context):
            """URN and payload as given."""
            return urn, payload
    return lambda pipeline: keyed(pipeline) | "OnlyTheRunner" >> Leaf()


BUILDERS = {
    "bag_state": lambda pipeline: keyed(pipeline) | "Own" >> beam.ParDo(WithState()),
    "event_time_timer": lambda pipeline: keyed(pipeline) | "Own" >> beam.ParDo(WithEventTimer()),
    "processing_time_timer":
        lambda pipeline: keyed(pipeline) | "Own" >> beam.ParDo(WithProcessingTimer()),
    "stateful_splittable":
        lambda pipeline: keyed(pipeline) | "Own" >> beam.ParDo(WithStateAndRestriction()),
    "custom_windows": windowed(EvenOddWindows()),
    "trigger_after_count": triggered(trigger.AfterCount(2)),
    "trigger_repeatedly": triggered(trigger.Repeatedly(trigger.AfterCount(2))),
    "trigger_after_processing_time": triggered(trigger.AfterProcessingTime(5)),
    "trigger_early": windowed(
        window.FixedWindows(10), trigger=trigger.AfterWatermark(early=trigger.AfterCount(1)),
        accumulation_mode=trigger.AccumulationMode.ACCUMULATING),
    "read": leaf(common_urns.deprecated_primitives.READ.urn,
                 beam_runner_api_pb2.ReadPayload().SerializeToString()),
    "executable_stage": leaf("beam:runner:executable_stage:v1"),
    "unknown_leaf": leaf("beam:transform:of_another_world:v1"),
}


@pytest.mark.parametrize("row", expected.features(), ids=lambda row: row["feature"])
def test_refused(flags, job_service, row):
    """Submits the pipeline of the row and looks for its message."""
    before = job_service.job_ids()
    more = ["--allow_unsafe_triggers", *(["--streaming"] if row.get("streaming") else [])]
    with pytest.raises((grpc.RpcError, RuntimeError)) as caught:
        pipelines.submit(flags, BUILDERS[row["pipeline"]], *more).wait_until_finish()
    text = caught.value.details() if isinstance(caught.value, grpc.RpcError) else str(caught.value)
    for part in (row["urn"], row["message"]):
        assert part in text
    assert job_service.job_ids() == before, "a refused pipeline must not become a job"


def test_every_row_is_whole():
    """Rows name a pipeline that exists and carry their fields; failures carry a reason."""
    for row in expected.features():
        assert row["pipeline"] in BUILDERS, row
        assert row["urn"] and row["message"], row
    for row in expected.table().get("failure", []):
        assert row["reason"] and row["suites"] and row["tests"], row
