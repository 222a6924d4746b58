"""Garbage and strangers on every gRPC call: an error each time, and a server that goes on."""

import itertools
import socket

import grpc
import pytest
from apache_beam.portability.api import (
    beam_artifact_api_pb2,
    beam_fn_api_pb2,
    beam_job_api_pb2,
    beam_provision_api_pb2,
)

import jobs

CALL_SECONDS_MAX = 15
GARBAGE = b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff garbage that is no protobuf"
# A server that answers with one of these did not handle the request at all.
NO_ANSWER = frozenset((grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED))


def methods(*modules):
    """(service, method) for every method of every service in the generated modules."""
    for module in modules:
        for service in module.DESCRIPTOR.services_by_name.values():
            for method in service.methods:
                yield service.full_name, method


# Services that only clients of ours serve (worker pools, SDKs) or that nobody may need to serve.
OF_OTHERS = ("ExternalWorkerPool", "LegacyArtifact", "TestStreamService")
CALLS = [
    pytest.param(service, method, id=f"{service.rpartition('.')[2]}.{method.name}")
    for service, method in methods(beam_job_api_pb2, beam_artifact_api_pb2, beam_fn_api_pb2,
                                   beam_provision_api_pb2)
    if not any(name in service for name in OF_OTHERS)
]
WORKER_CALLS = [parameter for parameter in CALLS
                if "fn_execution" in parameter.values[0]]


def call(channel, service, method, payload, metadata=()):
    """Calls a method with raw bytes, whatever its kind; returns the error, or None."""
    path = f"/{service}/{method.name}"
    kind = ("stream" if method.client_streaming else "unary",
            "stream" if method.server_streaming else "unary")
    stub = getattr(channel, "_".join(kind))(path)
    request = itertools.repeat(payload, 1) if method.client_streaming else payload
    try:
        answer = stub(request, timeout=CALL_SECONDS_MAX, metadata=metadata)
        if method.server_streaming:
            for _ in answer:
                pass
    except grpc.RpcError as error:
        return error
    return None


@pytest.mark.parametrize(("service", "method"), CALLS)
def test_garbage(job_service, service, method):
    """Bytes that do not decode are an error of that call alone."""
    error = call(job_service.channel, service, method, GARBAGE)
    assert error is not None, "garbage was accepted"
    assert error.code() not in NO_ANSWER, error
    assert error.details(), "an error needs a text"
    job_service.job_ids()


@pytest.mark.parametrize(("service", "method"), WORKER_CALLS)
@pytest.mark.parametrize("metadata", ((), (("worker_id", "nobody"),)), ids=("without", "foreign"))
def test_worker_id(job_service, service, method, metadata):
    """A stream without a worker id, or with one that was never given out, is turned away."""
    error = call(job_service.channel, service, method, b"", metadata)
    assert error is not None, "a stranger was let in"
    assert error.code() in (
        grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.FAILED_PRECONDITION), error
    assert "worker" in error.details()
    job_service.job_ids()


@pytest.mark.parametrize("method", (
    "GetState", "GetPipeline", "Cancel", "Drain", "GetStateStream", "GetMessageStream",
    "GetJobMetrics"))
def test_unknown_job(job_service, method):
    """Every call about a job says NOT_FOUND for one that does not exist."""
    descriptor = beam_job_api_pb2.DESCRIPTOR.services_by_name["JobService"]
    found = descriptor.methods_by_name[method]
    request = beam_job_api_pb2.GetJobStateRequest(job_id="no-such-job").SerializeToString()
    error = call(job_service.channel, descriptor.full_name, found, request)
    assert error is not None
    assert error.code() == grpc.StatusCode.NOT_FOUND, error
    assert "no-such-job" in error.details()


def test_unknown_preparation(job_service):
    """Run of something that was never prepared."""
    with pytest.raises(grpc.RpcError) as caught:
        job_service.run("no-such-preparation")
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND
    assert "no-such-preparation" in caught.value.details()


def test_method_that_does_not_exist(job_service):
    """gRPC's own answer."""
    stub = job_service.channel.unary_unary("/no.such.Service/Method")
    with pytest.raises(grpc.RpcError) as caught:
        stub(b"", timeout=CALL_SECONDS_MAX)
    assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_connections_that_say_nothing(endpoint, job_service):
    """Peers that connect and hang, or speak something else, keep nobody out."""
    host, _, port = endpoint.rpartition(":")
    silent = [socket.create_connection((host, int(port))) for _ in range(50)]
    for peer in silent[:25]:
        peer.sendall(b"GET / HTTP/1.1\r\n\r\n\x00\x01\x02")
    assert job_service.job_ids() is not None
    for peer in silent:
        peer.close()
    fresh = jobs.JobService(endpoint)
    fresh.job_ids()
    fresh.close()
