//! google.iam.v1.IAMPolicy, with messages written by hand.

use prost::Message;
use tidemill::pubsub_emulator::{Faults, Settings};
use tonic::Code;
use tonic::client::Grpc;
use tonic_prost::ProstCodec;

use crate::rig::{Rig, TOPIC};

#[derive(Clone, PartialEq, Message)]
struct Permissions {
    #[prost(string, tag = "1")]
    resource: String,
    #[prost(string, repeated, tag = "2")]
    permissions: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct Granted {
    #[prost(string, repeated, tag = "1")]
    permissions: Vec<String>,
}

async fn call<Req, Res>(rig: &Rig, method: &'static str, request: Req) -> Result<Res, tonic::Status>
where
    Req: Message + 'static,
    Res: Message + Default + 'static,
{
    let endpoint =
        tonic::transport::Endpoint::from_shared(format!("http://{}", rig.emulator.addr()));
    let channel = endpoint
        .expect("an address")
        .connect()
        .await
        .expect("connects");
    let mut grpc = Grpc::new(channel);
    grpc.ready().await.expect("ready");
    let path = http::uri::PathAndQuery::from_static(method);
    let codec = ProstCodec::<Req, Res>::default();
    Ok(grpc
        .unary(tonic::Request::new(request), path, codec)
        .await?
        .into_inner())
}

#[tokio::test]
async fn permissions_are_granted_but_for_the_denied_ones() {
    let rig = Rig::start(Settings::default()).await;
    let asked = Permissions {
        resource: TOPIC.to_owned(),
        permissions: vec![
            "pubsub.topics.publish".to_owned(),
            "pubsub.topics.get".to_owned(),
        ],
    };
    let method = "/google.iam.v1.IAMPolicy/TestIamPermissions";
    let granted: Granted = call(&rig, method, asked.clone()).await.expect("answered");
    assert_eq!(granted.permissions, asked.permissions);
    let faults = Faults {
        denied_permissions: vec!["pubsub.topics.publish".to_owned()],
        ..Faults::default()
    };
    rig.emulator.set_faults(faults).expect("set");
    let granted: Granted = call(&rig, method, asked).await.expect("answered");
    assert_eq!(granted.permissions, ["pubsub.topics.get"]);
    let missing = Permissions {
        resource: TOPIC.to_owned(),
        permissions: vec![],
    };
    let method = "/google.iam.v1.IAMPolicy/GetIamPolicy";
    let status = call::<_, Granted>(&rig, method, missing)
        .await
        .expect_err("no such topic");
    assert_eq!(status.code(), Code::NotFound);
}
