"""Beam's PortableRunnerTest, run against the job service named by `--endpoint`."""

import time

import pytest
from apache_beam.options.pipeline_options import DebugOptions, PipelineOptions
from apache_beam.runners.portability import portable_runner_test


class EndpointTest(portable_runner_test.PortableRunnerTest):
    """Every inherited test, with the options of this run instead of an in-process job service.

    Upstream skips two event-time timer tests for its own class names; under this one they run.
    """

    @pytest.fixture(autouse=True)
    def _take_options(self, flags):
        self._flags = flags

    def create_options(self):
        """Options as upstream sets them, on our endpoint and environment."""
        name = f"{self._testMethodName}-{time.time()}"
        options = PipelineOptions([*self._flags, f"--job_name={name}"])
        debug = options.view_as(DebugOptions)
        debug.add_experiment("state_cache_size=100")
        debug.add_experiment("data_buffer_time_limit_ms=1000")
        return options
