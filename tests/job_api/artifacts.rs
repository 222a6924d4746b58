//! Staging by a client and retrieval by a harness.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message;
use tidemill::proto::job_management::artifact_request_wrapper::Request as Wanted;
use tidemill::proto::job_management::artifact_response_wrapper::Response as Given;
use tidemill::proto::job_management::artifact_staging_service_client::ArtifactStagingServiceClient;
use tidemill::proto::job_management::{
    ArtifactResponseWrapper, GetArtifactRequest, GetArtifactResponse, GetJobPipelineRequest,
    ResolveArtifactsRequest, ResolveArtifactsResponse,
};
use tidemill::proto::pipeline::{
    AnyOfEnvironmentPayload, ArtifactFilePayload, ArtifactInformation,
    ArtifactStagingToRolePayload, EmbeddedFilePayload, Environment,
};
use tidemill::proto::urn::{environments, roles, types};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::fixture::{Fixture, pipeline, soon};

/// A client's files by path.
type Files = BTreeMap<&'static str, Bytes>;

fn file(path: &str, sha256: &str, staged_name: &str) -> ArtifactInformation {
    ArtifactInformation {
        type_urn: types::FILE.to_owned(),
        type_payload: ArtifactFilePayload {
            path: path.to_owned(),
            sha256: sha256.to_owned(),
        }
        .encode_to_vec()
        .into(),
        role_urn: roles::STAGING_TO.to_owned(),
        role_payload: ArtifactStagingToRolePayload {
            staged_name: staged_name.to_owned(),
        }
        .encode_to_vec()
        .into(),
    }
}

fn needs(dependencies: Vec<ArtifactInformation>) -> Environment {
    Environment {
        urn: environments::EXTERNAL.to_owned(),
        dependencies,
        ..Environment::default()
    }
}

/// What a client does; returns how many bytes it was asked for.
async fn offer(fixture: &mut Fixture, token: &str, files: &Files) -> Result<usize, Status> {
    offer_by(fixture.staging.clone(), token, files).await
}

async fn offer_by(
    mut staging: ArtifactStagingServiceClient<Channel>,
    token: &str,
    files: &Files,
) -> Result<usize, Status> {
    let (answers, stream) = mpsc::channel(4);
    let hello = ArtifactResponseWrapper {
        staging_token: token.to_owned(),
        ..ArtifactResponseWrapper::default()
    };
    answers.send(hello).await.unwrap();
    let mut requests = staging
        .reverse_artifact_retrieval_service(ReceiverStream::new(stream))
        .await?
        .into_inner();
    let mut sent = 0;
    while let Some(request) = soon(requests.message()).await? {
        match request.request.unwrap() {
            Wanted::ResolveArtifact(ResolveArtifactsRequest { artifacts, .. }) => {
                let response = ResolveArtifactsResponse {
                    replacements: artifacts,
                };
                let _ = answers
                    .send(ArtifactResponseWrapper {
                        response: Some(Given::ResolveArtifactResponse(response)),
                        ..ArtifactResponseWrapper::default()
                    })
                    .await;
            }
            Wanted::GetArtifact(request) => {
                let payload = request.artifact.unwrap().type_payload;
                let path = ArtifactFilePayload::decode(payload).unwrap().path;
                let mut content = files[path.as_str()].clone();
                sent += content.len();
                loop {
                    let data = content.split_to(content.len().min(1 << 20));
                    let is_last = data.is_empty();
                    let answer = ArtifactResponseWrapper {
                        is_last,
                        response: Some(Given::GetArtifactResponse(GetArtifactResponse { data })),
                        ..ArtifactResponseWrapper::default()
                    };
                    if answers.send(answer).await.is_err() || is_last {
                        break;
                    }
                }
            }
        }
    }
    Ok(sent)
}

/// Prepares, stages and runs a job that ends at once; its environments as a harness sees them.
async fn stage(
    fixture: &mut Fixture,
    name: &str,
    environments: Vec<(&str, Environment)>,
    files: &Files,
) -> BTreeMap<String, Environment> {
    let prepared = fixture.prepare(name, pipeline(environments)).await;
    offer(fixture, &prepared.staging_session_token, files)
        .await
        .unwrap();
    let job_id = fixture.run_prepared(&prepared).await.unwrap();
    let request = GetJobPipelineRequest { job_id };
    let answer = fixture.jobs.get_pipeline(request).await.unwrap();
    answer
        .into_inner()
        .pipeline
        .unwrap()
        .components
        .unwrap()
        .environments
}

async fn get(fixture: &mut Fixture, artifact: &ArtifactInformation) -> Result<Vec<u8>, Status> {
    let request = GetArtifactRequest {
        artifact: Some(artifact.clone()),
    };
    let mut stream = fixture.retrieval.get_artifact(request).await?.into_inner();
    let mut content = Vec::new();
    while let Some(chunk) = soon(stream.message()).await? {
        content.extend_from_slice(&chunk.data);
    }
    Ok(content)
}

