"""State and groups far larger than what either side may hold of them at a time."""

import json
import os
import pathlib
import subprocess
import time

import apache_beam as beam
import pytest
from apache_beam.coders import BytesCoder
from apache_beam.transforms import trigger, userstate, window

import pipelines
import processes
from driver import cache, programs

MEBIBYTE = 1 << 20
# The full measure is 1024.
MEBIBYTES = int(os.environ.get("TIDEMILL_LARGE_MIB", "128"))
VALUE_BYTES = 64 << 10
VALUES = MEBIBYTES * MEBIBYTE // VALUE_BYTES
VALUES_PER_BUNDLE = min(512, VALUES // 4)
# What reading may add to the server: some pages on their way.
GROWTH_MAX = 48 * MEBIBYTE
JAVA_HEAP_MIB = 64


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


class ReadTwice(beam.DoFn):
    """Reads the values of a group twice; tells how many, and what memory that took on both sides."""

    def __init__(self, server, report, fails_once=None):
        self._server = server
        self._report = str(report)
        self._fails_once = fails_once

    def process(self, element):
        """The order is kept from the values' one bundle, so that each reading is checked against it."""
        key, values = element
        counts, server, harness = [], [], []
        for _ in range(2):
            count = 0
            for value in values:
                assert value == value_of(count)
                if count % 256 == 0:
                    server.append(processes.resident_bytes(self._server))
                    harness.append(processes.resident_bytes(os.getpid()))
                count += 1
                if self._fails_once and count > VALUES // 2 and not self._fails_once.exists():
                    self._fails_once.touch()
                    raise ValueError("a failure in the middle of a group")
            counts.append(count)
        told = {"key": key, "counts": counts, "server": server, "harness": harness}
        pathlib.Path(self._report).write_text(json.dumps(told))


@pytest.mark.timeout(120 + MEBIBYTES)
@pytest.mark.parametrize("accumulating", (False, True))
def test_a_large_group_is_read_at_flat_memory(flags, server, tmp_path, accumulating):
    """Its values come page by page, again when it is read again, and again after a failure."""
    report, marker = tmp_path / "report", tmp_path / "marker"

    def build(pipeline):
        values = (pipeline | beam.Create([VALUES])
                  | beam.FlatMap(lambda count: (("key", value_of(n)) for n in range(count))))
        if accumulating:
            values |= beam.WindowInto(
                window.GlobalWindows(), trigger=trigger.AfterWatermark(early=trigger.AfterCount(VALUES)),
                accumulation_mode=trigger.AccumulationMode.ACCUMULATING)
        # pylint: disable=expression-not-assigned
        values | beam.GroupByKey() | beam.ParDo(ReadTwice(server, report, marker))

    assert pipelines.submit(flags, build).wait_until_finish() == "DONE"
    assert marker.exists()
    told = json.loads(report.read_text())
    assert (told["key"], told["counts"]) == ("key", [VALUES, VALUES])
    for side in ("server", "harness"):
        print(side, "MiB:", [size // MEBIBYTE for size in told[side]])
        assert max(told[side]) - told[side][0] <= GROWTH_MAX


def _told_by(command):
    """What a client program with its harness prints at its end."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          check=False, timeout=60 + MEBIBYTES)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.timeout(120 + MEBIBYTES)
@pytest.mark.parametrize("readers", (1, 2))
def test_a_large_group_in_go(endpoint, readers):
    """One step reads the group from its stream, two read it each from its beginning."""
    try:
        program = programs.go_program("largegroup")
    except cache.MissingTool as error:
        pytest.skip(str(error))
    told = _told_by([program, f"--megabytes={MEBIBYTES}", f"--readers={readers}",
                     "--runner=universal", f"--endpoint={endpoint}", "--environment_type=LOOPBACK"])
    assert told["counts"] == [VALUES] * readers
    print("heap MiB:", told["heap_max"] // MEBIBYTE)
    assert told["heap_max"] <= GROWTH_MAX


@pytest.mark.timeout(120 + MEBIBYTES)
def test_a_large_group_in_java(endpoint, tmp_path):
    """The harness could not hold half of it."""
    try:
        class_path = programs.java_class_path()
    except cache.MissingTool as error:
        pytest.skip(str(error))
    nothing = tmp_path / "nothing.txt"
    nothing.touch()
    told = _told_by(["java", f"-Xmx{JAVA_HEAP_MIB}m", "-cp", class_path, "dev.tidemill.LargeGroup",
                     f"--megabytes={MEBIBYTES}", "--runner=PortableRunner",
                     f"--jobEndpoint={endpoint}", "--defaultEnvironmentType=LOOPBACK",
                     f"--filesToStage={nothing}"])
    assert told["counts"] == [VALUES, VALUES]
