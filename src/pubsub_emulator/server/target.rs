//! The resource that a request is about.

use googleapis_tonic_google_pubsub_v1::google::pubsub::v1 as pb;

/// A request that names a resource, for the rules of faults.
pub(super) trait Target {
    /// The name of the topic, subscription, snapshot or project.
    fn target(&self) -> &str;
}

macro_rules! targets {
    ($($request:ident . $field:ident),* $(,)?) => {
        $(impl Target for pb::$request {
            fn target(&self) -> &str {
                &self.$field
            }
        })*
    };
}

targets!(
    Topic.name,
    GetTopicRequest.topic,
    PublishRequest.topic,
    ListTopicsRequest.project,
    ListTopicSubscriptionsRequest.topic,
    ListTopicSnapshotsRequest.topic,
    DeleteTopicRequest.topic,
    DetachSubscriptionRequest.subscription,
    Subscription.name,
    GetSubscriptionRequest.subscription,
    ListSubscriptionsRequest.project,
    DeleteSubscriptionRequest.subscription,
    ModifyAckDeadlineRequest.subscription,
    AcknowledgeRequest.subscription,
    PullRequest.subscription,
    StreamingPullRequest.subscription,
    ModifyPushConfigRequest.subscription,
    GetSnapshotRequest.snapshot,
    ListSnapshotsRequest.project,
    CreateSnapshotRequest.subscription,
    DeleteSnapshotRequest.snapshot,
    SeekRequest.subscription,
);

impl Target for pb::UpdateTopicRequest {
    fn target(&self) -> &str {
        self.topic.as_ref().map_or("", Target::target)
    }
}

impl Target for pb::UpdateSubscriptionRequest {
    fn target(&self) -> &str {
        self.subscription.as_ref().map_or("", Target::target)
    }
}

impl Target for pb::UpdateSnapshotRequest {
    fn target(&self) -> &str {
        self.snapshot.as_ref().map_or("", |snapshot| &snapshot.name)
    }
}
