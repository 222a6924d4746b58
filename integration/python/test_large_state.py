"""State and groups far larger than what either side may hold of them at a time."""

import json
import os
import pathlib
import time

import apache_beam as beam
import pytest
from apache_beam.coders import BytesCoder
from apache_beam.transforms import userstate

import pipelines
import processes

MEBIBYTE = 1 << 20
# The full measure is 1024.
MEBIBYTES = int(os.environ.get("TIDEMILL_LARGE_MIB", "128"))
VALUE_BYTES = 64 << 10
VALUES = MEBIBYTES * MEBIBYTE // VALUE_BYTES
VALUES_PER_BUNDLE = min(512, VALUES // 4)
# What reading may add to the server: some pages on their way.
GROWTH_MAX = 48 * MEBIBYTE


def value_of(number):
    """A value that tells its number."""
    return number.to_bytes(8, "big") * (VALUE_BYTES // 8)


class FillThenRead(beam.DoFn):
    """Puts values into a bag, some in each bundle, and reads them all in a last one."""

    BAG = userstate.BagStateSpec("bag", BytesCoder())
    NUMBER = userstate.CombiningValueStateSpec("number", sum)
    AGAIN = userstate.TimerSpec("again", userstate.TimeDomain.WATERMARK)

    def __init__(self, server, report):
        self._server = server
        self._report = str(report)

    def process(self, element, again=beam.DoFn.TimerParam(AGAIN)):
        """A timer fires in a bundle of its own."""
        again.set(1)

    @userstate.on_timer(AGAIN)
    def fill(self, bag=beam.DoFn.StateParam(BAG), number=beam.DoFn.StateParam(NUMBER),
             again=beam.DoFn.TimerParam(AGAIN)):
        """Adds some, or reads."""
        start = number.read()
        if start >= VALUES:
            pathlib.Path(self._report).write_text(json.dumps(self.read(bag)))
            return
        end = min(start + VALUES_PER_BUNDLE, VALUES)
        for n in range(start, end):
            bag.add(value_of(n))
        number.add(end - start)
        again.set(end + 1)

    def read(self, bag):
        """Reads in order; what the server held and how much time had passed after each quarter."""
        resident, seconds = [processes.resident_bytes(self._server)], [time.monotonic()]
        count = 0
        for value in bag.read():
            assert value == value_of(count)
            count += 1
            if count % (VALUES // 8) == 0:
                resident.append(processes.resident_bytes(self._server))
                seconds.append(time.monotonic())
        return {"count": count, "resident": resident, "seconds": seconds}


@pytest.fixture(name="server")
def _server(request):
    pid = request.config.getoption("--server-pid")
    if pid is None:
        pytest.skip("the server is not ours")
    return pid


@pytest.mark.timeout(60 + MEBIBYTES)
def test_a_large_bag_is_read_at_flat_memory(flags, server, tmp_path):
    """Each page costs the same, and nothing of it stays."""
    report = tmp_path / "report"

    def build(pipeline):
        # pylint: disable=expression-not-assigned
        pipeline | beam.Create([("key", 0)]) | beam.ParDo(FillThenRead(server, report))

    assert pipelines.submit(flags, build).wait_until_finish() == "DONE"
    told = json.loads(report.read_text())
    assert told["count"] == VALUES
    resident, seconds = told["resident"], told["seconds"]
    steps = [late - early for early, late in zip(seconds, seconds[1:])]
    print("MiB:", [size // MEBIBYTE for size in resident])
    print("seconds for each eighth:", [round(step, 2) for step in steps])
    assert max(resident) - resident[0] <= GROWTH_MAX
    assert sum(steps[4:]) <= 2 * sum(steps[:4]) + 1
