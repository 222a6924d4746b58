//! Environments that a worker pool starts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prost::Message;
use tidemill::environment::{self, Endpoints, Policy, StartSpec};
use tidemill::proto::fn_execution::beam_fn_external_worker_pool_server::{
    BeamFnExternalWorkerPool, BeamFnExternalWorkerPoolServer,
};
use tidemill::proto::fn_execution::{
    StartWorkerRequest, StartWorkerResponse, StopWorkerRequest, StopWorkerResponse,
};
use tidemill::proto::pipeline::{ApiServiceDescriptor, Environment, ExternalPayload};
use tidemill::proto::urn::environments;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

use crate::rig::DEADLINE;

#[derive(Clone, Default)]
struct Pool {
    calls: Arc<Mutex<Vec<String>>>,
    /// How many calls are refused as if the pool were not there.
    unavailable: Arc<Mutex<u32>>,
    error: String,
    /// Never answers.
    stuck: bool,
}

#[tonic::async_trait]
impl BeamFnExternalWorkerPool for Pool {
    async fn start_worker(
        &self,
        request: Request<StartWorkerRequest>,
    ) -> Result<Response<StartWorkerResponse>, Status> {
        let request = request.into_inner();
        let url = request.control_endpoint.unwrap().url;
        let call = format!("start {} {url} {:?}", request.worker_id, request.params);
        self.calls.lock().push(call);
        if self.stuck {
            return std::future::pending().await;
        }
        let mut unavailable = self.unavailable.lock();
        if *unavailable > 0 {
            *unavailable -= 1;
            return Err(Status::unavailable("starting"));
        }
        Ok(Response::new(StartWorkerResponse {
            error: self.error.clone(),
        }))
    }

    async fn stop_worker(
        &self,
        request: Request<StopWorkerRequest>,
    ) -> Result<Response<StopWorkerResponse>, Status> {
        self.calls
            .lock()
            .push(format!("stop {}", request.into_inner().worker_id));
        Ok(Response::new(StopWorkerResponse::default()))
    }
}

impl Pool {
    fn serve(&self, listener: TcpListener) -> tokio::task::JoinHandle<()> {
        let server = tonic::transport::Server::builder()
            .add_service(BeamFnExternalWorkerPoolServer::new(self.clone()));
        tokio::spawn(async move {
            let _ = server
                .serve_with_incoming(TcpListenerStream::new(listener))
                .await;
        })
    }
}

fn environment(address: &str) -> Environment {
    let payload = ExternalPayload {
        endpoint: Some(ApiServiceDescriptor {
            url: address.into(),
            authentication: None,
        }),
        params: BTreeMap::from([("p".into(), "q".into())]),
    };
    Environment {
        urn: environments::EXTERNAL.into(),
        payload: payload.encode_to_vec().into(),
        ..Environment::default()
    }
}

fn spec(deadline: Duration) -> StartSpec {
    StartSpec {
        worker_id: "w".into(),
        endpoints: Endpoints::all_at("localhost:1"),
        params: BTreeMap::new(),
        deadline,
    }
}

async fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

#[tokio::test]
async fn a_pool_is_asked_until_it_is_there_and_told_to_stop() {
    let (listener, address) = listener().await;
    let pool = Pool {
        unavailable: Arc::new(Mutex::new(2)),
        ..Pool::default()
    };
    let server = pool.serve(listener);
    let environment = environment(&address);
    let running = environment::start(&environment, spec(DEADLINE), &Policy::default())
        .await
        .unwrap();
    let start = "start w localhost:1 {\"p\": \"q\"}";
    assert_eq!(*pool.calls.lock(), [start; 3]);
    running.stop().await;
    assert_eq!(pool.calls.lock().last().unwrap(), "stop w");
    server.abort();
}

#[tokio::test]
async fn a_pool_that_refuses_or_is_not_there_is_an_error_in_time() {
    let (listener, address) = listener().await;
    let pool = Pool {
        error: "no room".into(),
        ..Pool::default()
    };
    let server = pool.serve(listener);
    let start = |address: &str| {
        let environment = environment(address);
        async move {
            let spec = spec(Duration::from_millis(600));
            environment::start(&environment, spec, &Policy::default())
                .await
                .unwrap_err()
                .to_string()
        }
    };
    let error = start(&address).await;
    assert!(
        error.ends_with("refused to start a harness: no room"),
        "{error}"
    );
    server.abort();
    let _ = server.await;
    let error = start(&address).await;
    assert!(error.contains("could not be reached ("), "{error}");
    let error = start("no address at all").await;
    assert!(error.contains("is no worker pool's address"), "{error}");
}

#[tokio::test]
async fn giving_up_a_start_tells_the_pool_and_no_one_else() {
    let (listener, address) = listener().await;
    let pool = Pool {
        stuck: true,
        ..Pool::default()
    };
    let server = pool.serve(listener);
    let environment = environment(&address);
    let policy = Policy::default();
    let start = environment::start(&environment, spec(DEADLINE), &policy);
    let called = async {
        while pool.calls.lock().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = start => panic!("started"),
        () = called => {}
    }
    let told = async {
        while pool.calls.lock().len() < 2 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, told).await.unwrap();
    assert_eq!(pool.calls.lock()[1], "stop w");
    server.abort();
}

#[tokio::test]
async fn a_pool_that_vanishes_is_noticed() {
    let (listener, address) = listener().await;
    let server = Pool::default().serve(listener);
    let environment = environment(&address);
    let running = environment::start(&environment, spec(DEADLINE), &Policy::default())
        .await
        .unwrap();
    server.abort();
    let _ = server.await;
    let how = tokio::time::timeout(DEADLINE, running.exited())
        .await
        .unwrap();
    assert!(how.contains("nothing listens"), "{how}");
}
