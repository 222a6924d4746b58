//! google.pubsub.v1.Subscriber.

use googleapis_tonic_google_pubsub_v1::google::pubsub::v1 as pb;

use crate::pubsub_emulator::broker::Broker;

use super::call::{Call, service};
use super::pull::pull;
use super::streaming_pull::streaming_pull;

service!(
    /// Subscriptions, their messages, and snapshots of them.
    Subscriber, "google.pubsub.v1.Subscriber", {
        "CreateSubscription" => |call: Call| call.answer(|broker: &mut Broker, now, request| {
            broker.create_subscription(now, request)
        }),
        "GetSubscription" => |call: Call| call.answer(
            |broker: &mut Broker, now, request: pb::GetSubscriptionRequest| {
                broker.get_subscription(now, &request.subscription)
            },
        ),
        "UpdateSubscription" => |call: Call| call.answer(|broker: &mut Broker, now, request| {
            broker.update_subscription(now, request)
        }),
        "ListSubscriptions" => |call: Call| call.answer(|broker: &mut Broker, _, request| {
            broker.list_subscriptions(&request)
        }),
        "DeleteSubscription" => |call: Call| call.answer(
            |broker: &mut Broker, now, request: pb::DeleteSubscriptionRequest| {
                broker.delete_subscription(now, &request.subscription)
            },
        ),
        "ModifyAckDeadline" => |call: Call| call.answer(
            |broker: &mut Broker, now, request: pb::ModifyAckDeadlineRequest| {
                let seconds = request.ack_deadline_seconds;
                broker.modify_ack_deadline(now, &request.subscription, request.ack_ids, seconds)
            },
        ),
        "Acknowledge" => |call: Call| call.answer(
            |broker: &mut Broker, now, request: pb::AcknowledgeRequest| {
                broker.acknowledge(now, &request.subscription, request.ack_ids)
            },
        ),
        "Pull" => pull,
        "StreamingPull" => streaming_pull,
        "ModifyPushConfig" => |call: Call| call.answer(|broker: &mut Broker, now, request| {
            broker.modify_push_config(now, request)
        }),
        "GetSnapshot" => |call: Call| call.answer(
            |broker: &mut Broker, _, request: pb::GetSnapshotRequest| {
                broker.get_snapshot(&request.snapshot)
            },
        ),
        "ListSnapshots" => |call: Call| call.answer(|broker: &mut Broker, _, request| {
            broker.list_snapshots(&request)
        }),
        "CreateSnapshot" => |call: Call| call.answer(|broker: &mut Broker, now, request| {
            broker.create_snapshot(now, request)
        }),
        "UpdateSnapshot" => |call: Call| call.answer(|broker: &mut Broker, _, request| {
            broker.update_snapshot(request)
        }),
        "DeleteSnapshot" => |call: Call| call.answer(
            |broker: &mut Broker, _, request: pb::DeleteSnapshotRequest| {
                broker.delete_snapshot(&request.snapshot)
            },
        ),
        "Seek" => |call: Call| call.answer(|broker: &mut Broker, now, request: pb::SeekRequest| {
            broker.seek(now, &request)?;
            Ok(pb::SeekResponse {})
        }),
    }
);
