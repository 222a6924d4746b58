//! Refusals as gRPC statuses.

use std::collections::BTreeMap;

use prost::Message;
use tonic::Status;

use crate::pubsub_emulator::broker::Refusal;

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<prost_types::Any>,
}

/// `google.rpc.ErrorInfo`.
#[derive(Clone, PartialEq, Message)]
struct ErrorInfo {
    #[prost(string, tag = "1")]
    reason: String,
    #[prost(string, tag = "2")]
    domain: String,
    #[prost(btree_map = "string, string", tag = "3")]
    metadata: BTreeMap<String, String>,
}

/// The status of a refusal. Failed ack ids go into its details, where clients look for them.
pub(super) fn status(refusal: Refusal) -> Status {
    let Refusal {
        code,
        message,
        ack_errors,
    } = refusal;
    if ack_errors.is_empty() {
        return Status::new(code, message);
    }
    let errors = ack_errors.into_iter();
    let info = ErrorInfo {
        reason: "FAILED_ACK_IDS".to_owned(),
        domain: "pubsub.googleapis.com".to_owned(),
        metadata: errors
            .map(|(ack_id, error)| (ack_id, error.to_owned()))
            .collect(),
    };
    let details = RpcStatus {
        code: code.into(),
        message: message.clone(),
        details: vec![prost_types::Any {
            type_url: "type.googleapis.com/google.rpc.ErrorInfo".to_owned(),
            value: info.encode_to_vec(),
        }],
    };
    Status::with_details(code, message, details.encode_to_vec().into())
}
