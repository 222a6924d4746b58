//! The eleven calls, with good and bad input.

use tidemill::proto::job_management::job_state::Enum as State;
use tidemill::proto::job_management::{
    CancelJobRequest, DescribePipelineOptionsRequest, DrainJobRequest, GetJobMetricsRequest,
    GetJobPipelineRequest, GetJobStateRequest, GetJobsRequest, JobMessagesRequest,
    PrepareJobRequest, job_message::MessageImportance, job_messages_response::Response as Event,
};
use tidemill::proto::pipeline::Pipeline;
use tidemill::telemetry::clock;
use tonic::Code;

use crate::fixture::{Fixture, soon};

async fn states(fixture: &mut Fixture, job: &str) -> Vec<State> {
    let request = GetJobStateRequest {
        job_id: job.to_owned(),
    };
    let mut stream = fixture
        .jobs
        .get_state_stream(request)
        .await
        .unwrap()
        .into_inner();
    let mut states = Vec::new();
    while let Some(event) = soon(stream.message()).await.unwrap() {
        assert!(event.timestamp.is_some());
        states.push(event.state());
    }
    states
}

/// The message stream to its end: states by name, messages with their importance.
async fn messages(fixture: &mut Fixture, job: &str) -> Vec<String> {
    let request = JobMessagesRequest {
        job_id: job.to_owned(),
    };
    let mut stream = fixture
        .jobs
        .get_message_stream(request)
        .await
        .unwrap()
        .into_inner();
    let mut lines = Vec::new();
    while let Some(event) = soon(stream.message()).await.unwrap() {
        lines.push(match event.response.unwrap() {
            Event::StateResponse(event) => event.state().as_str_name().to_owned(),
            Event::MessageResponse(message) => {
                assert!(message.time.ends_with('Z') && !message.message_id.is_empty());
                let importance = match message.importance() {
                    MessageImportance::JobMessageError => "error",
                    MessageImportance::JobMessageBasic => "basic",
                    other => other.as_str_name(),
                };
                format!("{importance}: {}", message.message_text)
            }
        });
    }
    lines
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_succeeds() {
    let mut fixture = Fixture::start().await;
    let job = fixture.run("Done, Émile's Job!").await;
    assert!(job.starts_with("done-mile-s-job-"), "{job}");
    let expected = [State::Stopped, State::Starting, State::Running, State::Done];
    // Replayed in full, as often as one asks.
    assert_eq!(states(&mut fixture, &job).await, expected);
    assert_eq!(states(&mut fixture, &job).await, expected);
    let expected = ["STOPPED", "STARTING", "basic: hello", "RUNNING", "DONE"];
    assert_eq!(messages(&mut fixture, &job).await, expected);

    let request = GetJobStateRequest {
        job_id: job.clone(),
    };
    let state = fixture.jobs.get_state(request).await.unwrap().into_inner();
    assert_eq!(state.state(), State::Done);
    let jobs = fixture.jobs.get_jobs(GetJobsRequest {}).await.unwrap();
    let jobs = jobs.into_inner().job_info;
    assert_eq!(jobs.len(), 1);
    assert_eq!(
        (jobs[0].job_id.as_str(), jobs[0].state()),
        (&*job, State::Done)
    );
    let request = GetJobPipelineRequest {
        job_id: job.clone(),
    };
    assert!(fixture.jobs.get_pipeline(request).await.is_ok());
    let request = GetJobMetricsRequest { job_id: job };
    assert!(fixture.jobs.get_job_metrics(request).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_may_end_while_java_asks_for_its_state() {
    let mut fixture = Fixture::start().await;
    let job_id = fixture.run("wait").await;
    let mut java = fixture.java().await;
    let request = GetJobStateRequest {
        job_id: job_id.clone(),
    };
    let asking = tokio::spawn(async move { java.get_state(request).await });
    let request = CancelJobRequest { job_id };
    fixture.jobs.cancel(request).await.unwrap();
    let state = soon(asking).await.unwrap().unwrap().into_inner();
    assert_eq!(state.state(), State::Cancelled);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_fails_says_why_before_it_says_so() {
    let mut fixture = Fixture::start().await;
    let job = fixture.run("fail").await;
    let lines = messages(&mut fixture, &job).await;
    let end = &lines[lines.len() - 2..];
    assert!(end[0].starts_with("error: step Boom: Traceback"), "{end:?}");
    assert_eq!(end[1], "FAILED");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_of_the_runner_fails_its_job_only() {
    let mut fixture = Fixture::start().await;
    for name in ["panic", "leave"] {
        let job = fixture.run(name).await;
        assert_eq!(states(&mut fixture, &job).await.pop(), Some(State::Failed));
        let lines = messages(&mut fixture, &job).await;
        assert!(lines.iter().any(|line| line.contains("fault of Tidemill")));
    }
    let job = fixture.run("done").await;
    assert_eq!(states(&mut fixture, &job).await.pop(), Some(State::Done));
}

#[tokio::test(flavor = "multi_thread")]
async fn preparation_ids_are_no_job_ids() {
    let mut fixture = Fixture::start().await;
    let prepared = fixture.prepare("done", Pipeline::default()).await;
    let id = prepared.preparation_id.clone();
    let mut job = String::new();
    for run in [false, true] {
        if run {
            job = fixture.run_prepared(&prepared).await.unwrap();
            assert_ne!(job, id);
        }
        let request = GetJobStateRequest { job_id: id.clone() };
        for status in [
            fixture.jobs.get_state(request.clone()).await.map(drop),
            fixture.jobs.get_state_stream(request).await.map(drop),
            fixture
                .jobs
                .get_message_stream(JobMessagesRequest { job_id: id.clone() })
                .await
                .map(drop),
        ] {
            let status = status.unwrap_err();
            assert_eq!(status.code(), Code::NotFound);
            assert!(status.message().contains("call Run"), "{status}");
        }
    }
    // A repeated Run, by a retry of the client, finds the same job.
    assert_eq!(fixture.run_prepared(&prepared).await.unwrap(), job);
    let jobs = fixture.jobs.get_jobs(GetJobsRequest {}).await.unwrap();
    assert_eq!(jobs.into_inner().job_info.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_in_any_state() {
    let mut fixture = Fixture::start().await;
    for name in ["wait", "stubborn", "done"] {
        let job = fixture.run(name).await;
        let begin = clock::instant();
        for _ in 0..2 {
            let request = CancelJobRequest {
                job_id: job.clone(),
            };
            fixture.jobs.cancel(request).await.unwrap();
        }
        let expected = if name == "done" {
            State::Done
        } else {
            State::Cancelled
        };
        assert_eq!(states(&mut fixture, &job).await.pop(), Some(expected));
        assert!(begin.elapsed().as_secs_f64() < 5.0, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_job_ends_as_done() {
    let mut fixture = Fixture::start().await;
    let job = fixture.run("drain").await;
    for _ in 0..2 {
        let job_id = job.clone();
        fixture
            .jobs
            .drain(DrainJobRequest { job_id })
            .await
            .unwrap();
    }
    let states = states(&mut fixture, &job).await;
    assert!(
        states.ends_with(&[State::Draining, State::Done]),
        "{states:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_cannot_drain_yet_says_so_by_its_state() {
    let mut fixture = Fixture::start().await;
    let job_id = fixture.run("stubborn").await;
    let answer = fixture
        .jobs
        .drain(DrainJobRequest { job_id })
        .await
        .unwrap();
    assert_eq!(answer.into_inner().state(), State::Running);
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_is_answered_and_survived() {
    let mut fixture = Fixture::start().await;
    let unknown = || "no such job".to_owned();
    let jobs = &mut fixture.jobs;
    let state = GetJobStateRequest { job_id: unknown() };
    for status in [
        jobs.get_state(state.clone()).await.map(drop),
        jobs.get_state_stream(state).await.map(drop),
        jobs.get_message_stream(JobMessagesRequest { job_id: unknown() })
            .await
            .map(drop),
        jobs.get_pipeline(GetJobPipelineRequest { job_id: unknown() })
            .await
            .map(drop),
        jobs.get_job_metrics(GetJobMetricsRequest { job_id: unknown() })
            .await
            .map(drop),
        jobs.cancel(CancelJobRequest { job_id: unknown() })
            .await
            .map(drop),
        jobs.drain(DrainJobRequest { job_id: unknown() })
            .await
            .map(drop),
    ] {
        let status = status.unwrap_err();
        assert_eq!(status.code(), Code::NotFound);
        assert!(status.message().contains("GetJobs"), "{status}");
    }
    let empty = PrepareJobRequest::default();
    let status = jobs.prepare(empty).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    for (requirement, code) in [
        ("bad", Code::InvalidArgument),
        ("unsupported", Code::Unimplemented),
        ("panic", Code::Internal),
    ] {
        let request = PrepareJobRequest {
            pipeline: Some(Pipeline {
                requirements: vec![requirement.to_owned()],
                ..Pipeline::default()
            }),
            ..PrepareJobRequest::default()
        };
        assert_eq!(jobs.prepare(request).await.unwrap_err().code(), code);
    }
    let job = fixture.run("done").await;
    assert_eq!(states(&mut fixture, &job).await.pop(), Some(State::Done));
}

#[tokio::test(flavor = "multi_thread")]
async fn options_are_described_and_checked() {
    let mut fixture = Fixture::start().await;
    let described = fixture
        .jobs
        .describe_pipeline_options(DescribePipelineOptionsRequest {})
        .await
        .unwrap()
        .into_inner();
    let names: Vec<_> = described.options.iter().map(|o| o.name.as_str()).collect();
    assert!(names.contains(&"num_pubsub_keys"), "{names:?}");
    let mut options = prost_types::Struct::default();
    options.fields.insert(
        "beam:option:num_pubsub_keys:v1".to_owned(),
        prost_types::Value {
            kind: Some(prost_types::value::Kind::StringValue("many".to_owned())),
        },
    );
    let request = PrepareJobRequest {
        pipeline: Some(Pipeline::default()),
        pipeline_options: Some(options),
        job_name: String::new(),
    };
    let status = fixture.jobs.prepare(request).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("num_pubsub_keys is \"many\""));
}

#[tokio::test(flavor = "multi_thread")]
async fn large_pipelines_come_and_go() {
    let mut fixture = Fixture::start().await;
    let pipeline = Pipeline {
        root_transform_ids: vec!["x".repeat(1 << 20); 40],
        ..Pipeline::default()
    };
    let prepared = fixture.prepare("done", pipeline.clone()).await;
    let job_id = fixture.run_prepared(&prepared).await.unwrap();
    let request = GetJobPipelineRequest { job_id };
    let answer = fixture.jobs.get_pipeline(request).await.unwrap();
    assert_eq!(answer.into_inner().pipeline, Some(pipeline));
}

#[tokio::test(flavor = "multi_thread")]
async fn shutting_down_ends_jobs_and_streams() {
    let mut fixture = Fixture::start().await;
    let job = fixture.run("stubborn").await;
    let request = GetJobStateRequest {
        job_id: job.clone(),
    };
    let stream = fixture.jobs.get_state_stream(request).await.unwrap();
    let mut stream = stream.into_inner();
    let reader = tokio::spawn(async move {
        let mut last = None;
        while let Ok(Some(event)) = stream.message().await {
            last = Some(event.state());
        }
        last
    });
    let begin = clock::instant();
    fixture.server.shut_down().await;
    assert!(begin.elapsed().as_secs_f64() < 5.0);
    assert_eq!(soon(reader).await.unwrap(), Some(State::Cancelled));
}
