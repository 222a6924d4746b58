//! Fn API messages ↔ the model.

use crate::fnapi::events::{BundleResult, LogEntry, Severity};
use crate::fnapi::harness::CacheToken;
use crate::fnapi::instruction::Instruction;
use crate::model::bundle::ChannelSplit;
use crate::model::{
    BundleApplication, Millis, Residual, SplitOutcome, StateKey, StateOperation, StateReply,
    StateRequest, Timestamp,
};
use crate::proto::fn_execution as proto;

/// Reads a state request. The model's id has a letter in front that says which kind of response is due.
pub(crate) fn state_request(request: proto::StateRequest) -> Result<StateRequest, String> {
    use proto::state_request::Request;
    let key = request.state_key.and_then(|key| key.r#type);
    let key = state_key(key.ok_or("a state request without a key")?);
    let (kind, operation) = match request.request.ok_or("a state request that asks nothing")? {
        Request::Get(get) => {
            let continuation = Some(get.continuation_token).filter(|token| !token.is_empty());
            ('g', StateOperation::Get { continuation })
        }
        Request::Append(append) => ('a', StateOperation::Append { data: append.data }),
        Request::Clear(_) => ('c', StateOperation::Clear),
    };
    Ok(StateRequest {
        id: format!("{kind}{}", request.id),
        key,
        operation,
    })
}

fn state_key(key: proto::state_key::Type) -> StateKey {
    use proto::state_key::Type;
    match key {
        Type::Runner(key) => StateKey::Runner { key: key.key },
        Type::IterableSideInput(key) => StateKey::IterableSideInput {
            transform: key.transform_id,
            side_input: key.side_input_id,
            window: key.window,
        },
        Type::MultimapSideInput(key) => StateKey::MultimapSideInput {
            transform: key.transform_id,
            side_input: key.side_input_id,
            window: key.window,
            key: key.key,
        },
        Type::MultimapKeysSideInput(key) => StateKey::MultimapKeysSideInput {
            transform: key.transform_id,
            side_input: key.side_input_id,
            window: key.window,
        },
        Type::MultimapKeysValuesSideInput(key) => StateKey::MultimapKeysValuesSideInput {
            transform: key.transform_id,
            side_input: key.side_input_id,
            window: key.window,
        },
        Type::BagUserState(key) => StateKey::BagUserState {
            transform: key.transform_id,
            state: key.user_state_id,
            window: key.window,
            key: key.key,
        },
        Type::MultimapKeysUserState(key) => StateKey::MultimapKeysUserState {
            transform: key.transform_id,
            state: key.user_state_id,
            window: key.window,
            key: key.key,
        },
        Type::MultimapEntriesUserState(key) => StateKey::MultimapEntriesUserState {
            transform: key.transform_id,
            state: key.user_state_id,
            window: key.window,
            key: key.key,
        },
        Type::MultimapUserState(key) => StateKey::MultimapUserState {
            transform: key.transform_id,
            state: key.user_state_id,
            window: key.window,
            key: key.key,
            map_key: key.map_key,
        },
        Type::OrderedListUserState(key) => {
            let (start, end) = key
                .range
                .map_or((i64::MIN, i64::MAX), |range| (range.start, range.end));
            StateKey::OrderedListUserState {
                transform: key.transform_id,
                state: key.user_state_id,
                window: key.window,
                key: key.key,
                start,
                end,
            }
        }
    }
}

/// Writes the answer to a request whose model id is `id`.
pub(crate) fn state_response(id: &str, reply: StateReply) -> proto::StateResponse {
    use proto::state_response::Response;
    let (kind, id) = id.split_at_checked(1).unwrap_or(("", id));
    let (error, response) = match reply {
        StateReply::Error(error) => (error, None),
        StateReply::Data { data, continuation } => {
            let get = proto::StateGetResponse {
                data,
                continuation_token: continuation.unwrap_or_default(),
            };
            (String::new(), Some(Response::Get(get)))
        }
        StateReply::Done if kind == "c" => {
            let clear = proto::StateClearResponse {};
            (String::new(), Some(Response::Clear(clear)))
        }
        StateReply::Done => {
            let append = proto::StateAppendResponse {};
            (String::new(), Some(Response::Append(append)))
        }
    };
    proto::StateResponse {
        id: id.to_owned(),
        error,
        response,
    }
}

pub(crate) fn cache_token(token: CacheToken) -> proto::process_bundle_request::CacheToken {
    use proto::process_bundle_request::cache_token::{SideInput, Type, UserState};
    let (kind, token) = match token {
        CacheToken::UserState { token } => (Type::UserState(UserState {}), token),
        CacheToken::SideInput {
            transform,
            side_input,
            token,
        } => {
            let side_input = SideInput {
                transform_id: transform,
                side_input_id: side_input,
            };
            (Type::SideInput(side_input), token)
        }
    };
    proto::process_bundle_request::CacheToken {
        token,
        r#type: Some(kind),
    }
}

pub(crate) fn bundle_result(
    residuals: Vec<proto::DelayedBundleApplication>,
    requires_finalization: bool,
) -> Result<BundleResult, String> {
    Ok(BundleResult {
        residuals: residuals
            .into_iter()
            .map(residual)
            .collect::<Result<_, _>>()?,
        requires_finalization,
    })
}

pub(crate) fn split_outcome(
    response: proto::ProcessBundleSplitResponse,
) -> Result<SplitOutcome, String> {
    let channel_splits = response.channel_splits.into_iter();
    let residuals = response.residual_roots.into_iter();
    Ok(SplitOutcome {
        primaries: response
            .primary_roots
            .into_iter()
            .map(application)
            .collect(),
        residuals: residuals.map(residual).collect::<Result<_, _>>()?,
        channel_splits: channel_splits
            .map(|split| ChannelSplit {
                transform: split.transform_id,
                last_primary: split.last_primary_element,
                first_residual: split.first_residual_element,
            })
            .collect(),
    })
}

fn residual(residual: proto::DelayedBundleApplication) -> Result<Residual, String> {
    let application_proto = residual
        .application
        .ok_or("a residual without an application")?;
    Ok(Residual {
        application: application(application_proto),
        delay: residual.requested_time_delay.map_or(0, delay),
    })
}

fn application(application: proto::BundleApplication) -> BundleApplication {
    let watermarks = application.output_watermarks.into_iter();
    BundleApplication {
        transform: application.transform_id,
        input: application.input_id,
        element: application.element,
        output_watermarks: watermarks
            .map(|(output, watermark)| (output, timestamp(watermark)))
            .collect(),
    }
}

fn timestamp(time: prost_types::Timestamp) -> Timestamp {
    let millis = time.seconds.saturating_mul(1000);
    Timestamp::from_millis(millis.saturating_add(i64::from(time.nanos / 1_000_000)))
}

fn delay(delay: prost_types::Duration) -> Millis {
    let millis = delay.seconds.saturating_mul(1000);
    millis
        .saturating_add(i64::from(delay.nanos / 1_000_000))
        .max(0)
}

pub(crate) fn log_entry(entry: proto::LogEntry) -> LogEntry {
    LogEntry {
        severity: severity(entry.severity()),
        time: entry.timestamp.map_or(Timestamp::MIN, timestamp),
        message: entry.message,
        trace: entry.trace,
        bundle: Instruction::parse_bundle(&entry.instruction_id),
        transform: entry.transform_id,
        location: entry.log_location,
        thread: entry.thread,
    }
}

fn severity(severity: proto::log_entry::severity::Enum) -> Severity {
    use proto::log_entry::severity::Enum;
    match severity {
        Enum::Unspecified => Severity::Unspecified,
        Enum::Trace => Severity::Trace,
        Enum::Debug => Severity::Debug,
        Enum::Info => Severity::Info,
        Enum::Notice => Severity::Notice,
        Enum::Warn => Severity::Warn,
        Enum::Error => Severity::Error,
        Enum::Critical => Severity::Critical,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bytes::Bytes;

    use super::*;

    #[test]
    fn state_answers_have_the_kind_and_id_of_their_request() {
        use proto::state_response::Response;
        let key = proto::StateKey {
            r#type: Some(proto::state_key::Type::Runner(proto::state_key::Runner {
                key: Bytes::from_static(b"k"),
            })),
        };
        let ask = |request| {
            state_request(proto::StateRequest {
                id: "17".into(),
                instruction_id: "b1".into(),
                state_key: Some(key.clone()),
                request: Some(request),
            })
            .unwrap()
        };
        let clear = ask(proto::state_request::Request::Clear(
            proto::StateClearRequest {},
        ));
        assert_eq!(clear.operation, StateOperation::Clear);
        let response = state_response(&clear.id, StateReply::Done);
        assert_eq!(response.id, "17");
        assert!(matches!(response.response, Some(Response::Clear(_))));
        let append = ask(proto::state_request::Request::Append(
            proto::StateAppendRequest {
                data: Bytes::from_static(b"x"),
            },
        ));
        let response = state_response(&append.id, StateReply::Done);
        assert!(matches!(response.response, Some(Response::Append(_))));
        let get = ask(proto::state_request::Request::Get(
            proto::StateGetRequest::default(),
        ));
        assert_eq!(get.operation, StateOperation::Get { continuation: None });
        let reply = StateReply::Data {
            data: Bytes::from_static(b"v"),
            continuation: Some(Bytes::from_static(b"t")),
        };
        let Some(Response::Get(got)) = state_response(&get.id, reply).response else {
            panic!("not a get response");
        };
        assert_eq!(
            (&*got.data, &*got.continuation_token),
            (&b"v"[..], &b"t"[..])
        );
        let error = state_response(&get.id, StateReply::Error("no".into()));
        assert_eq!((error.error.as_str(), error.response), ("no", None));
    }

    #[test]
    fn incomplete_requests_are_errors() {
        assert!(state_request(proto::StateRequest::default()).is_err());
        let empty = proto::DelayedBundleApplication::default();
        assert!(bundle_result(vec![empty], false).is_err());
    }

    #[test]
    fn residual_times_are_clamped_and_never_negative() {
        let time = |seconds, nanos| prost_types::Timestamp { seconds, nanos };
        assert_eq!(timestamp(time(i64::MIN, 0)), Timestamp::MIN);
        assert_eq!(timestamp(time(i64::MAX, 999_999_999)), Timestamp::MAX);
        assert_eq!(timestamp(time(-1, 500_000_000)).millis(), -500);
        let delayed = proto::DelayedBundleApplication {
            application: Some(proto::BundleApplication {
                transform_id: "t".into(),
                output_watermarks: BTreeMap::from([("out".into(), time(2, 0))]),
                ..Default::default()
            }),
            requested_time_delay: Some(prost_types::Duration {
                seconds: -3,
                nanos: 0,
            }),
        };
        let result = bundle_result(vec![delayed], true).unwrap();
        assert_eq!(result.residuals[0].delay, 0);
        let watermarks = &result.residuals[0].application.output_watermarks;
        assert_eq!(watermarks["out"], Timestamp::from_millis(2000));
    }

    #[test]
    fn log_lines_name_their_bundle() {
        let entry = log_entry(proto::LogEntry {
            severity: 99,
            instruction_id: "b5".into(),
            ..Default::default()
        });
        assert_eq!(entry.severity, Severity::Unspecified);
        assert_eq!(entry.bundle, Some(crate::model::BundleId(5)));
    }
}
