//! google.pubsub.v1.Publisher.

use googleapis_tonic_google_pubsub_v1::google::pubsub::v1 as pb;

use crate::pubsub_emulator::broker::Broker;

use super::call::{Call, service};

service!(
    /// Topics, and publishing to them.
    Publisher, "google.pubsub.v1.Publisher", {
        "CreateTopic" => |call: Call| call.answer(|broker: &mut Broker, _, request: pb::Topic| {
            broker.create_topic(request)
        }),
        "UpdateTopic" => |call: Call| call.answer(|broker: &mut Broker, _, request| {
            broker.update_topic(request)
        }),
        "Publish" => |call: Call| call.answer(|broker: &mut Broker, now, request| {
            let ids = broker.publish(now, request)?;
            let message_ids = ids.iter().map(ToString::to_string).collect();
            Ok(pb::PublishResponse { message_ids })
        }),
        "GetTopic" => |call: Call| call.answer(|broker: &mut Broker, _, request: pb::GetTopicRequest| {
            broker.get_topic(&request.topic)
        }),
        "ListTopics" => |call: Call| call.answer(|broker: &mut Broker, _, request| {
            broker.list_topics(&request)
        }),
        "ListTopicSubscriptions" => |call: Call| call.answer(|broker: &mut Broker, _, request| {
            broker.list_topic_subscriptions(&request)
        }),
        "ListTopicSnapshots" => |call: Call| call.answer(|broker: &mut Broker, _, request| {
            broker.list_topic_snapshots(&request)
        }),
        "DeleteTopic" => |call: Call| call.answer(|broker: &mut Broker, _, request: pb::DeleteTopicRequest| {
            broker.delete_topic(&request.topic)
        }),
        "DetachSubscription" => |call: Call| call.answer(
            |broker: &mut Broker, now, request: pb::DetachSubscriptionRequest| {
                broker.detach_subscription(now, &request.subscription)?;
                Ok(pb::DetachSubscriptionResponse {})
            },
        ),
    }
);
