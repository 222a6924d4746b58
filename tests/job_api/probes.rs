//! What people and machines probe a server with: health, reflection, garbage.

use bytes::{Buf, BufMut};
use tidemill::proto::job_management::GetJobsRequest;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Request, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use crate::fixture::{Fixture, soon};

const PACKAGE: &str = "org.apache.beam.model.job_management.v1";

async fn channel(fixture: &Fixture) -> tonic::transport::Channel {
    let endpoint = format!("http://{}", fixture.server.endpoint());
    let endpoint = tonic::transport::Channel::from_shared(endpoint).unwrap();
    endpoint.connect().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn health() {
    let fixture = Fixture::start().await;
    let mut health = HealthClient::new(channel(&fixture).await);
    for service in [String::new(), format!("{PACKAGE}.JobService")] {
        let request = HealthCheckRequest { service };
        let answer = health.check(request).await.unwrap().into_inner();
        assert_eq!(answer.status(), ServingStatus::Serving);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reflection() {
    let fixture = Fixture::start().await;
    let mut reflection = ServerReflectionClient::new(channel(&fixture).await);
    let ask = |message| ServerReflectionRequest {
        host: String::new(),
        message_request: Some(message),
    };
    let requests = tokio_stream::iter([
        ask(MessageRequest::ListServices(String::new())),
        ask(MessageRequest::FileContainingSymbol(format!(
            "{PACKAGE}.JobService"
        ))),
    ]);
    let answers = reflection.server_reflection_info(requests).await.unwrap();
    let mut answers = answers.into_inner();
    let mut next = async || {
        let answer = soon(answers.message()).await.unwrap().unwrap();
        answer.message_response.unwrap()
    };
    let MessageResponse::ListServicesResponse(services) = next().await else {
        panic!("services were asked for");
    };
    let services: Vec<_> = services.service.into_iter().map(|s| s.name).collect();
    assert!(services.contains(&format!("{PACKAGE}.JobService")));
    let MessageResponse::FileDescriptorResponse(files) = next().await else {
        panic!("a file was asked for");
    };
    assert!(!files.file_descriptor_proto.is_empty());
}

/// Sends and receives bytes as they are.
#[derive(Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining()).to_vec()))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_on_each_call_is_an_error_and_nothing_more() {
    let mut fixture = Fixture::start().await;
    let mut client = tonic::client::Grpc::new(channel(&fixture).await);
    let job_calls = [
        "Prepare",
        "Run",
        "GetJobs",
        "GetState",
        "GetPipeline",
        "Cancel",
        "Drain",
        "GetStateStream",
        "GetMessageStream",
        "GetJobMetrics",
        "DescribePipelineOptions",
    ]
    .map(|call| format!("JobService/{call}"));
    let artifact_calls = [
        "ArtifactStagingService/ReverseArtifactRetrievalService",
        "ArtifactRetrievalService/ResolveArtifacts",
        "ArtifactRetrievalService/GetArtifact",
    ]
    .map(str::to_owned);
    for call in job_calls.into_iter().chain(artifact_calls) {
        for garbage in [&b"\xff\xff\xff\xff"[..], b"\x0a\x7f", b"\x0a\x02\xff\xfe"] {
            let path = format!("/{PACKAGE}.{call}").parse().unwrap();
            client.ready().await.unwrap();
            let request = Request::new(garbage.to_vec());
            let answer = client.server_streaming(request, path, Raw).await;
            let result = match answer {
                Err(status) => Err(status),
                Ok(answer) => soon(answer.into_inner().message()).await,
            };
            // Calls without arguments skip fields that they do not know.
            let may_pass = garbage == b"\x0a\x02\xff\xfe"
                && ["GetJobs", "DescribePipelineOptions"]
                    .iter()
                    .any(|name| call.ends_with(name));
            assert!(result.is_err() || may_pass, "{call} took {garbage:?}");
        }
    }
    assert!(fixture.jobs.get_jobs(GetJobsRequest {}).await.is_ok());
}
