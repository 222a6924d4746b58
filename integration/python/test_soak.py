"""A streaming job runs for minutes and takes no more memory at its end than at its beginning."""

import os
import time

import apache_beam as beam
import pytest
from apache_beam.transforms import userstate, window
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.utils.timestamp import Duration

import jobs
import pipelines
import processes
from restrictions import Unbounded

MINUTES = float(os.environ.get("TIDEMILL_SOAK_MINUTES", "10"))
# By then all that is made once has been made.
WARM_UP_OF_ALL = 0.2
GROWTH_MAX = 1.15
MEBIBYTE = 1 << 20
DRAIN_SECONDS_MAX = 60


class DeferItself(beam.DoFn):
    """A number, and the rest a moment later."""

    @beam.DoFn.unbounded_per_element()
    def process(self, element, tracker=beam.DoFn.RestrictionParam(Unbounded())):
        """Claims one number."""
        number = tracker.current_restriction().start
        if tracker.try_claim(number):
            yield (f"{element}-{number}", number)
            tracker.defer_remainder(Duration(seconds=0.05))


class Forget(beam.DoFn):
    """Remembers each key until a timer clears it."""

    SEEN = userstate.BagStateSpec("seen", beam.coders.VarIntCoder())
    SOON = userstate.TimerSpec("soon", userstate.TimeDomain.REAL_TIME)

    def process(self, element, seen=beam.DoFn.StateParam(SEEN), soon=beam.DoFn.TimerParam(SOON)):
        """Sets the timer."""
        seen.add(element[1])
        soon.set(time.time() + 1)

    @userstate.on_timer(SOON)
    def forget(self, seen=beam.DoFn.StateParam(SEEN)):
        """Clears and counts."""
        yield sum(1 for _ in seen.read())
        seen.clear()


def _note(count, file):
    with open(file, "a", encoding="utf-8") as lines:
        lines.write(f"{count}\n")


@pytest.mark.timeout(MINUTES * 60 + 200)
def test_memory_is_flat(flags, job_service, request, tmp_path):
    """Impulses in windows, restrictions that defer themselves, keys that come and go."""
    pid = request.config.getoption("--server-pid")
    if pid is None:
        pytest.skip("the server is not ours")
    windows, forgotten = tmp_path / "windows", tmp_path / "forgotten"

    def build(pipeline):
        (pipeline | PeriodicImpulse(fire_interval=0.05, apply_windowing=False)
         | beam.WindowInto(window.FixedWindows(1)) | beam.Map(lambda _: ("key", 1))
         | beam.CombinePerKey(sum) | "Windows" >> beam.Map(lambda kv: _note(kv[1], windows)))
        (pipeline | beam.Create(range(10**9, 10**9 + 20)) | beam.Reshuffle() | beam.ParDo(DeferItself())
         | beam.ParDo(Forget()) | "Forgotten" >> beam.Map(_note, forgotten))

    result = pipelines.submit(flags, build)
    started, readings = time.monotonic(), []
    while (passed := time.monotonic() - started) < MINUTES * 60:
        time.sleep(min(10, MINUTES * 6))
        readings.append((passed, processes.resident_bytes(pid)))
        assert job_service.state(result._job_id) == jobs.State.RUNNING
    print("MiB:", [round(size / MEBIBYTE, 1) for _, size in readings])
    job_service.drain(result._job_id)
    job_service.wait_for(result._job_id, {jobs.State.DONE}, DRAIN_SECONDS_MAX)

    warm = [size for passed, size in readings if passed > MINUTES * 60 * WARM_UP_OF_ALL]
    early, late = max(warm[:3]), max(warm[-3:])
    assert late <= early * GROWTH_MAX, f"from {early} to {late} bytes"
    counts = [int(line) for line in windows.read_text().split()]
    assert len(counts) >= MINUTES * 60 * 0.8, "a window each second"
    cleared = forgotten.read_text().split()
    assert len(cleared) > MINUTES * 60 * 20 and set(cleared) == {"1"}
