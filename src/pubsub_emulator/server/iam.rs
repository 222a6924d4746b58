//! google.iam.v1.IAMPolicy: policies are kept, and permissions granted but for the denied ones.

use bytes::Bytes;
use prost::Message;

use crate::pubsub_emulator::broker::Broker;

use super::call::{Call, service};
use super::target::Target;

/// `google.iam.v1.SetIamPolicyRequest`; the policy stays encoded.
#[derive(Clone, PartialEq, Message)]
struct SetIamPolicyRequest {
    #[prost(string, tag = "1")]
    resource: String,
    #[prost(bytes = "bytes", tag = "2")]
    policy: Bytes,
}

/// `google.iam.v1.GetIamPolicyRequest`.
#[derive(Clone, PartialEq, Message)]
struct GetIamPolicyRequest {
    #[prost(string, tag = "1")]
    resource: String,
}

/// `google.iam.v1.TestIamPermissionsRequest`.
#[derive(Clone, PartialEq, Message)]
struct TestIamPermissionsRequest {
    #[prost(string, tag = "1")]
    resource: String,
    #[prost(string, repeated, tag = "2")]
    permissions: Vec<String>,
}

/// `google.iam.v1.TestIamPermissionsResponse`.
#[derive(Clone, PartialEq, Message)]
struct TestIamPermissionsResponse {
    #[prost(string, repeated, tag = "1")]
    permissions: Vec<String>,
}

/// `google.iam.v1.Policy`.
#[derive(Clone, PartialEq, Message)]
struct Policy {
    #[prost(int32, tag = "1")]
    version: i32,
    #[prost(bytes = "bytes", repeated, tag = "4")]
    bindings: Vec<Bytes>,
    #[prost(bytes = "bytes", tag = "3")]
    etag: Bytes,
}

impl Target for SetIamPolicyRequest {
    fn target(&self) -> &str {
        &self.resource
    }
}

impl Target for GetIamPolicyRequest {
    fn target(&self) -> &str {
        &self.resource
    }
}

impl Target for TestIamPermissionsRequest {
    fn target(&self) -> &str {
        &self.resource
    }
}

service!(
    /// Access to resources.
    IamPolicy, "google.iam.v1.IAMPolicy", {
        "SetIamPolicy" => |call: Call| call.answer(
            |broker: &mut Broker, _, request: SetIamPolicyRequest| {
                broker.set_access(&request.resource, request.policy.clone())?;
                Ok(Policy::decode(request.policy).unwrap_or_default())
            },
        ),
        "GetIamPolicy" => |call: Call| call.answer(
            |broker: &mut Broker, _, request: GetIamPolicyRequest| {
                let policy = broker.access(&request.resource)?;
                Ok(Policy::decode(policy).unwrap_or_default())
            },
        ),
        "TestIamPermissions" => test_iam_permissions,
    }
);

async fn test_iam_permissions(call: Call) -> http::Response<tonic::body::Body> {
    let denied = call.shared.faults().denied_permissions;
    call.answer(
        move |_: &mut Broker, _, request: TestIamPermissionsRequest| {
            let asked = request.permissions.into_iter();
            Ok(TestIamPermissionsResponse {
                permissions: asked.filter(|one| !denied.contains(one)).collect(),
            })
        },
    )
    .await
}
