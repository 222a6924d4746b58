"""Serves Beam's test expansion transforms with an EXTERNAL environment in place of a container.

    expansion_server.py PORT POOL_ADDRESS
"""

import signal
import sys

import grpc
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import (
    beam_artifact_api_pb2_grpc,
    beam_expansion_api_pb2,
    beam_expansion_api_pb2_grpc,
    external_transforms_pb2,
)
from apache_beam.runners.portability import (
    artifact_service,
    expansion_service,
    expansion_service_test,
)
from apache_beam.utils import thread_pool_executor

IMPULSE = "beam:transform:impulse:v1"
PRODUCER = "producer_of_{}"


class TestExpansionService(expansion_service.ExpansionServiceServicer):
    """Beam's service, which also takes what Go's client sends.

    That client is written for the Java service: it leaves out the producers of the inputs, which Python
    looks up, and names the fields of a payload as Go does.
    """

    def Expand(self, request, context=None):
        """Expands with producers added; they are not in the answer."""
        adapted = beam_expansion_api_pb2.ExpansionRequest()
        adapted.CopyFrom(request)
        if adapted.transform.spec.urn == expansion_service_test.TEST_PREFIX_URN:
            adapted.transform.spec.payload = with_lower_case_fields(adapted.transform.spec.payload)
        added = add_producers(adapted)
        response = super().Expand(adapted, context)
        for name in added:
            response.components.transforms.pop(name, None)
        return response


def add_producers(request):
    """Adds an impulse for every input that nothing produces; returns their ids."""
    transforms = request.components.transforms
    produced = {collection for transform in transforms.values()
                for collection in transform.outputs.values()}
    added = []
    for collection in set(request.transform.inputs.values()) - produced:
        name = PRODUCER.format(collection)
        transforms[name].unique_name = name
        transforms[name].spec.urn = IMPULSE
        transforms[name].outputs["out"] = collection
        added.append(name)
    return added


def with_lower_case_fields(payload):
    """A configuration whose field `Data` is called `data`."""
    configuration = external_transforms_pb2.ExternalConfigurationPayload.FromString(payload)
    for field in configuration.schema.fields:
        field.name = field.name[:1].lower() + field.name[1:]
    return configuration.SerializeToString()


def main(port, pool_address):
    """Serves until a signal arrives."""
    options = PipelineOptions([
        "--environment_type=EXTERNAL", f"--environment_config={pool_address}",
        "--experiments=beam_fn_api", "--sdk_location=container", "--pickle_library=cloudpickle",
    ])
    server = grpc.server(thread_pool_executor.shared_unbounded_instance())
    beam_expansion_api_pb2_grpc.add_ExpansionServiceServicer_to_server(
        TestExpansionService(options), server)
    files = artifact_service.BeamFilesystemHandler(None).file_reader
    beam_artifact_api_pb2_grpc.add_ArtifactRetrievalServiceServicer_to_server(
        artifact_service.ArtifactRetrievalService(files), server)
    server.add_insecure_port(f"localhost:{port}")
    server.start()
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    server.stop(1)


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    main(sys.argv[1], sys.argv[2])
