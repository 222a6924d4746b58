//! Windowing strategies: proto to model, with every default filled in.

use prost::Message;

use crate::model::ids::EnvironmentId;
use crate::model::time::Millis;
use crate::model::window::WindowFn;
use crate::model::windowing::{
    AccumulationMode, OutputTime, TimestampTransform, Trigger, WindowingStrategy,
};
use crate::plan::coders::Coders;
use crate::plan::error::Error;
use crate::proto::pipeline as pb;

/// Reads one strategy; `environment` is the engine's id of the strategy's environment.
pub(crate) fn read(
    strategy: &pb::WindowingStrategy,
    environment: Option<EnvironmentId>,
    coders: &mut Coders,
) -> Result<WindowingStrategy, Error> {
    let window_fn = window_fn(strategy.window_fn.as_ref())?;
    let wire = coders.wire_window(&strategy.window_coder_id)?;
    Ok(WindowingStrategy {
        needs_merge: needs_merge(strategy, &window_fn),
        window_fn,
        window_coder: coders.model(&wire)?,
        trigger: strategy
            .trigger
            .as_ref()
            .map_or(Ok(Trigger::Default), trigger)?,
        accumulation: match strategy.accumulation_mode() {
            pb::accumulation_mode::Enum::Unspecified | pb::accumulation_mode::Enum::Discarding => {
                AccumulationMode::Discarding
            }
            pb::accumulation_mode::Enum::Accumulating => AccumulationMode::Accumulating,
            pb::accumulation_mode::Enum::Retracting => {
                return Err(Error::unsupported(
                    "retracting accumulation is not supported",
                    "use accumulating or discarding panes",
                ));
            }
        },
        output_time: match strategy.output_time() {
            pb::output_time::Enum::Unspecified | pb::output_time::Enum::EndOfWindow => {
                OutputTime::EndOfWindow
            }
            pb::output_time::Enum::LatestInPane => OutputTime::Latest,
            pb::output_time::Enum::EarliestInPane => OutputTime::Earliest,
        },
        closing_always: strategy.closing_behavior() == pb::closing_behavior::Enum::EmitAlways,
        on_time_always: strategy.on_time_behavior() != pb::on_time_behavior::Enum::FireIfNonempty,
        last_by_trigger_only: false,
        allowed_lateness: strategy.allowed_lateness.max(0),
        environment,
    })
}

/// The window fn of a strategy whose windows must be merged.
pub(crate) fn merging_window_fn(
    strategy: &pb::WindowingStrategy,
) -> Result<Option<WindowFn>, Error> {
    let window_fn = window_fn(strategy.window_fn.as_ref())?;
    Ok(needs_merge(strategy, &window_fn).then_some(window_fn))
}

fn needs_merge(strategy: &pb::WindowingStrategy, window_fn: &WindowFn) -> bool {
    match strategy.merge_status() {
        pb::merge_status::Enum::NeedsMerge => true,
        pb::merge_status::Enum::NonMerging | pb::merge_status::Enum::AlreadyMerged => false,
        pb::merge_status::Enum::Unspecified => matches!(window_fn, WindowFn::Sessions { .. }),
    }
}

fn window_fn(spec: Option<&pb::FunctionSpec>) -> Result<WindowFn, Error> {
    let spec = spec.ok_or_else(|| Error::malformed("a windowing strategy has no window fn"))?;
    let payload = spec.payload.clone();
    let broken = |_| Error::malformed("the payload of a window fn cannot be read").urn(&spec.urn);
    let positive = |what: &str, duration: Option<prost_types::Duration>| {
        let millis = duration.map_or(0, |d| millis(d.seconds, d.nanos));
        if millis > 0 {
            return Ok(millis);
        }
        Err(Error::malformed(format!("the {what} of a window fn must be positive")).urn(&spec.urn))
    };
    let offset = |at: Option<prost_types::Timestamp>| at.map_or(0, |t| millis(t.seconds, t.nanos));
    Ok(match spec.urn.as_str() {
        GLOBAL => WindowFn::Global,
        FIXED => {
            let fixed = pb::FixedWindowsPayload::decode(payload).map_err(broken)?;
            WindowFn::Fixed {
                size: positive("size", fixed.size)?,
                offset: offset(fixed.offset),
            }
        }
        SLIDING => {
            let sliding = pb::SlidingWindowsPayload::decode(payload).map_err(broken)?;
            WindowFn::Sliding {
                size: positive("size", sliding.size)?,
                period: positive("period", sliding.period)?,
                offset: offset(sliding.offset),
            }
        }
        SESSIONS => {
            let sessions = pb::SessionWindowsPayload::decode(payload).map_err(broken)?;
            WindowFn::Sessions {
                gap: positive("gap", sessions.gap_size)?,
            }
        }
        other => WindowFn::Custom {
            urn: other.to_owned(),
        },
    })
}

