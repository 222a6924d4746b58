//! Acknowledge and ModifyAckDeadline, unary and on streams.

use tonic::Code;

use super::refusal::{Refusal, Result};
use super::resources::{Broker, Subscription};
use crate::pubsub_emulator::delivery::{AckId, AckOutcome, Time};

/// A unary request may not be longer.
const REQUEST_BYTES_MAX: usize = 512 * 1024;
const DEADLINE_SECONDS_MAX: i32 = 600;

/// What became of the ack ids of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AckReport {
    /// These count.
    pub done: Vec<String>,
    /// These mean nothing any more.
    pub invalid: Vec<String>,
    /// These come before an earlier message of their ordering key.
    pub unordered: Vec<String>,
    /// These failed for now.
    pub failed: Vec<String>,
}

impl Broker {
    /// Acknowledge.
    pub fn acknowledge(&mut self, now: Time, name: &str, ack_ids: Vec<String>) -> Result<()> {
        self.subscription(name)?;
        check_unary(&ack_ids)?;
        let report = self.acknowledge_each(now, name, ack_ids)?;
        self.confirm(name, report)
    }

    /// ModifyAckDeadline.
    pub fn modify_ack_deadline(
        &mut self,
        now: Time,
        name: &str,
        ack_ids: Vec<String>,
        seconds: i32,
    ) -> Result<()> {
        self.subscription(name)?;
        check_unary(&ack_ids)?;
        let changes = ack_ids.into_iter().map(|ack_id| (ack_id, seconds));
        let report = self.modify_each(now, name, changes.collect())?;
        self.confirm(name, report)
    }

    /// Acknowledges deliveries and tells what became of each.
    pub(super) fn acknowledge_each(
        &mut self,
        now: Time,
        name: &str,
        ack_ids: Vec<String>,
    ) -> Result<AckReport> {
        let mut parsed = ack_ids
            .into_iter()
            .map(|text| Ok((parse(&text)?, text)))
            .collect::<Result<Vec<_>>>()?;
        // Within one request, a message never comes before an earlier one of its ordering key.
        parsed.sort_by_key(|(ack_id, _)| ack_id.message);
        let mut report = AckReport::default();
        let Broker {
            subscriptions, rng, ..
        } = self;
        if let Some(Subscription {
            backlog, active_at, ..
        }) = subscriptions.get_mut(name)
        {
            *active_at = now;
            for (ack_id, text) in parsed {
                report.add(backlog.acknowledge(ack_id, rng), text);
            }
        }
        self.settle(now, name);
        Ok(report)
    }

    /// Changes the deadline of each delivery and tells what became of it.
    pub(super) fn modify_each(
        &mut self,
        now: Time,
        name: &str,
        changes: Vec<(String, i32)>,
    ) -> Result<AckReport> {
        let parsed = changes
            .into_iter()
            .map(|(text, seconds)| Ok((parse(&text)?, deadline(seconds)?, text)))
            .collect::<Result<Vec<_>>>()?;
        let mut report = AckReport::default();
        let subscription = self.use_subscription(now, name)?;
        for (ack_id, seconds, text) in parsed {
            let outcome = subscription.backlog.modify_deadline(now, ack_id, seconds);
            report.add(outcome, text);
        }
        self.settle(now, name);
        Ok(report)
    }

    /// The answer to a unary request: only exactly-once delivery tells of failed ack ids.
    fn confirm(&self, name: &str, report: AckReport) -> Result<()> {
        let is_exactly_once = self
            .subscription(name)
            .is_ok_and(|one| one.backlog.policy().exactly_once);
        if !is_exactly_once {
            return Ok(());
        }
        let groups = [
            (report.invalid, "PERMANENT_FAILURE_INVALID_ACK_ID"),
            (report.unordered, "TRANSIENT_FAILURE_UNORDERED_ACK_ID"),
            (report.failed, "TRANSIENT_FAILURE_SERVICE_UNAVAILABLE"),
        ];
        let errors = groups
            .into_iter()
            .flat_map(|(ack_ids, error)| ack_ids.into_iter().map(move |ack_id| (ack_id, error)));
        let ack_errors: Vec<_> = errors.collect();
        if ack_errors.is_empty() {
            return Ok(());
        }
        Err(Refusal {
            code: Code::FailedPrecondition,
            message: format!("{} ack ids of the request did not count", ack_errors.len()),
            ack_errors,
        })
    }
}

impl AckReport {
    fn add(&mut self, outcome: AckOutcome, ack_id: String) {
        match outcome {
            AckOutcome::Done => self.done.push(ack_id),
            AckOutcome::Invalid => self.invalid.push(ack_id),
            AckOutcome::Unordered => self.unordered.push(ack_id),
            AckOutcome::Failed => self.failed.push(ack_id),
        }
    }

    /// Whether the request had no ack ids.
    pub fn is_empty(&self) -> bool {
        *self == AckReport::default()
    }
}

fn parse(text: &str) -> Result<AckId> {
    AckId::parse(text).ok_or_else(|| Refusal::invalid(format!("malformed ack id {text:?}")))
}

fn deadline(seconds: i32) -> Result<u64> {
    u64::try_from(seconds)
        .ok()
        .filter(|_| seconds <= DEADLINE_SECONDS_MAX)
        .ok_or_else(|| {
            Refusal::invalid(format!(
                "ack deadline of {seconds} s is not between 0 and {DEADLINE_SECONDS_MAX}"
            ))
        })
}

fn check_unary(ack_ids: &[String]) -> Result<()> {
    if ack_ids.is_empty() {
        return Err(Refusal::invalid("the request has no ack ids"));
    }
    // Tag and length of each id count too.
    let bytes: usize = ack_ids.iter().map(|ack_id| ack_id.len() + 2).sum();
    if bytes > REQUEST_BYTES_MAX {
        return Err(Refusal::invalid(format!(
            "the ack ids have {bytes} bytes, at most {REQUEST_BYTES_MAX} are allowed"
        )));
    }
    Ok(())
}
