"""The pipeline of the demo: units sold per shop in windows of ten seconds."""

import argparse
import json

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import FixedWindows


def parse(data):
    """A (shop, units) pair from an order."""
    order = json.loads(data)
    return order["shop"], order["units"]


def result(total, window=beam.DoFn.WindowParam):
    """A message about one shop in one window."""
    shop, units = total
    end = int(window.end.micros // 1000)
    return json.dumps({"window_end": end, "shop": shop, "units": units}).encode()


def main():
    """Submits the pipeline and returns; it runs until it is cancelled."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--subscription", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--window_seconds", type=int, required=True)
    ours, beams = parser.parse_known_args()
    pipeline = beam.Pipeline(options=PipelineOptions(beams, streaming=True))
    orders = pipeline | "Orders" >> beam.io.ReadFromPubSub(
        subscription=ours.subscription, id_label="order_id", timestamp_attribute="ordered_at")
    totals = (
        orders
        | "Parse" >> beam.Map(parse)
        | "Window" >> beam.WindowInto(FixedWindows(ours.window_seconds))
        | "Sum" >> beam.CombinePerKey(sum))
    totals | "Format" >> beam.Map(result) | "Results" >> beam.io.WriteToPubSub(ours.topic)
    pipeline.run().wait_until_finish()


if __name__ == "__main__":
    main()
