"""Queries of Nexmark on Pub/Sub: all run at the same time, on the same events, until they have answered."""

import collections
import importlib
import json
import time

import apache_beam as beam
import pytest
from apache_beam.io.gcp.pubsub import ReadFromPubSub, WriteToPubSub
from apache_beam.testing.benchmarks.nexmark import nexmark_util
from google.pubsub_v1 import types

import nexmark_model as model
import servers
from world import World

COUNT = 1_000
STEP_MS = 10
PORTION = 20
# From the last event until every window has ended, with what a busy machine adds.
CLOSING_SECONDS = 90

# For each query: how a result is looked at, and what all of them must be.
QUERIES = {
    4: (lambda row: [row["category"], round(row["price"], 6)], model.category_prices),
    5: (lambda row: [row["auction_id"], row["num"]], model.hot_items),
    9: (lambda won: [won.auction.id, won.bid.bidder, won.bid.price],
        lambda events: [(auction["id"], bid["bidder"], bid["price"])
                        for auction, bid in model.winners(events)]),
    11: (lambda row: [row["bidder_id"], row["bid_count"]], model.sessions),
}


@pytest.fixture(name="world")
def _world(tmp_path):
    world = World(tmp_path, servers.Emulator(tmp_path, "--duplicates=0.1"))
    yield world
    world.stop()


def start(world, topic, number):
    """Runs a query; returns its job and its results."""
    query = importlib.import_module(f"apache_beam.testing.benchmarks.nexmark.queries.query{number}")
    subscription = world.subscription(topic, f"events-{number}")
    results = world.results(f"results-{number}")
    view, _ = QUERIES[number]

    def build(pipeline):
        # pylint: disable=expression-not-assigned
        events = (
            pipeline
            | "Events" >> ReadFromPubSub(
                subscription=subscription, with_attributes=True, timestamp_attribute="timestamp")
            | "Data" >> beam.Map(lambda message: message.data)
            | "Parse" >> beam.ParDo(nexmark_util.ParseJsonEventFn()))
        (query.load(events, model.ARGUMENTS, None)
         | "Encode" >> beam.Map(lambda result: json.dumps(view(result)).encode())
         | "Results" >> WriteToPubSub(results.topic))

    return world.run(build, "--allow_unsafe_triggers"), results


def publish(world, topic, events):
    """Publishes each event at its time."""
    for first in range(0, len(events), PORTION):
        portion = events[first:first + PORTION]
        wait = portion[-1]["dateTime"] / 1000 - time.time()
        # Events are due by the clock, which nothing tells of.
        time.sleep(max(0, wait))
        world.publish(topic, *(types.PubsubMessage(
            data=json.dumps(event).encode(), attributes={"timestamp": str(event["dateTime"])})
            for event in portion))


@pytest.mark.timeout(300)
def test_queries(world):
    """Every result comes, and none comes twice."""
    nexmark_util.setup_coder()
    topic = world.topic("events")
    started = {number: start(world, topic, number) for number in QUERIES}
    events = model.events(COUNT, seed=1, start=int(time.time() * 1000) + 1_000, step=STEP_MS)
    publish(world, topic, events)
    deadline = time.monotonic() + CLOSING_SECONDS
    for number, (job, results) in started.items():
        _, expected_of = QUERIES[number]
        expected = collections.Counter(map(tuple, expected_of(events)))
        results.wait_for_count(expected.total(), max(1, deadline - time.monotonic()))
        found = collections.Counter(tuple(json.loads(one.data)) for one in results.messages)
        assert found == expected, (
            f"query {number}: missing {expected - found}, too many {found - expected}")
        job.cancel()
