//! The eleven calls.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tonic::{Extensions, Request, Response, Status, metadata::MetadataMap};

use crate::artifact::{Repository, Sessions, Staged};
use crate::job::Settings as JobSettings;
use crate::job::messages::Importance;
use crate::job::record::JobRecord;
use crate::job::registry::{Prepared, Registry};
use crate::job_api::status::Error;
use crate::job_api::streams::Answers;
use crate::job_api::{ClientAuthority, Supervisor, describe, streams, wire};
use crate::model::JobState;
use crate::proto::job_management::job_service_server::{JobService, JobServiceServer};
use crate::proto::job_management::{
    CancelJobRequest, CancelJobResponse, DescribePipelineOptionsRequest,
    DescribePipelineOptionsResponse, DrainJobRequest, DrainJobResponse, GetJobMetricsRequest,
    GetJobMetricsResponse, GetJobPipelineRequest, GetJobPipelineResponse, GetJobStateRequest,
    GetJobsRequest, GetJobsResponse, JobMessagesRequest, JobMessagesResponse, JobStateEvent,
    MetricResults, PrepareJobRequest, PrepareJobResponse, RunJobRequest, RunJobResponse,
};
use crate::proto::pipeline::{ApiServiceDescriptor, Pipeline};

/// Settings of the Job API.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Where clients stage artifacts, `host:port`. `None`: at the address under which the client
    /// reached the Job API itself.
    pub staging_endpoint: Option<String>,
}

/// The Job API.
#[derive(Clone)]
pub struct JobApi {
    settings: Settings,
    registry: Arc<Registry>,
    sessions: Arc<Sessions>,
    repository: Repository,
    supervisor: Supervisor,
}

impl JobApi {
    /// How long Cancel waits for the job to have ended; afterwards it answers CANCELLING.
    const CANCEL_WAIT: Duration = Duration::from_secs(1);

    /// How long Drain waits for the drain to have begun.
    const DRAIN_WAIT: Duration = Duration::from_secs(1);

    /// The Job API over the jobs of a supervisor's registry.
    pub fn new(
        settings: Settings,
        registry: Arc<Registry>,
        sessions: Arc<Sessions>,
        repository: Repository,
        supervisor: Supervisor,
    ) -> Self {
        Self {
            settings,
            registry,
            sessions,
            repository,
            supervisor,
        }
    }

    /// As a gRPC service without limits on the size of messages: pipelines are large.
    pub fn into_service(self) -> JobServiceServer<Self> {
        JobServiceServer::new(self)
            .max_decoding_message_size(usize::MAX)
            .max_encoding_message_size(usize::MAX)
    }

    fn job(&self, id: &str) -> Result<Arc<JobRecord>, Error> {
        self.registry
            .job(id)
            .ok_or_else(|| Error::no_job(&self.registry, id))
    }

    /// Checks a pipeline on a thread of its own; a large one takes a while.
    async fn check(&self, pipeline: Pipeline, settings: &JobSettings) -> Result<Pipeline, Error> {
        let runner = self.supervisor.runner();
        let settings = settings.clone();
        tokio::task::spawn_blocking(move || {
            runner.check(&pipeline, &settings)?;
            Ok(pipeline)
        })
        .await
        .map_err(|error| Error::CheckPanicked(error.to_string()))?
    }

    fn staging_endpoint(&self, extensions: &Extensions) -> String {
        match (&self.settings.staging_endpoint, extensions.get()) {
            (Some(endpoint), _) => endpoint.clone(),
            (None, Some(ClientAuthority(authority))) => authority.clone(),
            (None, None) => String::new(),
        }
    }

    /// Puts the environments with what was staged for them into the pipeline.
    fn take_staged(&self, prepared: &mut Prepared) -> Result<Unstaged, Error> {
        let Some(components) = prepared.pipeline.components.as_mut() else {
            return Ok(Unstaged::default());
        };
        match self.sessions.staged(&prepared.staging_token) {
            Staged::Complete(environments) => components.environments = environments,
            Staged::Failed(reason) => return Err(Error::NotStaged(reason)),
            Staged::Never => {
                let mut unstaged = Unstaged::default();
                for (id, environment) in &mut components.environments {
                    let left_out = environment.dependencies.len();
                    if left_out > 0 {
                        environment.dependencies.clear();
                        unstaged.insert(id.clone(), left_out);
                    }
                }
                return Ok(unstaged);
            }
        }
        Ok(Unstaged::default())
    }
}

