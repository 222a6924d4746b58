//! `tidemill jobs`: shows, drains and cancels the jobs of a running server, over its Job API.

use std::fmt::Write as _;
use std::time::Duration;

use clap::{Args, Subcommand};
use tonic::transport::{Channel, Endpoint};

use crate::proto::job_management::job_messages_response::Response as Told;
use crate::proto::job_management::job_service_client::JobServiceClient;
use crate::proto::job_management::job_state::Enum as State;
use crate::proto::job_management::{
    CancelJobRequest, DrainJobRequest, GetJobStateRequest, GetJobsRequest, JobInfo, JobMessage,
    JobMessagesRequest,
};

/// Show and end the jobs of a running server.
#[derive(Args, Clone, Debug)]
pub struct JobsArgs {
    /// The server's Job API.
    #[arg(
        long,
        global = true,
        default_value = "localhost:8099",
        env = "TIDEMILL_ENDPOINT"
    )]
    endpoint: String,
    #[command(subcommand)]
    action: Action,
}

#[derive(Clone, Debug, Subcommand)]
enum Action {
    /// List every job that the server remembers: id, state, name.
    List,
    /// Show a job's states and messages so far.
    Describe { id: String },
    /// Stop reading, finish what was read, close the windows, and end as DONE.
    Drain(Chosen),
    /// Stop at once.
    Cancel(Chosen),
}

#[derive(Args, Clone, Debug)]
#[group(required = true, multiple = false)]
struct Chosen {
    /// The jobs' ids.
    ids: Vec<String>,
    /// Every job that has not ended.
    #[arg(long)]
    all: bool,
}

/// Why a command did not do what it should.
#[derive(Debug, thiserror::Error)]
pub enum JobsError {
    #[error("{0:?} is no address: write HOST:PORT")]
    Address(String),
    #[error("no server answers at {endpoint}: {source}")]
    Connect {
        endpoint: String,
        source: tonic::transport::Error,
    },
    #[error("{what}: {}", status.message())]
    Refused { what: String, status: tonic::Status },
    #[error("{0} of the jobs could not be told")]
    Some(usize),
}

/// Does what the arguments say; results go to stdout.
///
/// # Errors
///
/// When the server cannot be reached or refuses; with several jobs, after all of them were tried.
pub async fn run(args: JobsArgs) -> Result<(), JobsError> {
    let mut jobs = connect(&args.endpoint).await?;
    match args.action {
        Action::List => {
            print!("{}", table(&list(&mut jobs).await?));
            Ok(())
        }
        Action::Describe { id } => describe(&mut jobs, &id).await,
        Action::Drain(chosen) => tell(&mut jobs, chosen, Wish::Drain).await,
        Action::Cancel(chosen) => tell(&mut jobs, chosen, Wish::Cancel).await,
    }
}

type Client = JobServiceClient<Channel>;

async fn connect(endpoint: &str) -> Result<Client, JobsError> {
    const PATIENCE: Duration = Duration::from_secs(10);
    let address = Endpoint::from_shared(format!("http://{endpoint}"))
        .map_err(|_| JobsError::Address(endpoint.to_owned()))?;
    let channel = address.connect_timeout(PATIENCE).connect().await;
    let channel = channel.map_err(|source| JobsError::Connect {
        endpoint: endpoint.to_owned(),
        source,
    })?;
    Ok(JobServiceClient::new(channel).max_decoding_message_size(usize::MAX))
}

async fn list(jobs: &mut Client) -> Result<Vec<JobInfo>, JobsError> {
    let answer = jobs.get_jobs(GetJobsRequest {}).await;
    let answer = answer.map_err(|status| refused("list the jobs", status))?;
    Ok(answer.into_inner().job_info)
}

fn table(jobs: &[JobInfo]) -> String {
    let width = jobs.iter().map(|job| job.job_id.len()).max().unwrap_or(0);
    let mut table = String::new();
    for job in jobs {
        let (id, name, state) = (&job.job_id, &job.job_name, job.state().as_str_name());
        let _ = writeln!(table, "{id:width$}  {state:10}  {name}");
    }
    table
}

/// Prints the history of a job; of one that runs, what there is by now.
async fn describe(jobs: &mut Client, id: &str) -> Result<(), JobsError> {
    /// A job that runs says nothing more for so long: that is all of it.
    const SILENCE: Duration = Duration::from_millis(300);
    let state = state(jobs, id).await?;
    println!("{id} is {}", state.as_str_name());
    let request = JobMessagesRequest {
        job_id: id.to_owned(),
    };
    let stream = jobs.get_message_stream(request).await;
    let mut stream = stream
        .map_err(|status| refused("read the job's messages", status))?
        .into_inner();
    while let Ok(told) = tokio::time::timeout(SILENCE, stream.message()).await {
        match told.map_err(|status| refused("read the job's messages", status))? {
            Some(told) => println!("{}", line(&told.response)),
            None => break,
        }
    }
    Ok(())
}

fn line(told: &Option<Told>) -> String {
    match told {
        Some(Told::MessageResponse(JobMessage {
            time, message_text, ..
        })) => format!("{time}  {}", message_text.trim_end()),
        Some(Told::StateResponse(event)) => {
            let at = event.timestamp.map(|at| at.to_string());
            format!(
                "{}  {}",
                at.unwrap_or_default(),
                event.state().as_str_name()
            )
        }
        None => String::new(),
    }
}

async fn state(jobs: &mut Client, id: &str) -> Result<State, JobsError> {
    let request = GetJobStateRequest {
        job_id: id.to_owned(),
    };
    let answer = jobs.get_state(request).await;
    let answer = answer.map_err(|status| refused("find the job", status))?;
    Ok(answer.into_inner().state())
}

#[derive(Clone, Copy, Debug)]
enum Wish {
    Drain,
    Cancel,
}

async fn tell(jobs: &mut Client, chosen: Chosen, wish: Wish) -> Result<(), JobsError> {
    let ids = if chosen.all {
        let all = list(jobs).await?;
        let running = all.into_iter().filter(|job| !has_ended(job.state()));
        running.map(|job| job.job_id).collect()
    } else {
        chosen.ids
    };
    let mut refused = 0;
    for job_id in ids {
        let id = job_id.clone();
        let answer = match wish {
            Wish::Drain => {
                let answer = jobs.drain(DrainJobRequest { job_id }).await;
                answer.map(|answer| answer.into_inner().state())
            }
            Wish::Cancel => {
                let answer = jobs.cancel(CancelJobRequest { job_id }).await;
                answer.map(|answer| answer.into_inner().state())
            }
        };
        match answer {
            Ok(state) => println!("{id}  {}", state.as_str_name()),
            Err(status) => {
                eprintln!("tidemill: {id}: {}", status.message());
                refused += 1;
            }
        }
    }
    if refused > 0 {
        return Err(JobsError::Some(refused));
    }
    Ok(())
}

fn has_ended(state: State) -> bool {
    matches!(
        state,
        State::Done | State::Failed | State::Cancelled | State::Updated | State::Drained
    )
}

fn refused(what: &str, status: tonic::Status) -> JobsError {
    JobsError::Refused {
        what: what.to_owned(),
        status,
    }
}
