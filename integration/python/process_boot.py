"""Starts a Python harness for a PROCESS environment, as the boot program of a container would.

Called with the arguments of Beam's container contract. Asks the provision service for the options,
fetches the staged artifacts and becomes `sdk_worker_main`. Staged packages are not installed: the
interpreter is the one that submitted the pipeline.
"""

import argparse
import os
import pathlib
import sys
import tempfile

import grpc
from apache_beam.portability.api import (
    beam_artifact_api_pb2,
    beam_artifact_api_pb2_grpc,
    beam_provision_api_pb2,
    beam_provision_api_pb2_grpc,
    beam_runner_api_pb2,
    endpoints_pb2,
)
from google.protobuf import json_format, text_format

STAGING_TO = "beam:artifact:role:staging_to:v1"
UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


def main():
    """Provisions the worker, then replaces this process by it."""
    options = parse()
    metadata = (("worker_id", options.id),)
    info = provision(options.provision_endpoint, metadata)
    artifact_endpoint = info.artifact_endpoint.url or options.artifact_endpoint
    home = pathlib.Path(tempfile.mkdtemp(prefix="beam-worker-"))
    if info.dependencies:
        fetch(artifact_endpoint, metadata, info.dependencies, home / "staged")
    os.environ.update(environment(options, info, home))
    module = "apache_beam.runners.worker.sdk_worker_main"
    os.execv(sys.executable, [sys.executable, "-m", module])


def parse():
    """The arguments of the container contract."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--id", required=True)
    for name in ("logging", "artifact", "provision", "control"):
        parser.add_argument(f"--{name}_endpoint", default="")
    parser.add_argument("--semi_persist_dir", default="")
    return parser.parse_known_args()[0]


def provision(endpoint, metadata):
    """Asks for everything the worker is to know."""
    with grpc.insecure_channel(endpoint, options=UNLIMITED) as channel:
        stub = beam_provision_api_pb2_grpc.ProvisionServiceStub(channel)
        request = beam_provision_api_pb2.GetProvisionInfoRequest()
        return stub.GetProvisionInfo(request, metadata=metadata).info


def fetch(endpoint, metadata, dependencies, folder):
    """Writes every dependency under the name that its role asks for."""
    folder.mkdir(parents=True)
    with grpc.insecure_channel(endpoint, options=UNLIMITED) as channel:
        stub = beam_artifact_api_pb2_grpc.ArtifactRetrievalServiceStub(channel)
        request = beam_artifact_api_pb2.ResolveArtifactsRequest(artifacts=dependencies)
        for artifact in stub.ResolveArtifacts(request, metadata=metadata).replacements:
            target = folder / staged_name(artifact)
            get = beam_artifact_api_pb2.GetArtifactRequest(artifact=artifact)
            with target.open("wb") as file:
                for part in stub.GetArtifact(get, metadata=metadata):
                    file.write(part.data)


def staged_name(artifact):
    """The last part of the name that the artifact is to get; never a path."""
    if artifact.role_urn != STAGING_TO:
        return "artifact-" + artifact.role_urn.replace(":", "-").replace("/", "-")
    payload = beam_runner_api_pb2.ArtifactStagingToRolePayload.FromString(artifact.role_payload)
    return pathlib.PurePosixPath(payload.staged_name).name


def environment(options, info, home):
    """The variables that sdk_worker_main reads."""
    control = info.control_endpoint.url or options.control_endpoint
    logging = info.logging_endpoint.url or options.logging_endpoint
    variables = {
        "WORKER_ID": options.id,
        "CONTROL_API_SERVICE_DESCRIPTOR": descriptor(control),
        "LOGGING_API_SERVICE_DESCRIPTOR": descriptor(logging),
        "SEMI_PERSISTENT_DIRECTORY": str(home),
        "PIPELINE_OPTIONS": json_format.MessageToJson(info.pipeline_options),
        "RUNNER_CAPABILITIES": " ".join(info.runner_capabilities),
    }
    if info.status_endpoint.url:
        variables["STATUS_API_SERVICE_DESCRIPTOR"] = descriptor(info.status_endpoint.url)
    return variables


def descriptor(url):
    """An endpoint in the text form that the worker parses."""
    return text_format.MessageToString(endpoints_pb2.ApiServiceDescriptor(url=url))


if __name__ == "__main__":
    main()