/// How many dependencies of each environment nobody staged.
type Unstaged = BTreeMap<String, usize>;

#[tonic::async_trait]
impl JobService for JobApi {
    type GetStateStreamStream = Answers<JobStateEvent>;
    type GetMessageStreamStream = Answers<JobMessagesResponse>;

    async fn prepare(
        &self,
        request: Request<PrepareJobRequest>,
    ) -> Result<Response<PrepareJobResponse>, Status> {
        if self.supervisor.is_stopping() {
            return Err(Error::ShuttingDown.into());
        }
        let endpoint = self.staging_endpoint(request.extensions());
        let request = request.into_inner();
        let pipeline = request.pipeline.ok_or(Error::NoPipeline)?;
        let options = request.pipeline_options.unwrap_or_default();
        let settings = JobSettings::read(&options).map_err(Error::from)?;
        let pipeline = self.check(pipeline, &settings).await?;
        let environments = pipeline
            .components
            .as_ref()
            .map(|components| components.environments.clone())
            .unwrap_or_default();
        // Python's client calls every job "job"; the user's name is among the options.
        let name = settings.job_name.clone().unwrap_or(request.job_name);
        let (ticket, expired) = self
            .registry
            .prepare(&name, pipeline, options, settings)
            .map_err(Error::from)?;
        for token in expired {
            if let Some(job) = self.sessions.close(&token) {
                self.repository.forget(&job);
            }
        }
        self.sessions
            .open(&ticket.staging_token, &ticket.job_id, environments);
        Ok(Response::new(PrepareJobResponse {
            preparation_id: ticket.preparation_id,
            artifact_staging_endpoint: Some(ApiServiceDescriptor {
                url: endpoint,
                ..ApiServiceDescriptor::default()
            }),
            staging_session_token: ticket.staging_token,
        }))
    }

    async fn run(
        &self,
        request: Request<RunJobRequest>,
    ) -> Result<Response<RunJobResponse>, Status> {
        if self.supervisor.is_stopping() {
            return Err(Error::ShuttingDown.into());
        }
        let preparation_id = request.into_inner().preparation_id;
        let mut unstaged = Unstaged::default();
        let mut token = String::new();
        let (job, is_new) = self.registry.run(&preparation_id, |prepared| {
            token.clone_from(&prepared.staging_token);
            unstaged = self.take_staged(prepared)?;
            Ok::<_, Error>(())
        })?;
        if is_new {
            self.sessions.close(&token);
            for (environment, count) in unstaged {
                job.message(
                    Importance::Warning,
                    format!(
                        "environment {environment}: its {count} artifacts were not staged, so \
                         its SDK harness will not have them"
                    ),
                );
            }
            self.supervisor.start(&job);
        }
        job.wait_for_state(|state| !matches!(state, JobState::Stopped | JobState::Starting))
            .await;
        Ok(Response::new(RunJobResponse {
            job_id: job.id().to_owned(),
        }))
    }

    async fn get_jobs(
        &self,
        _request: Request<GetJobsRequest>,
    ) -> Result<Response<GetJobsResponse>, Status> {
        let jobs = self.registry.jobs();
        Ok(Response::new(GetJobsResponse {
            job_info: jobs.iter().map(|job| wire::job_info(job)).collect(),
        }))
    }

    async fn get_state(
        &self,
        request: Request<GetJobStateRequest>,
    ) -> Result<Response<JobStateEvent>, Status> {
        let job = self.job(&request.get_ref().job_id)?;
        if is_java(request.metadata()) {
            // It asks again only after three seconds, whatever happens: a short job ends while it asks.
            let ended = job.wait_for_state(JobState::is_terminal);
            let patience = java_patience(request.metadata());
            let _ = tokio::time::timeout(patience, ended).await;
        }
        let (state, time) = job.state_and_time();
        Ok(Response::new(wire::state_event(state, time)))
    }

    async fn get_pipeline(
        &self,
        request: Request<GetJobPipelineRequest>,
    ) -> Result<Response<GetJobPipelineResponse>, Status> {
        let job = self.job(&request.get_ref().job_id)?;
        Ok(Response::new(GetJobPipelineResponse {
            pipeline: Some(job.pipeline().clone()),
        }))
    }

