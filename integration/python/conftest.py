"""Options and fixtures shared by every Python suite.

Each suite runs against the job service named by `--endpoint`; nothing here starts a runner.
The Beam package ships its tests but not its conftest, so this file also supplies what those tests
expect: the markers, and the pipeline options that a bare `TestPipeline()` picks up.
"""

import functools
import json
import pathlib
import shutil
import sys
import tempfile

import pytest

import expected
import jobs
import worker_pool

MARKERS = (
    "it_validatesrunner", "it_postcommit", "examples_postcommit", "no_xdist", "uses_dill",
    "no_sickbay_batch", "no_sickbay_streaming", "sickbay_batch", "sickbay_streaming",
    "uses_gcp_java_expansion_service", "uses_java_expansion_service",
    "uses_python_expansion_service", "uses_io_java_expansion_service",
    "uses_transform_service", "uses_tensorflow", "uses_xgboost", "xlang_transforms",
    "xlang_sql_expansion_service", "xlang_wrapper_generation", "vertex_ai_postcommit",
    "uses_messaging_java_expansion_service", "uses_feast", "uses_tft", "uses_keras",
    "uses_onnx", "uses_pytorch", "uses_sklearn", "uses_testcontainer", "uses_mock_api",
)


def pytest_addoption(parser):
    """Declares the options of the suites."""
    group = parser.getgroup("tidemill")
    group.addoption("--endpoint", help="host:port of the job service under test")
    group.addoption("--environment", default="LOOPBACK", choices=("LOOPBACK", "EXTERNAL", "PROCESS"))
    group.addoption("--variant", default="default", choices=tuple(sorted(VARIANTS)))
    group.addoption("--suite", help="name under which unsupported.toml knows this run")
    group.addoption("--server-pid", type=int, help="process of the job service, where it is ours")


# Options that each variant adds to every pipeline of the run.
VARIANTS = {
    "default": [],
    "pre_optimize_none": ["--experiments=pre_optimize=none"],
    "all_except_fusion": ["--experiments=pre_optimize=all_except_fusion"],
    "streaming": ["--streaming"],
    "two_workers": ["--sdk_worker_parallelism=2"],
}


def pytest_configure(config):
    """Registers Beam's markers and hides pytest's own arguments from Beam.

    Pipeline options default to `sys.argv`, and argparse accepts abbreviations, so any option of
    pytest could be taken for one of a pipeline.
    """
    for marker in MARKERS:
        config.addinivalue_line("markers", f"{marker}: a marker of Beam's own tests")
    sys.argv[1:] = []
    if config.getoption("--endpoint"):
        from apache_beam.testing.test_pipeline import TestPipeline

        flags = [*pipeline_flags(config), "--runner=PortableRunner"]
        TestPipeline.pytest_test_pipeline_options = " ".join(flags)


def pytest_unconfigure(config):
    """Stops the worker pool of an EXTERNAL run."""
    pool = getattr(config, "tidemill_worker_pool", None)
    if pool is not None:
        pool.stop()


def pytest_collection_modifyitems(config, items):
    """Marks what unsupported.toml says must fail; such a test that passes is a failure."""
    rows = expected.failures(config.getoption("--suite"))
    for item in items:
        reason = expected.reason_for(item.nodeid, rows)
        if reason is not None:
            item.add_marker(pytest.mark.xfail(strict=True, reason=reason))


def pipeline_flags(config):
    """The command-line form of the options that reach the endpoint under test."""
    environment = config.getoption("--environment")
    flags = [
        f"--job_endpoint={config.getoption('--endpoint')}",
        f"--environment_type={environment}",
        *VARIANTS[config.getoption("--variant")],
    ]
    if environment == "EXTERNAL":
        flags.append(f"--environment_config={shared_pool(config).address}")
    if environment == "PROCESS":
        flags.append(f"--environment_config={process_config(config)}")
    return flags


def shared_pool(config):
    """The worker pool of this run, started at first use."""
    if getattr(config, "tidemill_worker_pool", None) is None:
        config.tidemill_worker_pool = worker_pool.WorkerPool()
    return config.tidemill_worker_pool


def process_config(config, harness="python"):
    """Configuration of a PROCESS environment whose command runs our launcher."""
    if getattr(config, "tidemill_boot", None) is None:
        config.tidemill_boot = pathlib.Path(tempfile.mkdtemp(prefix="tidemill-boot-"))
        config.add_cleanup(
            functools.partial(shutil.rmtree, config.tidemill_boot, ignore_errors=True))
    script = config.tidemill_boot / harness
    if not script.exists():
        launcher = pathlib.Path(__file__).with_name("process_boot.py")
        paths = worker_pool.worker_environment()["PYTHONPATH"]
        script.write_text(f'#!/bin/sh\nexport PYTHONPATH="{paths}"\n'
                          f'exec "{sys.executable}" "{launcher}" --harness={harness} '
                          f'--semi_persist_dir="{config.tidemill_boot}" "$@"\n')
        script.chmod(0o755)
    return json.dumps({"command": str(script)})


@pytest.fixture
def job_service(endpoint):
    """A raw client of the job service under test."""
    client = jobs.JobService(endpoint)
    yield client
    client.close()


@pytest.fixture
def endpoint(request):
    """Address of the job service under test."""
    value = request.config.getoption("--endpoint")
    if not value:
        pytest.fail("this suite needs --endpoint=HOST:PORT")
    return value


@pytest.fixture
def flags(request, endpoint):
    """Pipeline flags for the endpoint, environment and variant of this run."""
    return pipeline_flags(request.config)
