"""Jobs that go wrong: user code that raises, harnesses that die, clients that vanish."""

import concurrent.futures
import json
import os
import pathlib
import signal
import subprocess
import sys
import textwrap

import apache_beam as beam
import grpc
import pytest
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc
from apache_beam.testing.util import assert_that, equal_to

import conftest
import jobs
import pipelines
import processes
import worker_pool

State = jobs.State


@pytest.fixture
def pool():
    """A worker pool of this test alone, since the test kills its workers."""
    own = worker_pool.WorkerPool()
    yield own
    own.stop()


def external(endpoint, address):
    """Flags for a pipeline whose workers come from the pool at `address`."""
    return [f"--job_endpoint={endpoint}", "--environment_type=EXTERNAL",
            f"--environment_config={address}"]


def fail_with_cause(flags, build):
    """Runs a pipeline that must fail; returns what the client raised as text."""
    with pytest.raises(Exception) as caught:
        pipelines.submit(flags, build).wait_until_finish()
    return str(caught.value)


class Broken(beam.DoFn):
    """Raises in the one method that it is told."""

    def __init__(self, where):
        self._where = where

    def _fail_in(self, method):
        if method == self._where:
            raise ValueError(f"broken on purpose in {method}")

    def setup(self):
        """A method of the life cycle."""
        self._fail_in("setup")

    def start_bundle(self):
        """A method of the life cycle."""
        self._fail_in("start_bundle")

    def process(self, element):
        """A method of the life cycle."""
        self._fail_in("process")
        yield element

    def finish_bundle(self):
        """A method of the life cycle."""
        self._fail_in("finish_bundle")


@pytest.mark.parametrize("where", ("setup", "start_bundle", "process", "finish_bundle"))
def test_user_error_names_step_and_traceback(flags, job_service, where):
    """The last error message holds the step, the exception and the user's own function."""
    def build(pipeline):
        # pylint: disable=expression-not-assigned
        pipeline | beam.Create([1, 2]) | "Explode" >> beam.ParDo(Broken(where))

    result = pipelines.submit(flags, build)
    with pytest.raises(RuntimeError):
        result.wait_until_finish()
    assert job_service.state(result._job_id) == State.FAILED
    text = "\n".join(job_service.errors(result._job_id))
    assert f"broken on purpose in {where}" in text
    assert "_fail_in" in text, "the traceback must reach into user code"
    assert "Explode" in text, "the step must be named"


def test_error_in_one_job_leaves_others_alone(flags, job_service):
    """A job that fails does not disturb one that runs at the same time."""
    def broken(pipeline):
        # pylint: disable=expression-not-assigned
        pipeline | beam.Create([1]) | beam.ParDo(Broken("process"))

    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        good = threads.submit(lambda: pipelines.submit(flags, pipelines.busy).wait_until_finish())
        fail_with_cause(flags, broken)
        assert good.result(timeout=100) == "DONE"
    assert job_service.job_ids()


def test_harness_that_dies_is_replaced(endpoint, pool, tmp_path):
    """A process that ends mid-bundle costs nothing but its bundle."""
    marker = tmp_path / "died"
    flags = external(endpoint, pool.address)
    with beam.Pipeline(options=pipelines.options(flags)) as pipeline:
        doubled = (pipeline | beam.Create(range(20)) | beam.Reshuffle()
                   | beam.ParDo(pipelines.DieOnce(marker)))
        assert_that(doubled, equal_to([2 * i for i in range(20)]))
    assert marker.exists()


def test_harness_killed_mid_bundle(endpoint, pool, job_service, tmp_path):
    """SIGKILL to a harness inside a bundle: the bundle runs again and the job ends well."""
    build, reached, release = pipelines.blocked(tmp_path)
    result = pipelines.submit(external(endpoint, pool.address), build)
    harness = int(pipelines.wait_for_file(reached, 60))
    reached.unlink()
    os.kill(harness, signal.SIGKILL)
    assert int(pipelines.wait_for_file(reached, 60)) != harness
    release.write_text("go")
    assert result.wait_until_finish() == "DONE"
    assert job_service.state(result._job_id) == State.DONE


def test_harness_that_always_dies_fails_the_job(endpoint, pool, job_service):
    """Replacing has an end in batch: the job fails and says that the harness was lost."""
    def build(pipeline):
        # pylint: disable=expression-not-assigned
        pipeline | beam.Create([1]) | beam.ParDo(pipelines.DieAlways())

    result = pipelines.submit(external(endpoint, pool.address), build)
    with pytest.raises(RuntimeError):
        result.wait_until_finish()
    assert job_service.state(result._job_id) == State.FAILED
    assert job_service.errors(result._job_id)


class IdlePool(beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolServicer):
    """Agrees to start workers and starts none."""

    def StartWorker(self, request, context):
        """Answers OK."""
        return beam_fn_api_pb2.StartWorkerResponse()

    def StopWorker(self, request, context):
        """Answers OK."""
        return beam_fn_api_pb2.StopWorkerResponse()


@pytest.mark.timeout(200)
def test_worker_that_never_connects_fails_the_job(endpoint):
    """StartWorker that answers OK is no proof of a worker; a deadline must notice."""
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(IdlePool(), server)
    port = server.add_insecure_port("localhost:0")
    server.start()
    text = fail_with_cause(external(endpoint, f"localhost:{port}"), pipelines.busy)
    server.stop(0)
    assert "connect" in text


def test_pool_that_does_not_exist_fails_the_job(endpoint):
    """The message names the address that nobody answers."""
    address = f"localhost:{worker_pool.free_port()}"
    port = address.rpartition(":")[2]
    assert port in fail_with_cause(external(endpoint, address), pipelines.busy)


def test_process_that_ends_at_once_fails_the_job_with_its_log(endpoint, tmp_path):
    """What the command printed before it died is in the message."""
    command = tmp_path / "boot"
    command.write_text("#!/bin/sh\necho no such wheel >&2\nexit 3\n")
    command.chmod(0o755)
    flags = [f"--job_endpoint={endpoint}", "--environment_type=PROCESS",
             f"--environment_config={json.dumps({'command': str(command)})}"]
    assert "no such wheel" in fail_with_cause(flags, pipelines.busy)


CLIENT = """
    import sys
    import pathlib
    import pipelines
    build, _, _ = pipelines.blocked(pathlib.Path(sys.argv[2]))
    flags = ["--job_endpoint=" + sys.argv[1], "--environment_type=LOOPBACK"]
    result = pipelines.submit(flags, build)
    pathlib.Path(sys.argv[2], "job").write_text(result._job_id)
    result.wait_until_finish()
"""


def test_loopback_client_gone_fails_the_job(endpoint, job_service, tmp_path):
    """A client that is killed takes its harness along; its job fails within 30 s."""
    script = tmp_path / "client.py"
    script.write_text(textwrap.dedent(CLIENT))
    client = subprocess.Popen([sys.executable, script, endpoint, tmp_path],
                              env=worker_pool.worker_environment())
    try:
        pipelines.wait_for_file(tmp_path / "reached", 60)
        job_id = pipelines.wait_for_file(pathlib.Path(tmp_path, "job"), 20)
    finally:
        client.kill()
        client.wait()
    _, seconds = job_service.wait_for(job_id, {State.FAILED}, 30)
    assert job_service.errors(job_id), f"failed after {seconds:.1f} s without a message"


def test_process_environment_leaves_no_process(endpoint, request):
    """After the last job of a PROCESS environment its harnesses are gone."""
    pid = request.config.getoption("--server-pid")
    if pid is None:
        pytest.skip("the server's process is not known")
    flags = [f"--job_endpoint={endpoint}", "--environment_type=PROCESS",
             f"--environment_config={conftest.process_config(request.config)}"]
    assert pipelines.submit(flags, pipelines.busy).wait_until_finish() == "DONE"
    assert not processes.wait_until_childless(pid, 10)
