//! The real Python harness, started by its worker pool. Needs `TIDEMILL_PYTHON`, a Python with Beam.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use tidemill::environment::{self, Endpoints, Policy, Running, StartSpec};
use tidemill::fnapi::Settings;
use tidemill::model::BundleId;
use tidemill::proto::fn_execution::{ProcessBundleDescriptor, RemoteGrpcPort};
use tidemill::proto::pipeline::{
    ApiServiceDescriptor, Coder, Environment, ExternalPayload, FunctionSpec, PCollection,
    PTransform, WindowingStrategy,
};
use tidemill::proto::urn::{coders, environments};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use crate::rig::{Event, ID, Rig, bundle};

const STARTUP: Duration = Duration::from_secs(90);

#[tokio::test]
async fn python_passes_elements_from_source_to_sink() {
    let Some(python) = std::env::var_os("TIDEMILL_PYTHON").map(PathBuf::from) else {
        eprintln!("skipped: TIDEMILL_PYTHON is not set");
        return;
    };
    let (mut rig, expected) = Rig::new(Settings::default(), |spec, address| {
        let descriptor = identity(&address.to_string());
        spec.descriptors = Arc::new(BTreeMap::from([("d".into(), descriptor)]));
    })
    .await;
    let (mut pool, pool_address) = start_pool(&python).await;
    let running = start(&pool_address, &rig.address.to_string()).await;
    let harness = expected.connected(STARTUP).await.unwrap();

    // Two elements: timestamp 0 in the global window, no firing, then a length and the bytes.
    let element = b"\x80\0\0\0\0\0\0\0\0\0\0\x01\x0f\x03abc";
    for number in 1..=3 {
        let pieces = vec![Bytes::from_static(element), Bytes::from_static(element)];
        harness.start_bundle(bundle(number, pieces));
        let id = BundleId(number);
        let (mut output, mut result) = (Vec::new(), None);
        while result.is_none() {
            match next(&mut rig).await {
                Event::Data(of, sink, data, _) => {
                    assert_eq!((of, sink.as_str()), (id, "sink"));
                    output.extend_from_slice(&data);
                }
                Event::Finished(of, finished) => {
                    assert_eq!(of, id);
                    result = Some(finished.unwrap());
                }
                other => panic!("unexpected {other:?}"),
            }
        }
        assert_eq!(output, [&element[..], element].concat());
        let Event::Metrics(of, metrics) = next(&mut rig).await else {
            panic!("no metrics")
        };
        assert_eq!(of, id);
        let count = "beam:metric:element_count:v1";
        assert!(
            metrics
                .iter()
                .any(|m| m.info.urn == count && *m.payload == [2]),
            "{metrics:?}"
        );
    }
    harness.stop();
    harness.gone().await;
    let lost = loop {
        match next(&mut rig).await {
            Event::Log(_) => {}
            other => break other,
        }
    };
    assert!(matches!(lost, Event::Lost(_)), "{lost:?}");
    running.stop().await;
    pool.kill().await.unwrap();
}

async fn next(rig: &mut Rig) -> Event {
    let event = tokio::time::timeout(STARTUP, rig.events.recv()).await;
    event.expect("no event in time").unwrap()
}

/// Starts a worker pool on a free port, and waits until it listens.
async fn start_pool(python: &Path) -> (Child, String) {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    // The pool runs a bare `python`.
    let folder = python.parent().unwrap().to_str().unwrap();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap_or_default());
    let pool = Command::new(python)
        .args(["-m", "apache_beam.runners.worker.worker_pool_main"])
        .arg(format!("--service_port={port}"))
        .env("PATH", path)
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let address = format!("localhost:{port}");
    let listening = async {
        while TcpStream::connect(&address).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(STARTUP, listening).await.unwrap();
    (pool, address)
}

async fn start(pool: &str, runner: &str) -> Running {
    let payload = ExternalPayload {
        endpoint: Some(ApiServiceDescriptor {
            url: pool.into(),
            authentication: None,
        }),
        params: BTreeMap::new(),
    };
    let environment = Environment {
        urn: environments::EXTERNAL.into(),
        payload: payload.encode_to_vec().into(),
        ..Environment::default()
    };
    let spec = StartSpec {
        worker_id: ID.into(),
        endpoints: Endpoints::all_at(runner),
        params: BTreeMap::new(),
        deadline: STARTUP,
    };
    let running = environment::start(&environment, spec, &Policy::default()).await;
    running.unwrap()
}

/// A data source whose elements, windowed bytes, go to a data sink.
fn identity(runner: &str) -> ProcessBundleDescriptor {
    let port = RemoteGrpcPort {
        api_service_descriptor: Some(ApiServiceDescriptor {
            url: runner.into(),
            authentication: None,
        }),
        coder_id: "windowed".into(),
    };
    let transform = |urn: &str, name: &str| PTransform {
        unique_name: name.into(),
        spec: Some(FunctionSpec {
            urn: urn.into(),
            payload: port.encode_to_vec().into(),
        }),
        ..PTransform::default()
    };
    let coder = |urn: &str, components: &[&str]| Coder {
        spec: Some(FunctionSpec {
            urn: urn.into(),
            payload: Bytes::new(),
        }),
        component_coder_ids: components.iter().map(|id| (*id).into()).collect(),
    };
    let pcollection = || BTreeMap::from([("x".into(), "p".into())]);
    let source = PTransform {
        outputs: pcollection(),
        ..transform("beam:runner:source:v1", "source")
    };
    let sink = PTransform {
        inputs: pcollection(),
        ..transform("beam:runner:sink:v1", "sink")
    };
    let elements = PCollection {
        unique_name: "p".into(),
        coder_id: "bytes".into(),
        windowing_strategy_id: "global".into(),
        ..PCollection::default()
    };
    let windowing = WindowingStrategy {
        window_coder_id: "window".into(),
        ..WindowingStrategy::default()
    };
    ProcessBundleDescriptor {
        id: "d".into(),
        transforms: BTreeMap::from([("source".into(), source), ("sink".into(), sink)]),
        pcollections: BTreeMap::from([("p".into(), elements)]),
        windowing_strategies: BTreeMap::from([("global".into(), windowing)]),
        coders: BTreeMap::from([
            ("bytes".into(), coder(coders::BYTES, &[])),
            ("window".into(), coder(coders::GLOBAL_WINDOW, &[])),
            (
                "windowed".into(),
                coder(coders::WINDOWED_VALUE, &["bytes", "window"]),
            ),
        ]),
        ..ProcessBundleDescriptor::default()
    }
}
