"""Staging by a client that lies: paths in names, wrong hashes, streams that break off."""

import hashlib
import pathlib
import queue
import uuid

import apache_beam as beam
import grpc
import pytest
from apache_beam.portability.api import beam_artifact_api_pb2, beam_runner_api_pb2

import pipelines

FILE = "beam:artifact:type:file:v1"
STAGING_TO = "beam:artifact:role:staging_to:v1"
STAGING_SECONDS_MAX = 20
REFUSALS = frozenset((grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION,
                      grpc.StatusCode.DATA_LOSS, grpc.StatusCode.ABORTED,
                      grpc.StatusCode.PERMISSION_DENIED))


@pytest.fixture
def content():
    """Content that no server has seen before: one that knows a hash need not ask for its bytes."""
    return uuid.uuid4().bytes


def artifact(staged_name, content, sha256=None, path="/nowhere/file.txt"):
    """An artifact that is to be staged under the given name."""
    payload = beam_runner_api_pb2.ArtifactFilePayload(
        path=path, sha256=hashlib.sha256(content).hexdigest() if sha256 is None else sha256)
    role = beam_runner_api_pb2.ArtifactStagingToRolePayload(staged_name=staged_name)
    return beam_runner_api_pb2.ArtifactInformation(
        type_urn=FILE, type_payload=payload.SerializeToString(),
        role_urn=STAGING_TO, role_payload=role.SerializeToString())


def pipeline_with(artifacts):
    """A pipeline whose every environment depends on the artifacts."""
    pipeline = beam.Pipeline(options=pipelines.options([]))
    pipeline | beam.Create([1]) | beam.Map(lambda value: value)  # pylint: disable=W0106
    proto = pipelines.serialized(pipeline)
    for environment in proto.components.environments.values():
        del environment.dependencies[:]
        environment.dependencies.extend(artifacts)
    return proto


class Client:
    """Answers the server's requests for artifacts, and notes what was asked."""

    def __init__(self, job_service, token, content=b"", break_off=False):
        self._service = job_service
        self._answers = queue.Queue()
        self._content = content
        self._break_off = break_off
        self.asked = []
        self._answers.put(beam_artifact_api_pb2.ArtifactResponseWrapper(staging_token=token))

    def stage(self):
        """Serves one staging stream to its end."""
        requests = self._service.staging.ReverseArtifactRetrievalService(
            iter(self._answers.get, None), timeout=STAGING_SECONDS_MAX)
        for request in requests:
            kind = request.WhichOneof("request")
            self.asked.append(kind)
            if kind == "resolve_artifact":
                self._answer_resolve(request.resolve_artifact)
            else:
                self._answer_get()
        self._answers.put(None)

    def _answer_resolve(self, request):
        answer = beam_artifact_api_pb2.ResolveArtifactsResponse(replacements=request.artifacts)
        self._answers.put(beam_artifact_api_pb2.ArtifactResponseWrapper(
            resolve_artifact_response=answer, is_last=True))

    def _answer_get(self):
        part = beam_artifact_api_pb2.GetArtifactResponse(data=self._content)
        self._answers.put(beam_artifact_api_pb2.ArtifactResponseWrapper(get_artifact_response=part))
        if self._break_off:
            self._answers.put(None)
            return
        last = beam_artifact_api_pb2.GetArtifactResponse()
        self._answers.put(beam_artifact_api_pb2.ArtifactResponseWrapper(
            get_artifact_response=last, is_last=True))


def prepare_and_stage(job_service, one, content, break_off=False):
    """Prepares a pipeline and stages its artifact; returns the client."""
    prepared = job_service.prepare(pipeline_with([one]))
    stager = Client(job_service, prepared.staging_session_token, content, break_off)
    stager.stage()
    return stager


def test_right_artifact_is_taken(job_service, content):
    """Otherwise the refusals below would prove nothing."""
    stager = prepare_and_stage(job_service, artifact("file.txt", content), content)
    assert "get_artifact" in stager.asked


@pytest.mark.parametrize("name", (
    "../escaped-artifact", "../../../../tmp/escaped-artifact", "/tmp/escaped-artifact",
    "inner/../../escaped-artifact", "..", "with\0zero"))
def test_name_that_leads_elsewhere(job_service, content, name):
    """A staged name is a name: one that would leave the folder is refused, and named."""
    with pytest.raises(grpc.RpcError) as caught:
        prepare_and_stage(job_service, artifact(name, content), content)
    assert caught.value.code() in REFUSALS, caught.value
    assert name.replace("\0", "") in caught.value.details().replace("\\0", "").replace("\0", "")
    assert not pathlib.Path("/tmp/escaped-artifact").exists()
    job_service.job_ids()


def test_wrong_hash(job_service, content):
    """Content that is not what the client announced is not kept."""
    announced = "0" * 64
    with pytest.raises(grpc.RpcError) as caught:
        prepare_and_stage(job_service, artifact("file.txt", content, sha256=announced), content)
    assert caught.value.code() in REFUSALS, caught.value
    assert "file.txt" in caught.value.details() or announced in caught.value.details()
    job_service.job_ids()


def test_stream_that_breaks_off(job_service, content):
    """A client that ends in the middle of an artifact gets an error; the server goes on."""
    with pytest.raises(grpc.RpcError):
        prepare_and_stage(job_service, artifact("file.txt", content), content, break_off=True)
    again = prepare_and_stage(job_service, artifact("file.txt", content), content)
    assert "get_artifact" in again.asked


def test_unknown_token(job_service):
    """Staging for a preparation that does not exist."""
    with pytest.raises(grpc.RpcError) as caught:
        Client(job_service, "no-such-token").stage()
    assert caught.value.code() in (*REFUSALS, grpc.StatusCode.NOT_FOUND), caught.value
    job_service.job_ids()


def test_file_of_the_server_is_not_read(job_service, content):
    """An artifact that points at a file of the server gets the client's bytes, not that file."""
    lying = artifact("file.txt", content, path="/etc/hostname")
    stager = prepare_and_stage(job_service, lying, content)
    assert "get_artifact" in stager.asked
