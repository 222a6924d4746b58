"""Drain, by the Job API's call: sources stop, restrictions are truncated, windows close, the job is DONE."""

import os
import subprocess

import apache_beam as beam
import pytest
from apache_beam.io.restriction_trackers import OffsetRange
from apache_beam.runners.sdf_utils import RestrictionTrackerView
from apache_beam.transforms import trigger, userstate, window
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.utils.timestamp import Duration

import jobs
import pipelines
from restrictions import Bounded, Unbounded

State = jobs.State
DRAIN_SECONDS_MAX = 30
PAUSE = Duration(seconds=0.02)


class ToTheNextTen(Unbounded):
    """A drain counts on to the next multiple of ten."""

    def truncate(self, element, restriction):
        """Cuts the range after its start, so that it ends at a ten."""
        return OffsetRange(restriction.start, -(-restriction.start // 10) * 10)


def counting(provider, file):
    """A splittable DoFn that writes each number that it claims to a file."""
    class Count(beam.DoFn):
        """One number a bundle."""

        def process(self, element,
                    tracker=beam.DoFn.RestrictionParam(provider)):
            """Claims one number and defers the rest."""
            assert isinstance(tracker, RestrictionTrackerView)
            number = tracker.current_restriction().start
            if tracker.try_claim(number):
                _append(file, number)
                yield number
                tracker.defer_remainder(PAUSE)

    if provider.__class__ is not Bounded:
        Count.process = beam.DoFn.unbounded_per_element()(Count.process)
    return Count()


def _append(file, line):
    with open(file, "a", encoding="utf-8") as lines:
        lines.write(f"{line}\n")


def _numbers(file):
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def _drain_at(job_service, result, seen, least):
    """Drains the job once `least` lines are there; returns its last state."""
    pipelines.wait_until(lambda: len(_numbers(seen)) >= least, 60)
    assert job_service.drain(result._job_id) in (State.DRAINING, State.DONE)
    state, _ = job_service.wait_for(result._job_id, {State.DONE}, DRAIN_SECONDS_MAX)
    return state


@pytest.mark.parametrize("provider, rest", (
    (ToTheNextTen(), "a ten"), (Unbounded(), "nothing"), (Bounded(), "everything")))
def test_restrictions_are_truncated_as_their_dofn_says(
        flags, job_service, tmp_path, provider, rest):
    """What is left of a restriction is what truncate says; the open window closes over all of it."""
    seen, total = tmp_path / "seen", tmp_path / "total"
    end = 40 if rest == "everything" else 10**9

    def build(pipeline):
        (pipeline | beam.Create([end]) | beam.ParDo(counting(provider, str(seen)))
         | beam.WindowInto(window.GlobalWindows(), trigger=trigger.AfterWatermark(),
                           accumulation_mode=trigger.AccumulationMode.DISCARDING)
         | beam.combiners.Count.Globally().without_defaults()
         | beam.Map(lambda count: _append(str(total), count)))

    result = pipelines.submit(flags, build)
    assert _drain_at(job_service, result, seen, 13) == State.DONE
    numbers = _numbers(seen)
    assert numbers == list(range(len(numbers)))
    if rest == "a ten":
        assert len(numbers) % 10 == 0
    elif rest == "everything":
        assert len(numbers) == end
    assert _numbers(total) == [len(numbers)]
    assert result.wait_until_finish() == "DONE"


class AtTheEnd(beam.DoFn):
    """Writes, at the end of the window, how many elements there were."""

    COUNT = userstate.CombiningValueStateSpec("count", sum)
    END = userstate.TimerSpec("end", userstate.TimeDomain.WATERMARK)

    def __init__(self, file):
        self._file = file

    def process(self, element, the_window=beam.DoFn.WindowParam,
                count=beam.DoFn.StateParam(COUNT), end=beam.DoFn.TimerParam(END)):
        """Counts."""
        count.add(1)
        end.set(the_window.max_timestamp())

    @userstate.on_timer(END)
    def at_the_end(self, count=beam.DoFn.StateParam(COUNT)):
        """The window is over, because nothing more comes."""
        _append(self._file, count.read())


def test_open_windows_close_and_timers_fire(flags, job_service, tmp_path):
    """A window of years is open when the drain comes."""
    seen, fired = tmp_path / "seen", tmp_path / "fired"

    def note(_):
        _append(str(seen), 1)
        return ("key", 1)

    def build(pipeline):
        (pipeline | PeriodicImpulse(fire_interval=0.05, apply_windowing=False)
         | beam.WindowInto(window.FixedWindows(10**9)) | beam.Map(note)
         | beam.ParDo(AtTheEnd(str(fired))))

    result = pipelines.submit(flags, build)
    assert _drain_at(job_service, result, seen, 5) == State.DONE
    assert sum(_numbers(fired)) == len(_numbers(seen))


def test_drain_by_the_command(flags, job_service, tmp_path, endpoint):
    """`tidemill jobs` lists, drains and describes a job of a running server."""
    tidemill = os.environ.get("TIDEMILL_BIN")
    if tidemill is None:
        pytest.skip("the binary under test is not known")
    seen = tmp_path / "seen"

    def build(pipeline):
        pipeline | beam.Create([10**9]) | beam.ParDo(counting(ToTheNextTen(), str(seen)))

    result = pipelines.submit(flags, build)
    pipelines.wait_until(lambda: len(_numbers(seen)) >= 3, 60)

    def jobs_command(*words):
        done = subprocess.run([tidemill, "jobs", *words, "--endpoint", endpoint], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return done.returncode, done.stdout

    status, listed = jobs_command("list")
    assert status == 0 and any(
        result._job_id in line and "RUNNING" in line for line in listed.splitlines())
    status, drained = jobs_command("drain", result._job_id)
    assert status == 0 and ("DRAINING" in drained or "DONE" in drained)
    job_service.wait_for(result._job_id, {State.DONE}, DRAIN_SECONDS_MAX)
    status, described = jobs_command("describe", result._job_id)
    assert status == 0 and "drained by a client" in described and "DONE" in described
    status, refused = jobs_command("drain", "no-such-job")
    assert status != 0 and "no-such-job" in refused


def test_drain_of_an_ended_job(flags, job_service):
    """It keeps its state."""
    result = pipelines.submit(flags, pipelines.busy)
    result.wait_until_finish()
    assert job_service.drain(result._job_id) == State.DONE
