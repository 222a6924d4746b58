"""The catalogue of suites, in the order in which they are run.

A suite that is not `default` runs only when named: it is too long for every change, or waits for a
feature.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Suite:
    """One suite; `kind` chooses the tool that runs it."""

    name: str
    title: str
    kind: str
    default: bool = True
    arguments: tuple = ()
    # Extra flags of `tidemill serve`.
    serve: tuple = ()
    timeout_minutes: int = 15
    # Runs alone: it measures time, or uses every core by itself.
    exclusive: bool = False


def by_name():
    """Every suite under its name."""
    return {suite.name: suite for suite in ALL}


def _portable(name, title, *arguments, default=True):
    return Suite(name, f"PortableRunnerTest, {title}", "pytest", default,
                 ("test_portable_runner.py", *arguments))


# Modules of the package that hold tests marked it_validatesrunner and that any runner can pass.
VALIDATES_RUNNER = (
    "apache_beam.transforms.sideinputs_test", "apache_beam.transforms.ptransform_test",
    "apache_beam.transforms.combiners_test", "apache_beam.transforms.combinefn_lifecycle_test",
    "apache_beam.transforms.deduplicate_test",
    "apache_beam.runners.portability.fn_api_runner.translations_test",
    "apache_beam.pipeline_test", "apache_beam.transforms.dofn_lifecycle_test",
    "apache_beam.transforms.util_test", "apache_beam.metrics.metric_test",
)

# Modules whose tests build pipelines with a bare TestPipeline, so that they run on our endpoint.
TRANSFORM_MODULES = (
    "apache_beam.transforms.ptransform_test", "apache_beam.transforms.util_test",
    "apache_beam.transforms.trigger_test", "apache_beam.pipeline_test",
    "apache_beam.transforms.combiners_test", "apache_beam.io.unbounded_source_test",
    "apache_beam.io.watch_test", "apache_beam.transforms.core_test",
    "apache_beam.transforms.periodicsequence_test", "apache_beam.transforms.sideinputs_test",
    "apache_beam.testing.test_stream_test", "apache_beam.transforms.window_test",
    "apache_beam.transforms.userstate_test", "apache_beam.transforms.create_test",
)

# Packages of the Go SDK with pipelines that need nothing but a runner.
_GO = "github.com/apache/beam/sdks/v2/go/test"
GO_PACKAGES = (
    f"{_GO}/integration/primitives", f"{_GO}/regression", f"{_GO}/integration/wordcount",
    f"{_GO}/integration/synthetic", "tidemill.dev/integration/teststream",
)
GO_XLANG_PACKAGES = (f"{_GO}/integration/xlang",)
_BEAM = "github.com/apache/beam/sdks/v2/go/pkg/beam"
GO_TRANSFORM_PACKAGES = (_BEAM, *(f"{_BEAM}/{package}" for package in (
    "testing/passert", "transforms/stats", "transforms/top", "transforms/filter",
    "transforms/batch", "transforms/periodic", "io/textio", "io/fileio",
)))
_EXAMPLES = "github.com/apache/beam/sdks/v2/go/examples"
GO_EXAMPLE_PACKAGES = (f"{_EXAMPLES}/snippets", f"{_EXAMPLES}/large_wordcount")

ALL = (
    Suite("fmt", "cargo fmt --check", "cargo", arguments=("fmt", "--all", "--check")),
    Suite("clippy", "cargo clippy, no warnings", "cargo", timeout_minutes=20, exclusive=True,
          arguments=("clippy", "--quiet", "--locked", "--workspace", "--all-targets", "--",
                     "-D", "warnings")),
    Suite("cargo", "cargo test", "cargo_test", timeout_minutes=25, exclusive=True,
          arguments=("test", "--locked", "--workspace", "--no-fail-fast")),
    _portable("portable", "LOOPBACK"),
    _portable("portable-none", "pre_optimize=none", "--variant=pre_optimize_none"),
    _portable("portable-unfused", "pre_optimize=all_except_fusion", "--variant=all_except_fusion"),
    _portable("portable-external", "EXTERNAL", "--environment=EXTERNAL"),
    _portable("portable-streaming", "--streaming", "--variant=streaming"),
    _portable("portable-two-workers", "sdk_worker_parallelism=2", "--variant=two_workers"),
    Suite("portable-reenabled", "the five tests of PortableRunnerTest that Beam skips", "pytest",
          arguments=("test_reenabled.py",)),
    Suite("validates-runner", "Beam's tests marked it_validatesrunner", "pytest_package",
          arguments=("-m", "it_validatesrunner", *VALIDATES_RUNNER)),
    Suite("xlang", "cross-language, Python to Python and to Java", "pytest",
          arguments=("test_cross_language.py", "--environment=EXTERNAL")),
    Suite("wordcount", "word count in each environment", "pytest",
          arguments=("test_wordcount.py",), serve=("--allow-environment", "process")),
    Suite("nexmark", "the queries of Nexmark: batch, scripted stream, Pub/Sub", "pytest",
          arguments=("test_nexmark.py", "../pubsub/nexmark_test.py")),
    Suite("size", "long pipelines, large elements", "pytest", arguments=("test_size.py",)),
    Suite("failures", "failing code, lost harnesses, cancelled jobs", "pytest",
          arguments=("test_failures.py", "test_cancel.py"),
          serve=("--allow-environment", "process")),
    Suite("state", "user state from bundle to bundle, and far larger than a page", "pytest",
          arguments=("test_state.py", "test_large_state.py")),
    Suite("memory", "jobs of more data than the server has memory", "pytest", exclusive=True,
          arguments=("test_larger_than_memory.py",), serve=("--memory-budget", "100MiB")),
    Suite("splits", "jobs that need their running bundles split", "pytest",
          arguments=("test_splits.py",)),
    Suite("drain", "drained jobs, and the jobs command", "pytest", arguments=("test_drain.py",)),
    Suite("metrics", "metrics of running bundles and of processes", "pytest",
          arguments=("test_metrics.py",)),
    Suite("bad-input", "wrong pipelines and garbage on the wire", "pytest",
          arguments=("test_bad_input.py", "test_bad_pipeline.py", "test_bad_artifacts.py")),
    Suite("unsupported", "each feature that is refused, refused clearly", "pytest",
          arguments=("test_unsupported.py",)),
    Suite("pubsub-clients", "the Pub/Sub emulator under Google's Python client", "pytest_package",
          arguments=("../pubsub/emulator_clients_test.py",)),
    Suite("pubsub-pipelines", "Python pipelines on Pub/Sub, over three servers", "pytest_package",
          arguments=("../pubsub/pipelines_test.py",)),
    Suite("java", "the Java SDK's ValidatesRunner", "java", timeout_minutes=45),
    Suite("go", "the Go SDK's integration tests", "go", arguments=GO_PACKAGES,
          timeout_minutes=20),
    Suite("go-xlang", "cross-language, Go to Python", "go_to_python", arguments=GO_XLANG_PACKAGES),
    Suite("go-xlang-java", "cross-language, Go to Java", "go_to_java", arguments=GO_XLANG_PACKAGES),
    Suite("go-transforms", "tests of the Go SDK's own transforms and examples", "go",
          arguments=(*GO_TRANSFORM_PACKAGES, *GO_EXAMPLE_PACKAGES), timeout_minutes=20),
    Suite("soak", "ten minutes of streaming at flat memory", "pytest", default=False,
          arguments=("test_soak.py",), timeout_minutes=20),
    Suite("transforms", "the package's 14 transform test modules", "pytest_package", default=False,
          arguments=TRANSFORM_MODULES, timeout_minutes=60),
)
