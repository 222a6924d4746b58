//! The same as Python's own client sees it: real pipelines, submitted to the stub.
//!
//! Needs an interpreter with apache-beam: TIDEMILL_PYTHON names it. Without one there is nothing to
//! see, and the test says so.

use std::process::Stdio;

use crate::fixture::Fixture;

/// Runs a pipeline and prints how it ended.
const SUBMIT: &str = r#"
import sys, time
import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
endpoint, name = sys.argv[1:]
options = PipelineOptions([
    "--runner=PortableRunner", "--job_endpoint=" + endpoint, "--environment_type=LOOPBACK",
    "--job_name=" + name, "--experiments=disable_logging_submission_environment",
    "--num_pubsub_keys=100"])
pipeline = beam.Pipeline(options=options)
pipeline | beam.Create([1, 2]) | beam.Map(print)
result = pipeline.run()
begin = time.time()
try:
    print("state", result.wait_until_finish())
except Exception as error:
    print("error", error)
print("seconds", time.time() - begin)
print("metrics", result.metrics().query())
"#;

/// What the client printed.
async fn submit(python: &str, fixture: &Fixture, name: &str) -> String {
    let output = tokio::process::Command::new(python)
        .args(["-c", SUBMIT, &fixture.server.endpoint(), name])
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let talk = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{talk}");
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_returns_promptly_with_the_reason() {
    let Ok(python) = std::env::var("TIDEMILL_PYTHON") else {
        eprintln!("left out: TIDEMILL_PYTHON names no interpreter with apache-beam");
        return;
    };
    let fixture = Fixture::start().await;
    let done = submit(&python, &fixture, "done-job").await;
    assert!(done.contains("state DONE"), "{done}");
    let failed = submit(&python, &fixture, "fail-job").await;
    assert!(
        failed.contains("FAILED") && failed.contains("ValueError: boom"),
        "{failed}"
    );
    for text in [&done, &failed] {
        let seconds = text
            .lines()
            .find_map(|line| line.strip_prefix("seconds "))
            .and_then(|seconds| seconds.parse::<f64>().ok())
            .unwrap();
        // A stream that did not end would cost ten.
        assert!(seconds < 5.0, "{text}");
    }
    let jobs = fixture.server.registry().jobs();
    assert_eq!(jobs.len(), 2);
    assert_eq!(jobs[0].name(), "done-job");
    assert_eq!(jobs[0].settings().num_pubsub_keys, Some(128));
    let environments = &jobs[0].pipeline().components.as_ref().unwrap().environments;
    assert!(!environments.is_empty());
}
