"""Starts a harness for a PROCESS environment, as the boot program of a container would.

Called with the arguments of Beam's container contract, and `--harness` which says the language. Asks the
provision service for the options, fetches the staged artifacts and becomes the harness.
"""

import argparse
import json
import os
import pathlib
import shutil
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
GO_WORKER_BINARY = "beam:artifact:role:go_worker_binary:v1"
UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


def main():
    """Provisions the worker, then replaces this process by it."""
    options = parse()
    metadata = (("worker_id", options.id),)
    info = provision(options.provision_endpoint, metadata)
    artifact_endpoint = info.artifact_endpoint.url or options.artifact_endpoint
    home = pathlib.Path(tempfile.mkdtemp(prefix="beam-worker-", dir=options.semi_persist_dir))
    staged = fetch(artifact_endpoint, metadata, info.dependencies, home / "staged")
    command, variables = HARNESSES[options.harness](options, info, home, staged)
    os.execve(command[0], command, {**os.environ, **variables})


def parse():
    """The arguments of the container contract."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--harness", default="python", choices=tuple(HARNESSES))
    parser.add_argument("--id", required=True)
    for name in ("logging", "artifact", "provision", "control"):
        parser.add_argument(f"--{name}_endpoint", default="")
    parser.add_argument("--semi_persist_dir")
    return parser.parse_known_args()[0]


def provision(endpoint, metadata):
    """Asks for everything the worker is to know."""
    with grpc.insecure_channel(endpoint, options=UNLIMITED) as channel:
        stub = beam_provision_api_pb2_grpc.ProvisionServiceStub(channel)
        request = beam_provision_api_pb2.GetProvisionInfoRequest()
        return stub.GetProvisionInfo(request, metadata=metadata).info


def fetch(endpoint, metadata, dependencies, folder):
    """Writes every dependency under the name that its role asks for; returns (role, file) of each, in order."""
    folder.mkdir(parents=True)
    staged = []
    if not dependencies:
        return staged
    with grpc.insecure_channel(endpoint, options=UNLIMITED) as channel:
        stub = beam_artifact_api_pb2_grpc.ArtifactRetrievalServiceStub(channel)
        request = beam_artifact_api_pb2.ResolveArtifactsRequest(artifacts=dependencies)
        for artifact in stub.ResolveArtifacts(request, metadata=metadata).replacements:
            target = folder / staged_name(artifact)
            get = beam_artifact_api_pb2.GetArtifactRequest(artifact=artifact)
            with target.open("wb") as file:
                for part in stub.GetArtifact(get, metadata=metadata):
                    file.write(part.data)
            staged.append((artifact.role_urn, target))
    return staged


def staged_name(artifact):
    """The last part of the name that the artifact is to get; never a path."""
    if artifact.role_urn != STAGING_TO:
        return "artifact-" + artifact.role_urn.replace(":", "-").replace("/", "-")
    payload = beam_runner_api_pb2.ArtifactStagingToRolePayload.FromString(artifact.role_payload)
    return pathlib.PurePosixPath(payload.staged_name).name


def python(options, info, home, _staged):
    """Staged packages are not installed: the interpreter is the one that submitted the pipeline."""
    variables = {**descriptors(options, info), "WORKER_ID": options.id,
                 "SEMI_PERSISTENT_DIRECTORY": str(home),
                 "PIPELINE_OPTIONS": pipeline_options(info)}
    return [sys.executable, "-m", "apache_beam.runners.worker.sdk_worker_main"], variables


def java(options, info, _home, staged):
    """The class path is what the client staged, in its order; it has the harness too."""
    class_path = os.pathsep.join(str(file) for role, file in staged if role == STAGING_TO)
    variables = {**descriptors(options, info), "HARNESS_ID": options.id,
                 "PIPELINE_OPTIONS": pipeline_options(info)}
    return [shutil.which("java"), "-cp", class_path, "org.apache.beam.fn.harness.FnHarness"], variables


def go(options, info, home, staged):
    """The harness is the client's own program."""
    (binary,) = (file for role, file in staged if role == GO_WORKER_BINARY)
    binary.chmod(0o755)
    option_file = home / "options.json"
    option_file.write_text(pipeline_options(info))
    control, logging = control_and_logging(options, info)
    variables = {"PIPELINE_OPTIONS_FILE": str(option_file),
                 "RUNNER_CAPABILITIES": " ".join(info.runner_capabilities),
                 "STATUS_ENDPOINT": info.status_endpoint.url}
    return [str(binary), "--worker=true", f"--id={options.id}", f"--control_endpoint={control}",
            f"--logging_endpoint={logging}", f"--semi_persist_dir={home}"], variables


HARNESSES = {"python": python, "java": java, "go": go}


def descriptors(options, info):
    """What the harnesses of Python and Java read alike from their environment."""
    control, logging = control_and_logging(options, info)
    variables = {
        "CONTROL_API_SERVICE_DESCRIPTOR": descriptor(control),
        "LOGGING_API_SERVICE_DESCRIPTOR": descriptor(logging),
        "RUNNER_CAPABILITIES": " ".join(info.runner_capabilities),
    }
    if info.status_endpoint.url:
        variables["STATUS_API_SERVICE_DESCRIPTOR"] = descriptor(info.status_endpoint.url)
    return variables


def pipeline_options(info):
    """The options as JSON. All numbers of a Struct are doubles; Go takes no `1.0` for an integer."""
    def whole(value):
        if isinstance(value, dict):
            return {key: whole(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [whole(inner) for inner in value]
        return int(value) if isinstance(value, float) and value.is_integer() else value
    return json.dumps(whole(json_format.MessageToDict(info.pipeline_options)))


def control_and_logging(options, info):
    """The two endpoints; what provision says goes before the arguments."""
    return (info.control_endpoint.url or options.control_endpoint,
            info.logging_endpoint.url or options.logging_endpoint)


def descriptor(url):
    """An endpoint in the text form that the worker parses."""
    return text_format.MessageToString(endpoints_pb2.ApiServiceDescriptor(url=url))


if __name__ == "__main__":
    main()