fn millis(seconds: i64, nanos: i32) -> Millis {
    seconds
        .saturating_mul(1000)
        .saturating_add(i64::from(nanos) / 1_000_000)
}

/// Depth is bounded by prost, which refuses messages nested deeper than 100.
fn trigger(trigger: &pb::Trigger) -> Result<Trigger, Error> {
    use pb::trigger::Trigger as Kind;
    let kind = trigger
        .trigger
        .as_ref()
        .ok_or_else(|| Error::malformed("a trigger of an unknown kind"))?;
    Ok(match kind {
        Kind::Default(_) => Trigger::Default,
        Kind::Always(_) => Trigger::Always,
        Kind::Never(_) => Trigger::Never,
        Kind::ElementCount(count) => {
            Trigger::ElementCount(u32::try_from(count.element_count).unwrap_or(0).max(1))
        }
        Kind::AfterEndOfWindow(window) => Trigger::AfterEndOfWindow {
            early: optional(window.early_firings.as_deref())?,
            late: optional(window.late_firings.as_deref())?,
        },
        Kind::AfterProcessingTime(after) => Trigger::AfterProcessingTime(
            after
                .timestamp_transforms
                .iter()
                .filter_map(timestamp_transform)
                .collect(),
        ),
        Kind::AfterSynchronizedProcessingTime(_) => Trigger::AfterSynchronizedProcessingTime,
        Kind::AfterAll(all) => Trigger::AfterAll(list(&all.subtriggers)?),
        Kind::AfterAny(any) => Trigger::AfterAny(list(&any.subtriggers)?),
        Kind::AfterEach(each) => Trigger::AfterEach(list(&each.subtriggers)?),
        Kind::OrFinally(both) => Trigger::OrFinally {
            main: required(both.main.as_deref())?,
            finally: required(both.finally.as_deref())?,
        },
        Kind::Repeat(repeat) => Trigger::Repeat(required(repeat.subtrigger.as_deref())?),
    })
}

fn optional(inner: Option<&pb::Trigger>) -> Result<Option<Box<Trigger>>, Error> {
    inner.map(|inner| trigger(inner).map(Box::new)).transpose()
}

fn required(inner: Option<&pb::Trigger>) -> Result<Box<Trigger>, Error> {
    optional(inner)?.ok_or_else(|| Error::malformed("a trigger lacks the trigger inside it"))
}

fn list(inner: &[pb::Trigger]) -> Result<Vec<Trigger>, Error> {
    inner.iter().map(trigger).collect()
}

fn timestamp_transform(transform: &pb::TimestampTransform) -> Option<TimestampTransform> {
    use pb::timestamp_transform::TimestampTransform as Kind;
    Some(match transform.timestamp_transform.as_ref()? {
        Kind::Delay(delay) => TimestampTransform::Delay(delay.delay_millis),
        Kind::AlignTo(align) => TimestampTransform::AlignTo {
            period: align.period,
            offset: align.offset,
        },
    })
}

pub(crate) const GLOBAL: &str = "beam:window_fn:global_windows:v1";
const FIXED: &str = "beam:window_fn:fixed_windows:v1";
const SLIDING: &str = "beam:window_fn:sliding_windows:v1";
const SESSIONS: &str = "beam:window_fn:session_windows:v1";
