"""The queries of Nexmark, from the Beam package, on a file and on a stream.

The stream is a TestStream that hands the events out in portions and lets the watermark follow, so
that windows close while events still come. What the queries must answer stands in nexmark_model.py.
"""

import collections
import importlib
import json

import apache_beam as beam
import pytest
from apache_beam.coders import StrUtf8Coder
from apache_beam.testing.benchmarks.nexmark import nexmark_util
from apache_beam.testing.test_stream import TestStream
from apache_beam.testing.util import assert_that
from apache_beam.transforms import window

import nexmark_model as model
import pipelines

COUNT = 2_000
PORTION = 100


def exactly(expected):
    """The results are these, in whatever order."""
    expected = collections.Counter(expected)

    def check(results):
        found = collections.Counter(results)
        assert found == expected, f"missing {expected - found}, too many {found - expected}"
    return check


def ending_in(expected):
    """Results come again and again as they change; the last one of each key is among them."""
    expected = set(expected)

    def check(results):
        assert expected <= set(results), f"missing {expected - set(results)}"
        assert {key for key, _ in results} == {key for key, _ in expected}
    return check


def adding_up_to(expected):
    """Results come in parts, which add up."""
    expected = collections.Counter(expected)

    def check(results):
        found = collections.Counter()
        for key, count in results:
            found[key] += count
        assert found == expected, f"missing {expected - found}, too many {found - expected}"
    return check


def described(result):
    """What a result of query 0 or 1 is about."""
    return (type(result).__name__, json.dumps(json.loads(repr(result)), sort_keys=True))


def names(kind, event):
    """An event as the package's classes describe it."""
    renamed = {"emailAddress": "email_address", "creditCard": "credit_card",
               "dateTime": "date_time", "itemName": "item_name", "initialBid": "initial_bid"}
    fields = {renamed.get(name, name): value for name, value in event.items()}
    return kind, json.dumps(fields, sort_keys=True)


def round_trips(events):
    """Query 0: every event as it was."""
    for kind, of in (("Person", model.people), ("Auction", model.auctions), ("Bid", model.bids)):
        yield from (names(kind, event) for event in of(events))


# For each query: how a result is looked at, and the check that belongs to the events.
QUERIES = {
    0: (described, lambda events: exactly(round_trips(events))),
    1: (lambda bid: (bid.auction, round(bid.price, 6)),
        lambda events: exactly((bid["auction"], round(bid["price"] * 0.89, 6))
                               for bid in model.bids(events))),
    2: (lambda row: (row["auction_id"], row["price"]),
        lambda events: exactly((bid["auction"], bid["price"]) for bid in model.bids(events)
                               if bid["auction"] % model.ARGUMENTS["auction_skip"] == 0)),
    3: (lambda row: (row["name"], row["auction_id"]),
        lambda events: exactly(model.local_items(events))),
    4: (lambda row: (row["category"], round(row["price"], 6)),
        lambda events: exactly(model.category_prices(events))),
    5: (lambda row: (row["auction_id"], row["num"]),
        lambda events: exactly(model.hot_items(events))),
    6: (lambda row: (row["seller"], row["price"]),
        lambda events: ending_in(model.seller_prices(events))),
    7: (lambda bid: (bid.auction, bid.price),
        lambda events: exactly(model.highest_bids(events))),
    8: (lambda row: (row["id"], row["reserve"]),
        lambda events: exactly(model.new_sellers(events))),
    9: (lambda won: (won.auction.id, won.bid.bidder, won.bid.price),
        lambda events: exactly((auction["id"], bid["bidder"], bid["price"])
                               for auction, bid in model.winners(events))),
    # It would write files to Google Cloud Storage, and gives nothing on.
    10: (str, lambda events: exactly([])),
    11: (lambda row: (row["bidder_id"], row["bid_count"]),
         lambda events: exactly(model.sessions(events))),
    12: (lambda row: (row["bidder_id"], row["bid_count"]),
         lambda events: adding_up_to(bid["bidder"] for bid in model.bids(events))),
}


def read_file(events, folder):
    """The events from a file, as the package's launcher reads them."""
    file = folder / "events.json"
    file.write_text("".join(json.dumps(event) + "\n" for event in events))
    return beam.io.ReadFromText(str(file))


def read_stream(events, _folder):
    """The events in portions; the watermark stays behind by a portion."""
    stream = TestStream(coder=StrUtf8Coder())
    for start in range(0, len(events), PORTION):
        portion = events[start:start + PORTION]
        stream.add_elements([
            window.TimestampedValue(json.dumps(event), event["dateTime"] / 1000)
            for event in portion])
        stream.advance_watermark_to(portion[0]["dateTime"] / 1000)
    return stream.advance_watermark_to_infinity()


@pytest.mark.parametrize("read", (read_file, read_stream), ids=("batch", "streaming"))
@pytest.mark.parametrize("number", QUERIES)
def test_query(flags, tmp_path, number, read):
    """One query answers what it must."""
    events = model.events(COUNT, seed=number)
    query = importlib.import_module(f"apache_beam.testing.benchmarks.nexmark.queries.query{number}")
    view, check_of = QUERIES[number]
    more = ["--allow_unsafe_triggers", *(["--streaming"] if read is read_stream else [])]
    nexmark_util.setup_coder()
    options = pipelines.options(flags, *more)
    with beam.Pipeline(options=options) as pipeline:
        parsed = (
            pipeline
            | "Read" >> read(events, tmp_path)
            | "Parse" >> beam.ParDo(nexmark_util.ParseJsonEventFn())
            | "Times" >> beam.Map(lambda event: window.TimestampedValue(event, event.date_time)))
        results = query.load(parsed, model.ARGUMENTS, options) | "View" >> beam.Map(view)
        assert_that(results, check_of(events))
