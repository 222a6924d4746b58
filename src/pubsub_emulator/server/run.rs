//! Starting and stopping an emulator.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tonic::service::Routes;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use crate::pubsub_emulator::broker::{Broker, Refusal, StreamRules};
use crate::pubsub_emulator::delivery::{DeliveryFaults, Stats};
use crate::pubsub_emulator::settings::{Faults, Settings};

use super::admin;
use super::clock::Clock;
use super::iam::IamPolicy;
use super::publisher::Publisher;
use super::shared::Shared;
use super::subscriber::Subscriber;

/// What a publisher may have on the way before the server takes it.
const WINDOW_BYTES: u32 = 8 * 1024 * 1024;
/// How long a shutdown waits for calls to end.
const SHUTDOWN_WAIT_MAX: Duration = Duration::from_secs(2);

/// Why an emulator cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is taken, or not ours.
    #[error("failed to listen on {host}:{port}")]
    Listen {
        /// The host asked for.
        host: String,
        /// The port asked for.
        port: u16,
        /// What the system says.
        source: std::io::Error,
    },
    /// No status has this name.
    #[error("unknown status {0:?}, it must be a name like UNAVAILABLE")]
    UnknownStatus(String),
    /// The server failed.
    #[error("failed to serve")]
    Serve(#[from] tonic::transport::Error),
}

/// A running emulator. Dropping it leaves it running; [`Emulator::shutdown`] ends it.
#[derive(Debug)]
pub struct Emulator {
    addr: SocketAddr,
    shared: Arc<Shared>,
    stop: Arc<Notify>,
    server: JoinHandle<Result<(), tonic::transport::Error>>,
    timer: JoinHandle<()>,
}

/// Starts an emulator inside this process; it listens when this returns.
pub async fn start(settings: Settings) -> Result<Emulator, Error> {
    let clock = Clock::new();
    let broker = Broker::new(settings.seed, clock.now(), stream_rules(&settings)?);
    let listen = (settings.host.clone(), settings.port);
    let listener = TcpListener::bind(listen).await;
    let listener = listener.map_err(|source| listen_error(&settings, source))?;
    let addr = listener.local_addr();
    let addr = addr.map_err(|source| listen_error(&settings, source))?;
    let faults = settings.faults.clone();
    let shared = Arc::new(Shared::new(settings, clock, broker));
    shared.set_faults(faults)?;
    let routes = routes(&shared).await;
    let stop = Arc::new(Notify::new());
    let stopped = Arc::clone(&stop);
    let server = Server::builder()
        .accept_http1(true)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .add_routes(routes)
        .serve_with_incoming_shutdown(
            TcpIncoming::from(listener).with_nodelay(Some(true)),
            async move { stopped.notified().await },
        );
    let server = tokio::spawn(server);
    let timer = Arc::clone(&shared);
    let timer = tokio::spawn(async move { timer.keep_time().await });
    Ok(Emulator {
        addr,
        shared,
        stop,
        server,
        timer,
    })
}

impl Emulator {
    /// Ends all calls and stops listening.
    pub async fn shutdown(mut self) -> Result<(), Error> {
        self.stop.notify_one();
        self.kill_streams(None, "UNAVAILABLE")?;
        let ended = tokio::time::timeout(SHUTDOWN_WAIT_MAX, &mut self.server).await;
        self.server.abort();
        self.timer.abort();
        match ended {
            Ok(Ok(Err(error))) => Err(error.into()),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Runs until the server fails, which it does not do by itself.
    pub async fn wait(&mut self) -> Result<(), Error> {
        match (&mut self.server).await {
            Ok(result) => Ok(result?),
            Err(_) => Ok(()),
        }
    }

    /// Lets other things go wrong from now on.
    pub fn set_faults(&self, faults: Faults) -> Result<(), Error> {
        self.shared.set_faults(faults)
    }

    /// Lets one subscription's delivery go wrong in its own way, or again like the others'.
    pub fn set_faults_of(&self, subscription: &str, faults: Option<DeliveryFaults>) {
        self.shared.set_faults_of(subscription, faults);
    }

    /// Ends the streams of one subscription, or of all, with a status like `UNAVAILABLE`, and says
    /// how many there were.
    pub fn kill_streams(&self, subscription: Option<&str>, status: &str) -> Result<usize, Error> {
        self.shared.kill_streams(subscription, status)
    }

    /// Delivers nothing on one subscription, or on all, for that long; streams stay open.
    pub fn stall(&self, subscription: Option<&str>, lasting: Duration) {
        self.shared.stall(subscription, lasting);
    }

    /// Sets the emulator's clock ahead: leases, retention, backoffs and streams fall due.
    pub fn advance_clock(&self, by: Duration) {
        self.shared.advance(by);
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// What goes wrong on purpose.
    pub fn faults(&self) -> Faults {
        self.shared.faults()
    }

    /// Totals and present state of a subscription; none if there is no such subscription.
    pub fn stats(&self, subscription: &str) -> Option<Stats> {
        let mut all = self.shared.with(|broker, now| broker.stats(now));
        all.remove(subscription)
    }
}

/// The API, health checks, and the admin calls.
async fn routes(shared: &Arc<Shared>) -> Routes {
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter.set_serving::<Publisher>().await;
    reporter.set_serving::<Subscriber>().await;
    let services = Routes::new(Publisher(Arc::clone(shared)))
        .add_service(Subscriber(Arc::clone(shared)))
        .add_service(IamPolicy(Arc::clone(shared)))
        .add_service(health);
    let admin = admin::router(Arc::clone(shared));
    Routes::from(services.into_axum_router().merge(admin))
}

fn stream_rules(settings: &Settings) -> Result<StreamRules, Error> {
    let code = Shared::code(&settings.stream_death_status)?;
    Ok(StreamRules {
        life: settings.stream_life,
        idle_max: settings.stream_idle_max,
        death: Refusal::new(
            code,
            "the stream has come to the end of its life, open another",
        ),
        give_back: settings.return_on_close,
    })
}

fn listen_error(settings: &Settings, source: std::io::Error) -> Error {
    Error::Listen {
        host: settings.host.clone(),
        port: settings.port,
        source,
    }
}
