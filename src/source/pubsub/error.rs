//! What can go wrong with Pub/Sub, by who must act.

use std::time::Duration;

use prost::Message as _;
use tonic::{Code, Status};

/// A failed call, or a message that must not be sent.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The endpoint or the credentials cannot be used at all.
    #[error("cannot use the Pub/Sub endpoint {endpoint}: {reason}")]
    Endpoint {
        /// The host and port asked for.
        endpoint: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The resource does not exist.
    #[error("{resource} does not exist: {message}")]
    NotFound {
        /// Path of the topic or subscription.
        resource: String,
        /// The server's words.
        message: String,
    },
    /// The caller lacks a permission.
    #[error("no permission {permission} on {resource}: {message}")]
    PermissionDenied {
        /// Path of the topic or subscription.
        resource: String,
        /// The permission that the call needs.
        permission: String,
        /// The server's words.
        message: String,
    },
    /// Nothing can be pulled from the subscription as it is.
    #[error("{subscription} cannot be read: {reason}")]
    Unreadable {
        /// Its path.
        subscription: String,
        /// Why not, and what to do.
        reason: &'static str,
    },
    /// The server refuses the call as it stands; asking again does not help.
    #[error("{call} on {resource} was refused with {code:?}: {message}")]
    Refused {
        /// The RPC.
        call: &'static str,
        /// Path of the topic or subscription.
        resource: String,
        /// The gRPC status code.
        code: Code,
        /// The server's words.
        message: String,
    },
    /// The server could not be reached or was overloaded for as long as we were told to try.
    #[error("{call} on {resource} failed for {tried_for:?}, last with {code:?}: {message}")]
    Unavailable {
        /// The RPC.
        call: &'static str,
        /// Path of the topic or subscription.
        resource: String,
        /// How long it was tried.
        tried_for: Duration,
        /// The last gRPC status code.
        code: Code,
        /// The server's words.
        message: String,
    },
    /// A message that Pub/Sub does not accept; nothing of its call was sent.
    #[error("element {index} cannot be published: {reason}")]
    Element {
        /// Index of the element among those given.
        index: usize,
        /// Which limit it breaks.
        reason: String,
    },
    /// A path that names no topic or subscription.
    #[error("{path:?} is not the path of a {kind}: {reason}")]
    Path {
        /// "topic" or "subscription".
        kind: &'static str,
        /// The path as given.
        path: String,
        /// What is wrong with it.
        reason: &'static str,
    },
}

impl Error {
    /// Whether the same call may succeed later without anybody changing anything.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }

    /// The error of a call that `status` ended for good.
    pub(crate) fn permanent(call: &Call<'_>, status: &Status) -> Self {
        let resource = call.resource.to_owned();
        let message = status.message().to_owned();
        match status.code() {
            Code::NotFound => Self::NotFound { resource, message },
            Code::PermissionDenied | Code::Unauthenticated => Self::PermissionDenied {
                permission: permission_of(status).unwrap_or_else(|| call.permission.to_owned()),
                resource,
                message,
            },
            code => Self::Refused {
                call: call.name,
                resource,
                code,
                message,
            },
        }
    }

    /// The error of a call that kept failing with retryable codes.
    pub(crate) fn unavailable(call: &Call<'_>, status: &Status, tried_for: Duration) -> Self {
        Self::Unavailable {
            call: call.name,
            resource: call.resource.to_owned(),
            tried_for,
            code: status.code(),
            message: status.message().to_owned(),
        }
    }
}

/// A call as errors name it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    /// The RPC's name.
    pub(crate) name: &'static str,
    /// The permission it needs.
    pub(crate) permission: &'static str,
    /// The topic or subscription it is about.
    pub(crate) resource: &'a str,
}

/// `google.rpc.Status`, as it travels in a gRPC status's details.
#[derive(Clone, PartialEq, prost::Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<prost_types::Any>,
}

/// `google.rpc.ErrorInfo`.
#[derive(Clone, PartialEq, prost::Message)]
struct ErrorInfo {
    #[prost(string, tag = "1")]
    reason: String,
    #[prost(string, tag = "2")]
    domain: String,
    #[prost(btree_map = "string, string", tag = "3")]
    metadata: std::collections::BTreeMap<String, String>,
}

/// The metadata of the status's `ErrorInfo`s: for a failed acknowledgement under exactly-once
/// delivery, ack ids and what became of each.
pub(crate) fn error_metadata(status: &Status) -> impl Iterator<Item = (String, String)> {
    RpcStatus::decode(status.details())
        .unwrap_or_default()
        .details
        .into_iter()
        .filter(|detail| detail.type_url.ends_with("google.rpc.ErrorInfo"))
        .filter_map(|detail| ErrorInfo::decode(detail.value.as_slice()).ok())
        .flat_map(|info| info.metadata)
}

fn permission_of(status: &Status) -> Option<String> {
    error_metadata(status)
        .find(|(key, _)| key == "permission")
        .map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied(details: &[u8]) -> Status {
        Status::with_details(Code::PermissionDenied, "no", details.to_vec().into())
    }

    #[test]
    fn names_the_missing_permission() {
        let call = Call {
            name: "StreamingPull",
            permission: "pubsub.subscriptions.consume",
            resource: "projects/p/subscriptions/s",
        };
        assert_eq!(
            Error::permanent(&call, &denied(b"")).to_string(),
            "no permission pubsub.subscriptions.consume on projects/p/subscriptions/s: no"
        );
        let info = ErrorInfo {
            reason: "IAM_PERMISSION_DENIED".into(),
            domain: "pubsub.googleapis.com".into(),
            metadata: [("permission".to_owned(), "pubsub.x".to_owned())].into(),
        };
        let details = RpcStatus {
            code: 7,
            message: "no".into(),
            details: vec![prost_types::Any {
                type_url: "type.googleapis.com/google.rpc.ErrorInfo".into(),
                value: info.encode_to_vec(),
            }],
        };
        assert_eq!(
            Error::permanent(&call, &denied(&details.encode_to_vec())).to_string(),
            "no permission pubsub.x on projects/p/subscriptions/s: no"
        );
    }

    #[test]
    fn says_what_is_gone() {
        let call = Call {
            name: "Publish",
            permission: "pubsub.topics.publish",
            resource: "projects/p/topics/t",
        };
        assert_eq!(
            Error::permanent(&call, &Status::not_found("gone")).to_string(),
            "projects/p/topics/t does not exist: gone"
        );
        let error = Error::unavailable(&call, &Status::aborted("later"), Duration::from_secs(3));
        assert!(error.is_transient());
    }
}
