"""Pipelines with many steps or none, and elements far above gRPC's default message size."""

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to

import pipelines

MEGABYTE = 1 << 20


def add_one(value):
    """The work of each step."""
    return value + 1


@pytest.mark.timeout(300)
@pytest.mark.parametrize("variant", ("default", "none"))
@pytest.mark.parametrize("chains,length", ((40, 50), (1, 2_000)))
def test_two_thousand_steps(flags, variant, chains, length):
    """Chains of steps, joined at the end. Python's own harness recurses through a fused one."""
    more = [] if variant == "default" else ["--experiments=pre_optimize=none"]
    with beam.Pipeline(options=pipelines.options(flags, *more)) as pipeline:
        start = pipeline | beam.Create([0])
        ends = []
        for chain in range(chains):
            values = start
            for step in range(length):
                values = values | f"Add {chain}-{step}" >> beam.Map(add_one)
                # The client looks for the windowing from the end of a chain, unless it knows it already.
                assert values.windowing
            ends.append(values)
        assert_that(ends | beam.Flatten(), equal_to([length] * chains))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("variant", ("default", "none"))
def test_no_steps(flags, variant):
    """Nothing to do is done at once; so is a flatten of nothing that nobody reads."""
    more = [] if variant == "default" else ["--experiments=pre_optimize=none"]
    with beam.Pipeline(options=pipelines.options(flags, *more)):
        pass
    with beam.Pipeline(options=pipelines.options(flags, *more)) as pipeline:
        _ = () | beam.Flatten(pipeline=pipeline)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("megabytes", (5, 70, 300))
def test_large_element(flags, megabytes):
    """One element crosses from harness to runner and back, as main input."""
    with beam.Pipeline(options=pipelines.options(flags)) as pipeline:
        sizes = (
            pipeline
            | beam.Create([megabytes])
            | "Make" >> beam.Map(lambda size: b"x" * (size * MEGABYTE))
            | beam.Reshuffle()
            | "Measure" >> beam.Map(len))
        assert_that(sizes, equal_to([megabytes * MEGABYTE]))


@pytest.mark.timeout(300)
def test_large_group_and_large_side_input(flags):
    """A value of 20 MB in a group, and the same as a side input."""
    size = 20 * MEGABYTE
    with beam.Pipeline(options=pipelines.options(flags)) as pipeline:
        large = pipeline | beam.Create(["a", "b", "b"]) | beam.Map(lambda key: (key, key * size))
        groups = large | beam.GroupByKey() | beam.MapTuple(
            lambda key, values: (key, sorted(map(len, values))))
        assert_that(groups, equal_to([("a", [size]), ("b", [size, size])]), label="groups")
        lengths = pipeline | "One" >> beam.Create([None]) | beam.Map(
            lambda _, side: sorted(len(text) for _, text in side), beam.pvalue.AsIter(large))
        assert_that(lengths, equal_to([[size] * 3]), label="side")