/// Files under the data folder's `artifacts`, those on their way in too.
fn stored(fixture: &Fixture) -> usize {
    let count = |path: &str| {
        std::fs::read_dir(fixture.folder.path().join(path))
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().path().is_file())
            .count()
    };
    assert_eq!(count("artifacts/incoming"), 0, "nothing is left half-way");
    count("artifacts")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_staged_is_served_to_harnesses() {
    let mut fixture = Fixture::start().await;
    let large = Bytes::from(vec![7; 5 << 20]);
    let files = Files::from([
        ("/home/a.jar", large.clone()),
        ("/home/b.jar", Bytes::from_static(b"b")),
        ("/home/empty", Bytes::new()),
    ]);
    let embedded = ArtifactInformation {
        type_urn: types::EMBEDDED.to_owned(),
        type_payload: EmbeddedFilePayload {
            data: Bytes::from_static(b"inside"),
        }
        .encode_to_vec()
        .into(),
        ..file("", "", "requirements.txt")
    };
    let alternatives = AnyOfEnvironmentPayload {
        environments: vec![needs(vec![file("/home/b.jar", "", "b.jar")])],
    };
    let any_of = Environment {
        urn: environments::ANYOF.to_owned(),
        payload: alternatives.encode_to_vec().into(),
        ..Environment::default()
    };
    let environments = vec![
        (
            "java",
            needs(vec![
                file("/home/b.jar", "", "b.jar"),
                embedded,
                file("/home/a.jar", "", "lib/a.jar"),
                file("/home/empty", "", "empty"),
            ]),
        ),
        ("none", needs(Vec::new())),
        ("any", any_of),
    ];
    // The job waits, since artifacts go when it ends.
    let staged = stage(&mut fixture, "wait", environments, &files).await;
    let held = &staged["java"].dependencies;
    let roles: Vec<_> = held
        .iter()
        .map(|artifact| {
            assert_eq!(artifact.type_urn, types::FILE);
            ArtifactStagingToRolePayload::decode(artifact.role_payload.clone())
                .unwrap()
                .staged_name
        })
        .collect();
    assert_eq!(roles, ["b.jar", "requirements.txt", "lib/a.jar", "empty"]);
    for (artifact, content) in held.iter().zip([&b"b"[..], b"inside", &large, b""]) {
        assert_eq!(get(&mut fixture, artifact).await.unwrap(), content);
    }
    let any = AnyOfEnvironmentPayload::decode(staged["any"].payload.clone()).unwrap();
    let inner = &any.environments[0].dependencies[0];
    assert_eq!(get(&mut fixture, inner).await.unwrap(), b"b");
    assert_eq!(stored(&fixture), 4, "equal content is kept once");

    let resolved = fixture
        .retrieval
        .resolve_artifacts(ResolveArtifactsRequest {
            artifacts: held.clone(),
            preferred_urns: Vec::new(),
        })
        .await
        .unwrap();
    assert_eq!(&resolved.into_inner().replacements, held);
}

