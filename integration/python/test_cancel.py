"""Cancel, at any moment of a job: CANCELLED within five seconds, and nothing left behind."""

import time

import grpc
import pytest

import conftest
import jobs
import pipelines
import processes

State = jobs.State
CANCEL_SECONDS_MAX = 5


def cancel_and_check(job_service, job_id):
    """Cancels and waits for the state that must follow."""
    started = time.monotonic()
    job_service.cancel(job_id)
    state, _ = job_service.wait_for(
        job_id, {State.CANCELLED}, CANCEL_SECONDS_MAX - (time.monotonic() - started))
    assert state == State.CANCELLED


@pytest.mark.parametrize("build, delay_seconds", (
    *((pipelines.busy, delay) for delay in (0, 0.1, 0.3, 0.6)),
    *((pipelines.endless, delay) for delay in (0, 0.1, 0.3, 1, 3))))
def test_cancel_after_a_delay(flags, job_service, build, delay_seconds):
    """From before the harness is there until deep in the work."""
    result = pipelines.submit(flags, build)
    time.sleep(delay_seconds)
    cancel_and_check(job_service, result._job_id)


def test_cancel_inside_a_bundle(flags, job_service, tmp_path):
    """User code that does not return cannot hold up the cancellation."""
    build, reached, release = pipelines.blocked(tmp_path)
    result = pipelines.submit(flags, build)
    pipelines.wait_for_file(reached, 60)
    cancel_and_check(job_service, result._job_id)
    release.write_text("go")


def test_cancel_through_the_client(flags, job_service, tmp_path):
    """The client's own call, which also ends its LOOPBACK worker."""
    build, reached, release = pipelines.blocked(tmp_path)
    result = pipelines.submit(flags, build)
    pipelines.wait_for_file(reached, 60)
    result.cancel()
    job_service.wait_for(result._job_id, {State.CANCELLED}, CANCEL_SECONDS_MAX)
    release.write_text("go")


@pytest.mark.parametrize("delay_seconds", (0, 1, 6))
def test_cancel_leaves_no_process(endpoint, request, job_service, delay_seconds):
    """Harnesses that the server started itself end with the job."""
    pid = request.config.getoption("--server-pid")
    if pid is None:
        pytest.skip("the server's process is not known")
    flags = [f"--job_endpoint={endpoint}", "--environment_type=PROCESS",
             f"--environment_config={conftest.process_config(request.config)}"]
    result = pipelines.submit(flags, pipelines.endless)
    time.sleep(delay_seconds)
    started = time.monotonic()
    cancel_and_check(job_service, result._job_id)
    left = CANCEL_SECONDS_MAX - (time.monotonic() - started)
    assert not processes.wait_until_childless(pid, max(left, 0.1))


def test_cancel_twice_and_after_the_end(flags, job_service):
    """A finished job keeps its state."""
    result = pipelines.submit(flags, pipelines.endless)
    cancel_and_check(job_service, result._job_id)
    job_service.cancel(result._job_id)
    assert job_service.state(result._job_id) == State.CANCELLED

    done = pipelines.submit(flags, pipelines.busy)
    done.wait_until_finish()
    job_service.cancel(done._job_id)
    assert job_service.state(done._job_id) == State.DONE


def test_cancel_of_an_unknown_job(job_service):
    """There is nothing to cancel, and the answer says so."""
    with pytest.raises(grpc.RpcError) as caught:
        job_service.cancel("no-such-job")
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND
