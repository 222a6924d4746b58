"""The Job API by plain gRPC calls, for tests that look at a job from outside its client."""

import time

import grpc
from apache_beam.portability.api import (
    beam_artifact_api_pb2_grpc,
    beam_job_api_pb2,
    beam_job_api_pb2_grpc,
)

State = beam_job_api_pb2.JobState
Importance = beam_job_api_pb2.JobMessage
TERMINAL = frozenset((State.DONE, State.FAILED, State.CANCELLED, State.DRAINED, State.UPDATED))
CALL_SECONDS_MAX = 20


class JobService:
    """A client of one job service."""

    def __init__(self, endpoint):
        self.channel = grpc.insecure_channel(endpoint)
        self.stub = beam_job_api_pb2_grpc.JobServiceStub(self.channel)
        self.staging = beam_artifact_api_pb2_grpc.ArtifactStagingServiceStub(self.channel)

    def close(self):
        """Closes the connection."""
        self.channel.close()

    def prepare(self, pipeline, options=None, name="job"):
        """Prepare, with the options as a Struct if given."""
        request = beam_job_api_pb2.PrepareJobRequest(job_name=name, pipeline=pipeline)
        if options is not None:
            request.pipeline_options.CopyFrom(options)
        return self.stub.Prepare(request, timeout=CALL_SECONDS_MAX)

    def run(self, preparation_id):
        """Run; returns the job id."""
        request = beam_job_api_pb2.RunJobRequest(preparation_id=preparation_id)
        return self.stub.Run(request, timeout=CALL_SECONDS_MAX).job_id

    def state(self, job_id):
        """The current state of a job."""
        request = beam_job_api_pb2.GetJobStateRequest(job_id=job_id)
        return self.stub.GetState(request, timeout=CALL_SECONDS_MAX).state

    def cancel(self, job_id):
        """Cancel; returns the state that the call answers."""
        request = beam_job_api_pb2.CancelJobRequest(job_id=job_id)
        return self.stub.Cancel(request, timeout=CALL_SECONDS_MAX).state

    def drain(self, job_id):
        """Drain; returns the state that the call answers."""
        request = beam_job_api_pb2.DrainJobRequest(job_id=job_id)
        return self.stub.Drain(request, timeout=CALL_SECONDS_MAX).state

    def metrics(self, job_id):
        """Attempted and committed metrics."""
        request = beam_job_api_pb2.GetJobMetricsRequest(job_id=job_id)
        return self.stub.GetJobMetrics(request, timeout=CALL_SECONDS_MAX).metrics

    def job_ids(self):
        """Ids of all jobs that the server knows."""
        answer = self.stub.GetJobs(beam_job_api_pb2.GetJobsRequest(), timeout=CALL_SECONDS_MAX)
        return {job.job_id for job in answer.job_info}

    def wait_for(self, job_id, wanted, seconds):
        """Waits until the state is one of `wanted`; returns it and the seconds it took."""
        started = time.monotonic()
        while True:
            state = self.state(job_id)
            passed = time.monotonic() - started
            if state in wanted:
                return state, passed
            if state in TERMINAL:
                raise AssertionError(f"job ended {State.Enum.Name(state)}: {self.errors(job_id)}")
            if passed > seconds:
                raise AssertionError(f"still {State.Enum.Name(state)} after {passed:.0f} s")
            time.sleep(0.05)

    def errors(self, job_id):
        """Texts of the ERROR messages of a job that has ended."""
        return self.texts(job_id, Importance.JOB_MESSAGE_ERROR)

    def texts(self, job_id, importance):
        """Texts of the messages of that importance of a job that has ended."""
        request = beam_job_api_pb2.JobMessagesRequest(job_id=job_id)
        texts = []
        for response in self.stub.GetMessageStream(request, timeout=CALL_SECONDS_MAX):
            message = response.message_response
            if message.importance == importance:
                texts.append(message.message_text)
        return texts