#[tokio::test(flavor = "multi_thread")]
async fn known_content_is_not_sent_again() {
    let mut fixture = Fixture::start().await;
    let files = Files::from([("/a", Bytes::from_static(b"hello"))]);
    let sha256 = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    let mut asked = Vec::new();
    for _ in 0..2 {
        let environment = needs(vec![file("/a", sha256, "a")]);
        let prepared = fixture
            .prepare("wait", pipeline(vec![("e", environment)]))
            .await;
        let token = prepared.staging_session_token.clone();
        asked.push(offer(&mut fixture, &token, &files).await.unwrap());
        fixture.run_prepared(&prepared).await.unwrap();
    }
    assert_eq!(asked, [5, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_clients_stage_at_once() {
    let mut fixture = Fixture::start().await;
    let large = |fill| Bytes::from(vec![fill; 2 << 20]);
    let files = Files::from([("/same", large(0)), ("/other", large(1))]);
    let mut jobs = Vec::new();
    for n in 0..8 {
        let path = if n % 2 == 0 { "/same" } else { "/other" };
        let environment = needs(vec![file("/same", "", "a"), file(path, "", "b")]);
        let pipeline = pipeline(vec![("e", environment)]);
        let prepared = fixture.prepare("wait", pipeline).await;
        let token = prepared.staging_session_token.clone();
        let (staging, files) = (fixture.staging.clone(), files.clone());
        let offered = tokio::spawn(async move { offer_by(staging, &token, &files).await });
        jobs.push((prepared, offered));
    }
    for (prepared, offered) in jobs {
        soon(offered).await.unwrap().unwrap();
        fixture.run_prepared(&prepared).await.unwrap();
    }
    assert_eq!(stored(&fixture), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_to_stage_still_ends_the_stream() {
    let mut fixture = Fixture::start().await;
    let prepared = fixture.prepare("done", pipeline(Vec::new())).await;
    let token = prepared.staging_session_token.clone();
    assert_eq!(offer(&mut fixture, &token, &Files::new()).await.unwrap(), 0);
    assert!(fixture.run_prepared(&prepared).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_artifacts_are_refused_with_their_name() {
    let mut fixture = Fixture::start().await;
    let files = Files::from([("/a", Bytes::from_static(b"a"))]);
    let of_type = |urn: &str, payload: &'static [u8]| ArtifactInformation {
        type_urn: urn.to_owned(),
        type_payload: Bytes::from_static(payload),
        ..file("", "", "x")
    };
    for (artifact, words) in [
        (file("/a", "", "../evil"), "leaves the staging folder"),
        (file("/a", "", "/etc/evil"), "absolute path"),
        (file("/a", &"0".repeat(64), "a.jar"), "not 0000"),
        (of_type(types::PYPI, b""), "PyPI"),
        (of_type(types::MAVEN, b""), "Maven"),
        (of_type("beam:artifact:type:odd:v1", b""), "not known"),
        (of_type(types::EMBEDDED, b"\xff\xff"), "cannot be read"),
    ] {
        let environment = needs(vec![artifact]);
        let prepared = fixture
            .prepare("done", pipeline(vec![("sdk", environment)]))
            .await;
        let token = prepared.staging_session_token.clone();
        let status = offer(&mut fixture, &token, &files).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        let text = status.message();
        assert!(
            text.contains("environment sdk") && text.contains(words),
            "{text}"
        );
        // A Run without its artifacts is refused for the same reason.
        let status = fixture.run_prepared(&prepared).await.unwrap_err();
        assert_eq!(status.code(), Code::FailedPrecondition);
        assert!(status.message().contains(words), "{status}");
    }
    assert_eq!(stored(&fixture), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_breaks_leaves_nothing_and_can_be_repeated() {
    let mut fixture = Fixture::start().await;
    let files = Files::from([("/a", Bytes::from_static(b"a"))]);
    let environment = needs(vec![file("/a", "", "a")]);
    let prepared = fixture
        .prepare("wait", pipeline(vec![("e", environment)]))
        .await;
    let token = prepared.staging_session_token.clone();
    let part = |response| ArtifactResponseWrapper {
        staging_token: token.clone(),
        is_last: false,
        response,
    };
    let chunk = Given::GetArtifactResponse(GetArtifactResponse {
        data: Bytes::from_static(b"half"),
    });
    let resolved = Given::ResolveArtifactResponse(ResolveArtifactsResponse {
        replacements: vec![file("/a", "", "a")],
    });
    for answers in [
        vec![],
        vec![part(None)],
        vec![part(None), part(Some(chunk.clone()))],
        vec![part(None), part(Some(resolved.clone())), part(Some(chunk))],
        vec![part(None), part(Some(resolved)), part(None)],
    ] {
        let stream = tokio_stream::iter(answers);
        let mut requests = fixture
            .staging
            .reverse_artifact_retrieval_service(stream)
            .await
            .unwrap()
            .into_inner();
        let end = loop {
            match soon(requests.message()).await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("a broken stream is an error"),
                Err(status) => break status,
            }
        };
        assert_eq!(end.code(), Code::InvalidArgument, "{end}");
    }
    offer(&mut fixture, &token, &files).await.unwrap();
    assert_eq!(stored(&fixture), 1);
    assert!(fixture.run_prepared(&prepared).await.is_ok());
    // The token is good until Run.
    let status = offer(&mut fixture, &token, &files).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_artifacts_of_jobs_are_served() {
    let mut fixture = Fixture::start().await;
    let secret = fixture.folder.path().join("secret");
    std::fs::write(&secret, "secret").unwrap();
    let absolute = secret.to_str().unwrap().to_owned();
    for path in [
        absolute.as_str(),
        "../secret",
        "wait-0/../../secret",
        "",
        "/etc/passwd",
    ] {
        let status = get(&mut fixture, &file(path, "", "x")).await.unwrap_err();
        assert_eq!(status.code(), Code::NotFound, "{path}");
    }
    let garbage = ArtifactInformation {
        type_payload: Bytes::from_static(b"\xff\xff"),
        ..file("", "", "x")
    };
    let status = get(&mut fixture, &garbage).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    let nothing = GetArtifactRequest { artifact: None };
    let status = fixture.retrieval.get_artifact(nothing).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
}

#[tokio::test(flavor = "multi_thread")]
async fn artifacts_go_with_their_job() {
    let mut fixture = Fixture::start().await;
    let files = Files::from([("/a", Bytes::from_static(b"a"))]);
    let environment = needs(vec![file("/a", "", "a")]);
    let staged = stage(&mut fixture, "done", vec![("e", environment)], &files).await;
    let held = staged["e"].dependencies[0].clone();
    let gone = async {
        while get(&mut fixture, &held).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    soon(gone).await;
    assert_eq!(
        stored(&fixture),
        1,
        "for the next job with the same content"
    );
}
