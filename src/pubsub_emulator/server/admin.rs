//! The admin calls: HTTP with JSON, on the port of the API.
//!
//! `GET` shows, `POST` with a JSON object changes. A `POST` needs the content type
//! `application/json`, which a foreign web page cannot send here unasked.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::pubsub_emulator::broker::Broker;
use crate::pubsub_emulator::delivery::{DeliveryFaults, Stats};
use crate::pubsub_emulator::settings::Faults;

use super::run::Error;
use super::shared::Shared;

/// The admin calls of an emulator.
pub(super) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/emulator/stats", get(stats))
        .route("/emulator/faults", get(faults).post(set_faults))
        .route("/emulator/faults-of-subscription", post(set_faults_of))
        .route("/emulator/streams", post(set_streams))
        .route("/emulator/kill-streams", post(kill_streams))
        .route("/emulator/stall", post(stall))
        .route("/emulator/advance-clock", post(advance_clock))
        .route("/emulator/reset", post(reset))
        .with_state(shared)
}

#[derive(Serialize)]
struct AllStats {
    now_unix_seconds: f64,
    subscriptions: BTreeMap<String, Stats>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FaultsOf {
    subscription: String,
    delivery: Option<DeliveryFaults>,
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Kill {
    subscription: Option<String>,
    status: String,
}

impl Default for Kill {
    fn default() -> Kill {
        Kill {
            subscription: None,
            status: "UNAVAILABLE".to_owned(),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stall {
    #[serde(default)]
    subscription: Option<String>,
    seconds: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Advance {
    seconds: f64,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Streams {
    life_seconds: Option<f64>,
    idle_max_seconds: Option<f64>,
    death_status: Option<String>,
    return_on_close: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// Why an admin call is refused.
struct Refused(StatusCode, String);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        answer(self.0, &json!({ "error": self.1 }))
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Refused {
        Refused(StatusCode::BAD_REQUEST, error.to_string())
    }
}

type Answer = Result<Response, Refused>;

async fn stats(State(shared): State<Arc<Shared>>) -> Response {
    let (now, subscriptions) = shared.with(|broker, now| (now, broker.stats(now)));
    let all = AllStats {
        now_unix_seconds: now.since(Default::default()).as_secs_f64(),
        subscriptions,
    };
    answer(StatusCode::OK, &all)
}

async fn faults(State(shared): State<Arc<Shared>>) -> Response {
    answer(StatusCode::OK, &shared.faults())
}

async fn set_faults(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Answer {
    let faults: Faults = parse(&headers, &body)?;
    shared.set_faults(faults)?;
    Ok(done(&shared.faults()))
}

async fn set_faults_of(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    body: Bytes,
) -> Answer {
    let FaultsOf {
        subscription,
        delivery,
    } = parse(&headers, &body)?;
    shared.set_faults_of(&subscription, delivery);
    Ok(done(
        &json!({ "subscription": subscription, "delivery": delivery }),
    ))
}

async fn set_streams(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Answer {
    let streams: Streams = parse(&headers, &body)?;
    let mut rules = shared.with(|broker, _| broker.streams().clone());
    let lifetime = |seconds: f64| Duration::try_from_secs_f64(seconds).ok();
    if let Some(seconds) = streams.life_seconds {
        rules.life = lifetime(seconds).filter(|life| !life.is_zero());
    }
    if let Some(seconds) = streams.idle_max_seconds {
        rules.idle_max = lifetime(seconds).filter(|idle| !idle.is_zero());
    }
    if let Some(status) = &streams.death_status {
        rules.death.code = Shared::code(status)?;
    }
    rules.give_back = streams.return_on_close.unwrap_or(rules.give_back);
    shared.with(|broker, _| broker.set_streams(rules));
    Ok(done(&json!({})))
}

async fn kill_streams(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    body: Bytes,
) -> Answer {
    let kill: Kill = parse(&headers, &body)?;
    let killed = shared.kill_streams(kill.subscription.as_deref(), &kill.status)?;
    Ok(done(&json!({ "killed": killed })))
}

async fn stall(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Answer {
    let stall: Stall = parse(&headers, &body)?;
    let lasting = duration(stall.seconds)?;
    shared.stall(stall.subscription.as_deref(), lasting);
    Ok(done(&json!({})))
}

async fn advance_clock(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    body: Bytes,
) -> Answer {
    let advance: Advance = parse(&headers, &body)?;
    shared.advance(duration(advance.seconds)?);
    Ok(done(&json!({})))
}

async fn reset(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Answer {
    let Nothing {} = parse(&headers, &body)?;
    shared.set_faults(Faults::default())?;
    shared.with(Broker::reset);
    Ok(done(&json!({})))
}

fn parse<T: DeserializeOwned>(headers: &HeaderMap, body: &[u8]) -> Result<T, Refused> {
    let content_type = headers.get(header::CONTENT_TYPE);
    let is_json = content_type.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    if !is_json {
        return Err(Refused(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "the content type must be application/json".to_owned(),
        ));
    }
    let body = if body.is_empty() { b"{}" } else { body };
    serde_json::from_slice(body)
        .map_err(|error| Refused(StatusCode::BAD_REQUEST, error.to_string()))
}

fn duration(seconds: f64) -> Result<Duration, Refused> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|error| Refused(StatusCode::BAD_REQUEST, error.to_string()))
}

fn done(value: &impl Serialize) -> Response {
    answer(StatusCode::OK, value)
}

fn answer(status: StatusCode, value: &impl Serialize) -> Response {
    let text = serde_json::to_string_pretty(value)
        .unwrap_or_else(|error| Value::from(error.to_string()).to_string());
    (status, [(header::CONTENT_TYPE, "application/json")], text).into_response()
}