    async fn cancel(
        &self,
        request: Request<CancelJobRequest>,
    ) -> Result<Response<CancelJobResponse>, Status> {
        let job = self.job(&request.get_ref().job_id)?;
        if !job.state().is_terminal() {
            job.message(Importance::Basic, "the job is cancelled by a client");
            Supervisor::cancel(&job);
            let ended = job.wait_for_state(JobState::is_terminal);
            // Not in time: then it is CANCELLING still.
            let _ = tokio::time::timeout(Self::CANCEL_WAIT, ended).await;
        }
        Ok(Response::new(CancelJobResponse {
            state: wire::state(job.state()).into(),
        }))
    }

    async fn drain(
        &self,
        request: Request<DrainJobRequest>,
    ) -> Result<Response<DrainJobResponse>, Status> {
        let job = self.job(&request.get_ref().job_id)?;
        if !job.state().is_terminal() {
            job.message(Importance::Basic, "the job is drained by a client");
            job.request_drain();
            let begun = job.wait_for_state(|state| state == JobState::Draining);
            // Not in time: then its harnesses are still being started.
            let _ = tokio::time::timeout(Self::DRAIN_WAIT, begun).await;
        }
        Ok(Response::new(DrainJobResponse {
            state: wire::state(job.state()).into(),
        }))
    }

    async fn get_state_stream(
        &self,
        request: Request<GetJobStateRequest>,
    ) -> Result<Response<Self::GetStateStreamStream>, Status> {
        let job = self.job(&request.get_ref().job_id)?;
        Ok(Response::new(streams::states(&job)))
    }

    async fn get_message_stream(
        &self,
        request: Request<JobMessagesRequest>,
    ) -> Result<Response<Self::GetMessageStreamStream>, Status> {
        let job = self.job(&request.get_ref().job_id)?;
        Ok(Response::new(streams::messages(&job)))
    }

    async fn get_job_metrics(
        &self,
        request: Request<GetJobMetricsRequest>,
    ) -> Result<Response<GetJobMetricsResponse>, Status> {
        let job = self.job(&request.get_ref().job_id)?;
        let metrics = job.metrics();
        // Java's client puts both lists into one table, where what stands in both would count twice.
        let committed = if is_java(request.metadata()) {
            Vec::new()
        } else {
            metrics.committed()
        };
        Ok(Response::new(GetJobMetricsResponse {
            metrics: Some(MetricResults {
                attempted: metrics.attempted(),
                committed,
            }),
        }))
    }

    async fn describe_pipeline_options(
        &self,
        _request: Request<DescribePipelineOptionsRequest>,
    ) -> Result<Response<DescribePipelineOptionsResponse>, Status> {
        Ok(Response::new(DescribePipelineOptionsResponse {
            options: describe::options(),
        }))
    }
}

/// How long Java's client is kept waiting for a job's end when it asks for the state.
fn java_patience(metadata: &MetadataMap) -> Duration {
    const MOST: Duration = Duration::from_secs(10);
    let timeout = metadata.get("grpc-timeout");
    let deadline = timeout.and_then(|text| read_timeout(text.to_str().ok()?));
    deadline.map_or(MOST, |deadline| MOST.min(deadline / 2))
}

/// A timeout as gRPC writes it: at most eight digits and a unit.
fn read_timeout(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let number: u32 = number.parse().ok()?;
    let unit = match unit {
        "H" => Duration::from_hours(1),
        "M" => Duration::from_mins(1),
        "S" => Duration::from_secs(1),
        "m" => Duration::from_millis(1),
        "u" => Duration::from_micros(1),
        "n" => Duration::from_nanos(1),
        _ => return None,
    };
    unit.checked_mul(number)
}

/// Whether Java's client asks.
fn is_java(metadata: &MetadataMap) -> bool {
    metadata
        .get("user-agent")
        .and_then(|agent| agent.to_str().ok())
        .is_some_and(|agent| agent.contains("grpc-java"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn java_waits_for_half_of_its_deadline_at_most() {
        let patience = |timeout: &str| {
            let mut metadata = MetadataMap::new();
            metadata.insert("grpc-timeout", timeout.parse().expect("it is ASCII"));
            java_patience(&metadata)
        };
        assert_eq!(patience("59999800u"), Duration::from_secs(10));
        assert_eq!(patience("6S"), Duration::from_secs(3));
        assert_eq!(patience("99999999H"), Duration::from_secs(10));
        for unreadable in ["", "S", "6", "x6S", "6x"] {
            assert_eq!(patience(unreadable), Duration::from_secs(10));
        }
    }
}
