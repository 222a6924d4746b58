//! A server with a runner that does what the job's name says.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tidemill::cli::server::Server;
use tidemill::config::{Given, ServeArgs};
use tidemill::job::runner::{BoxFuture, PrepareError, Runner};
use tidemill::job::{Importance, JobRecord, Settings};
use tidemill::model::JobState;
use tidemill::proto::job_management::artifact_retrieval_service_client::ArtifactRetrievalServiceClient;
use tidemill::proto::job_management::artifact_staging_service_client::ArtifactStagingServiceClient;
use tidemill::proto::job_management::job_service_client::JobServiceClient;
use tidemill::proto::job_management::{PrepareJobRequest, PrepareJobResponse, RunJobRequest};
use tidemill::proto::pipeline::{Environment, Pipeline};
use tonic::transport::Channel;

/// Ends a job as the first word of its name says: `done`, `fail`, `panic`, `leave` (no terminal
/// state), `wait` (until cancelled), `drain` (until drained), `stubborn` (deaf to both).
pub struct Stub;

impl Runner for Stub {
    fn check(&self, pipeline: &Pipeline, _settings: &Settings) -> Result<(), PrepareError> {
        match pipeline.requirements.first().map(String::as_str) {
            None => Ok(()),
            Some("panic") => panic!("a fault in check"),
            Some("unsupported") => Err(PrepareError::Unsupported("no such thing".to_owned())),
            Some(other) if other.starts_with("beam:requirement:") => Ok(()),
            Some(other) => Err(PrepareError::Invalid(format!("requirement {other}?"))),
        }
    }

    fn run(&self, job: Arc<JobRecord>) -> BoxFuture {
        Box::pin(async move {
            job.message(Importance::Basic, "hello");
            let mut cancel = job.cancel_requested();
            job.set_state(JobState::Running);
            match job.name().split('-').next() {
                Some("fail") => {
                    job.message(Importance::Error, "an earlier error");
                    job.fail("step Boom: Traceback (most recent call last): ValueError: boom");
                }
                Some("panic") => panic!("a fault in run"),
                Some("leave") => {}
                Some("wait") => {
                    let _ = cancel.wait_for(|asked| *asked).await;
                }
                Some("drain") => {
                    let mut drain = job.drain_requested();
                    let _ = drain.wait_for(|asked| *asked).await;
                    job.set_state(JobState::Draining);
                    job.set_state(JobState::Done);
                }
                Some("stubborn") => std::future::pending::<()>().await,
                _ => {
                    job.set_state(JobState::Done);
                }
            }
        })
    }
}

/// A running server and what its clients need.
pub struct Fixture {
    pub server: Server,
    pub folder: tempfile::TempDir,
    pub jobs: JobServiceClient<Channel>,
    pub staging: ArtifactStagingServiceClient<Channel>,
    pub retrieval: ArtifactRetrievalServiceClient<Channel>,
}

impl Fixture {
    pub async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let args = ServeArgs {
            config: None,
            given: Given {
                port: Some(0),
                artifact_port: Some(0),
                data_dir: Some(PathBuf::from(folder.path())),
                ..Given::default()
            },
        };
        let server = Server::start(args.settings().unwrap(), |_| Arc::new(Stub))
            .await
            .unwrap();
        let channel = Channel::from_shared(format!("http://{}", server.endpoint()))
            .unwrap()
            .connect()
            .await
            .unwrap();
        let artifacts = Channel::from_shared(format!("http://{}", server.artifact_address()))
            .unwrap()
            .connect()
            .await
            .unwrap();
        Self {
            server,
            folder,
            jobs: JobServiceClient::new(channel.clone()).max_decoding_message_size(usize::MAX),
            staging: ArtifactStagingServiceClient::new(channel),
            retrieval: ArtifactRetrievalServiceClient::new(artifacts),
        }
    }

    pub async fn prepare(&mut self, name: &str, pipeline: Pipeline) -> PrepareJobResponse {
        let request = PrepareJobRequest {
            pipeline: Some(pipeline),
            pipeline_options: None,
            job_name: name.to_owned(),
        };
        self.jobs.prepare(request).await.unwrap().into_inner()
    }

    /// A client that says it is Java's.
    pub async fn java(&self) -> JobServiceClient<Channel> {
        let endpoint = Channel::from_shared(format!("http://{}", self.server.endpoint())).unwrap();
        let endpoint = endpoint.user_agent("grpc-java-netty/1.69.0").unwrap();
        JobServiceClient::new(endpoint.connect().await.unwrap())
    }

    /// Prepares and runs a job without artifacts; returns its id.
    pub async fn run(&mut self, name: &str) -> String {
        let prepared = self.prepare(name, Pipeline::default()).await;
        self.run_prepared(&prepared).await.unwrap()
    }

    pub async fn run_prepared(
        &mut self,
        prepared: &PrepareJobResponse,
    ) -> Result<String, tonic::Status> {
        let request = RunJobRequest {
            preparation_id: prepared.preparation_id.clone(),
            retrieval_token: String::new(),
        };
        Ok(self.jobs.run(request).await?.into_inner().job_id)
    }
}

/// A pipeline with these environments and nothing else.
pub fn pipeline(environments: Vec<(&str, Environment)>) -> Pipeline {
    let mut pipeline = Pipeline::default();
    let components = pipeline.components.get_or_insert_default();
    for (id, environment) in environments {
        components.environments.insert(id.to_owned(), environment);
    }
    pipeline
}

/// Fails a test that waits for something that does not come.
pub async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future)
        .await
        .expect("it takes too long")
}
