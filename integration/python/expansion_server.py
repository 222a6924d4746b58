"""Serves Beam's test expansion transforms with an EXTERNAL environment in place of a container.

    expansion_server.py PORT POOL_ADDRESS
"""

import signal
import sys

import grpc
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import (
    beam_artifact_api_pb2_grpc,
    beam_expansion_api_pb2_grpc,
)
from apache_beam.runners.portability import (
    artifact_service,
    expansion_service,
    expansion_service_test,  # noqa: F401  (registers the test transforms)
)
from apache_beam.utils import thread_pool_executor


def main(port, pool_address):
    """Serves until a signal arrives."""
    options = PipelineOptions([
        "--environment_type=EXTERNAL", f"--environment_config={pool_address}",
        "--experiments=beam_fn_api", "--sdk_location=container", "--pickle_library=cloudpickle",
    ])
    server = grpc.server(thread_pool_executor.shared_unbounded_instance())
    beam_expansion_api_pb2_grpc.add_ExpansionServiceServicer_to_server(
        expansion_service.ExpansionServiceServicer(options), server)
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
