//! Model and job types as messages of the Job API.

use std::collections::BTreeMap;

use prost_types::{Struct, Timestamp, Value, value::Kind};

use crate::job::messages::{Importance, JobEvent, Message};
use crate::job::record::JobRecord;
use crate::model::JobState;
use crate::proto::job_management::{
    JobInfo, JobMessage, JobMessagesResponse, JobStateEvent, job_message, job_messages_response,
    job_state,
};

/// A state on the wire.
pub(super) fn state(state: JobState) -> job_state::Enum {
    match state {
        JobState::Stopped => job_state::Enum::Stopped,
        JobState::Starting => job_state::Enum::Starting,
        JobState::Running => job_state::Enum::Running,
        JobState::Draining => job_state::Enum::Draining,
        JobState::Updating => job_state::Enum::Updating,
        JobState::Cancelling => job_state::Enum::Cancelling,
        JobState::Done => job_state::Enum::Done,
        JobState::Failed => job_state::Enum::Failed,
        JobState::Cancelled => job_state::Enum::Cancelled,
        JobState::Drained => job_state::Enum::Drained,
        JobState::Updated => job_state::Enum::Updated,
    }
}

/// A state and when it was entered.
pub(super) fn state_event(entered: JobState, unix_millis: i64) -> JobStateEvent {
    JobStateEvent {
        state: state(entered).into(),
        timestamp: Some(Timestamp {
            seconds: unix_millis.div_euclid(1_000),
            nanos: i32::try_from(unix_millis.rem_euclid(1_000) * 1_000_000).unwrap_or(0),
        }),
    }
}

/// An entry of the message stream.
pub(super) fn event(event: &JobEvent, number: u64) -> JobMessagesResponse {
    let response = match event {
        JobEvent::Message(said) => {
            job_messages_response::Response::MessageResponse(message(said, number))
        }
        JobEvent::State(entered, time) => {
            job_messages_response::Response::StateResponse(state_event(*entered, *time))
        }
    };
    JobMessagesResponse {
        response: Some(response),
    }
}

fn message(said: &Message, number: u64) -> JobMessage {
    let importance = match said.importance {
        Importance::Debug => job_message::MessageImportance::JobMessageDebug,
        Importance::Detailed => job_message::MessageImportance::JobMessageDetailed,
        Importance::Basic => job_message::MessageImportance::JobMessageBasic,
        Importance::Warning => job_message::MessageImportance::JobMessageWarning,
        Importance::Error => job_message::MessageImportance::JobMessageError,
    };
    let message_text = match &said.transform {
        Some(transform) if !said.text.contains(transform.as_str()) => {
            format!("{transform}: {}", said.text)
        }
        Some(_) | None => said.text.clone(),
    };
    JobMessage {
        message_id: number.to_string(),
        time: rfc3339(said.time),
        importance: importance.into(),
        message_text,
    }
}

/// A job in the list of jobs.
pub(super) fn job_info(job: &JobRecord) -> JobInfo {
    JobInfo {
        job_id: job.id().to_owned(),
        job_name: job.name().to_owned(),
        pipeline_options: Some(redacted(job.options())),
        state: state(job.state()).into(),
    }
}

/// Options without what looks like a secret, for showing.
fn redacted(options: &Struct) -> Struct {
    const SECRETS: [&str; 5] = ["password", "secret", "token", "credential", "api_key"];
    let fields: BTreeMap<String, Value> = options
        .fields
        .iter()
        .map(|(key, value)| {
            let name = key.to_ascii_lowercase();
            let secret = SECRETS.iter().any(|word| name.contains(word));
            let value = match &value.kind {
                Some(Kind::StringValue(text)) if secret && !text.is_empty() => Value {
                    kind: Some(Kind::StringValue("(redacted)".to_owned())),
                },
                Some(Kind::StructValue(object)) => Value {
                    kind: Some(Kind::StructValue(redacted(object))),
                },
                _ => value.clone(),
            };
            (key.clone(), value)
        })
        .collect();
    Struct { fields }
}

/// A time as text, in UTC.
fn rfc3339(unix_millis: i64) -> String {
    let days = unix_millis.div_euclid(86_400_000);
    let millis = unix_millis.rem_euclid(86_400_000);
    let (year, month, day) = civil_date(days);
    let seconds = millis / 1_000;
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}Z",
        seconds / 3_600,
        seconds / 60 % 60,
        seconds % 60,
        millis % 1_000
    )
}

/// The date of a day counted from 1970-01-01.
///
/// Counts in years that begin in March, so that a leap day is the last day of its year.
fn civil_date(days: i64) -> (i64, i64, i64) {
    let since_0000_march = days + 719_468;
    let era = since_0000_march.div_euclid(146_097);
    let day_of_era = since_0000_march.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_as_text() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (951_827_696_789, "2000-02-29T12:34:56.789Z"),
            (1_798_761_600_000, "2027-01-01T00:00:00.000Z"),
            (4_107_542_399_999, "2100-02-28T23:59:59.999Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(rfc3339(millis), text);
        }
    }

    #[test]
    fn secrets_are_not_listed() {
        let text = |text: &str| Value {
            kind: Some(Kind::StringValue(text.to_owned())),
        };
        let mut options = Struct::default();
        options
            .fields
            .insert("beam:option:db_password:v1".into(), text("hunter2"));
        options
            .fields
            .insert("beam:option:project:v1".into(), text("p"));
        let shown = redacted(&options);
        assert_eq!(
            shown.fields["beam:option:db_password:v1"],
            text("(redacted)")
        );
        assert_eq!(shown.fields["beam:option:project:v1"], text("p"));
    }
}
