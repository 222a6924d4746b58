"""Writes the pipelines that the planner's tests read: typical ones, in the forms in which Python clients send them.

    python make_pipelines.py ../../src/plan/fixtures

A client sends a pipeline as it is with --streaming or pre_optimize=none ("raw"), with combiners lifted
("lifted", the default), or with everything expanded but fusion ("expanded"). User code in the payloads is
replaced by short hashes, so that the files are small and show nothing of the machine.
"""

import hashlib
import logging
import pathlib
import sys

import apache_beam as beam
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_runner_api_pb2 as proto
from apache_beam.runners.portability.portable_runner import PortableRunner
from apache_beam.transforms import trigger, userstate, window

FORMS = {
    "raw": "none",
    "lifted": "default",
    "expanded": "all_except_fusion",
}
KEPT_PAYLOADS = (
    "beam:transform:pubsub_",
    "beam:window_fn:fixed",
    "beam:window_fn:sliding",
    "beam:window_fn:session",
    "beam:transform:redistribute",
    "beam:coder:length_prefix",
)
PAR_DOS = ("beam:transform:pardo:v1", "beam:transform:sdf_")


class Count(beam.DoFn):
    """Counts up, as a splittable DoFn."""

    class Provider(beam.transforms.core.RestrictionProvider):
        def initial_restriction(self, element):
            return OffsetRange(0, element)

        def create_tracker(self, restriction):
            return OffsetRestrictionTracker(restriction)

        def restriction_size(self, element, restriction):
            return restriction.size()

    def process(self, element, tracker=beam.DoFn.RestrictionParam(Provider())):
        position = tracker.current_restriction().start
        while tracker.try_claim(position):
            yield position
            position += 1


class First(beam.DoFn):
    """Hands on the first element of a key, until a timer forgets that it has seen one."""

    SEEN = userstate.BagStateSpec("seen", beam.coders.VarIntCoder())
    FORGET = userstate.TimerSpec("forget", beam.TimeDomain.WATERMARK)

    def process(
        self,
        element,
        seen=beam.DoFn.StateParam(SEEN),
        forget=beam.DoFn.TimerParam(FORGET),
    ):
        if not list(seen.read()):
            seen.add(1)
            forget.set(60)
            yield element

    @userstate.on_timer(FORGET)
    def on_forget(self, seen=beam.DoFn.StateParam(SEEN)):
        seen.clear()


class ParityCoder(beam.coders.Coder):
    """A window coder that only Python knows."""

    def encode(self, value):
        return repr((value.start.micros, value.end.micros)).encode()

    def is_deterministic(self):
        return True


class Parity(window.NonMergingWindowFn):
    """A custom window fn."""

    def assign(self, context):
        return [window.IntervalWindow(0, 1 + context.timestamp)]

    def get_window_coder(self):
        return ParityCoder()


def words(p):
    lines = p | beam.Create(["to be", "or not"])
    pairs = lines | beam.FlatMap(str.split) | beam.Map(lambda word: (word, 1))
    counts = pairs | beam.CombinePerKey(sum)
    return counts | beam.Map(print)


def sides(p):
    pairs = p | "Pairs" >> beam.Create([("a", 1), ("b", 2)])
    main = p | "Main" >> beam.Create([1, 2]) | beam.WindowInto(window.FixedWindows(60))
    total = pairs | beam.Values() | beam.CombineGlobally(sum)
    return main | "Join" >> beam.Map(
        lambda x, table, one, many: (x, table, one, many),
        beam.pvalue.AsDict(pairs),
        beam.pvalue.AsSingleton(total),
        beam.pvalue.AsList(main | beam.WindowInto(window.GlobalWindows())),
    )


def splittable(p):
    numbers = p | beam.Create([10, 20]) | beam.ParDo(Count())
    return numbers | beam.Reshuffle() | beam.Map(print)


def shuffles(p):
    one = p | "One" >> beam.Create([("a", 1)])
    two = p | "Two" >> beam.Create([("b", None)])
    both = (one, two) | beam.Flatten()
    sessions = both | beam.WindowInto(
        window.Sessions(10),
        trigger=trigger.AfterWatermark(late=trigger.AfterCount(2)),
        accumulation_mode=trigger.AccumulationMode.ACCUMULATING,
        allowed_lateness=30,
    )
    joined = {"left": sessions, "right": sessions} | beam.CoGroupByKey()
    custom = joined | beam.Map(lambda kv: (kv[0], 1)) | beam.WindowInto(Parity())
    return custom | "Again" >> beam.Reshuffle() | "Sum" >> beam.CombinePerKey(sum)


def stateful(p):
    return p | beam.Create([("a", 1)]) | beam.ParDo(First())


def pubsub(p):
    messages = p | beam.io.ReadFromPubSub(
        subscription="projects/example/subscriptions/s",
        id_label="id",
        timestamp_attribute="at",
        with_attributes=True,
    )
    counts = (
        messages
        | beam.Map(lambda message: (message.attributes["user"], 1))
        | beam.WindowInto(window.FixedWindows(60))
        | beam.CombinePerKey(sum)
        | beam.Map(lambda count: repr(count).encode())
    )
    return counts | beam.io.WriteToPubSub("projects/example/topics/t")


PIPELINES = {
    words: ["raw", "lifted", "expanded"],
    sides: ["raw"],
    splittable: ["raw", "expanded"],
    shuffles: ["raw", "expanded"],
    stateful: ["raw"],
    pubsub: ["raw"],
}


def make(build, form, streaming=False):
    options = PipelineOptions(
        [
            "--environment_type=EXTERNAL",
            "--environment_config=localhost:1",
            f"--experiments=pre_optimize={FORMS[form]}",
            "--auto_unique_labels",
        ]
        + (["--streaming"] if streaming else [])
    )
    pipeline = beam.Pipeline(options=options)
    build(pipeline)
    return PortableRunner.get_proto_pipeline(pipeline, options)


def scrub(pipeline):
    components = pipeline.components
    for transform in components.transforms.values():
        transform.annotations.clear()
        if not any(b"pubsub" in data.payload for data in transform.display_data):
            del transform.display_data[:]
        if transform.spec.urn.startswith(PAR_DOS):
            payload = proto.ParDoPayload.FromString(transform.spec.payload)
            shorten(payload.do_fn)
            for side in payload.side_inputs.values():
                shorten(side.view_fn)
                shorten(side.window_mapping_fn)
            transform.spec.payload = payload.SerializeToString(deterministic=True)
        elif transform.spec.urn.startswith("beam:transform:combine_"):
            payload = proto.CombinePayload.FromString(transform.spec.payload)
            shorten(payload.combine_fn)
            transform.spec.payload = payload.SerializeToString(deterministic=True)
        else:
            shorten(transform.spec)
    for strategy in components.windowing_strategies.values():
        shorten(strategy.window_fn)
    for coder in components.coders.values():
        shorten(coder.spec)
    for environment in components.environments.values():
        del environment.dependencies[:]
        del environment.display_data[:]
    return pipeline


def shorten(spec):
    if len(spec.payload) > 8 and not spec.urn.startswith(KEPT_PAYLOADS):
        spec.payload = hashlib.sha256(spec.payload).digest()[:4]


def main(folder):
    logging.disable(logging.WARNING)
    for build, forms in PIPELINES.items():
        for form in forms:
            pipeline = scrub(make(build, form, streaming=build is pubsub))
            file = pathlib.Path(folder, f"{build.__name__}-{form}.pb")
            file.write_bytes(pipeline.SerializeToString(deterministic=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
