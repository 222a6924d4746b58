//! A native read under the rig: what is acknowledged when, and how long a message is known.

use super::*;
use crate::engine::event::Message;
use crate::engine::tables::Tables as _;
use crate::model::stage::PubsubRead;

const MINUTE: i64 = 60_000;
/// In 2026: ids are not kept before 2020.
const START: i64 = 1_796_000_000_000;

fn reading() -> StageGraph {
    let mut builder = Builder::default();
    let kind = StageKind::PubsubRead(PubsubRead {
        transform: "read".to_owned(),
        topic: None,
        subscription: Some("projects/p/subscriptions/s".to_owned()),
        timestamp_attribute: None,
        id_attribute: None,
        with_attributes: false,
    });
    let read = builder.add("read", kind, &[], Some(Coder::Bytes));
    builder.par_do("work", read, None);
    builder.graph()
}

impl Rig {
    /// The source delivers a message, so many minutes after the start.
    fn deliver(&mut self, minute: i64, id: &'static str, receipt: u64) {
        let stage = StageId(0);
        self.now = Timestamp::from_millis(START + minute * MINUTE).max(self.now);
        let watermark = self.now.plus(-MINUTE);
        let message = Message {
            key: 0,
            dedup_id: Bytes::from_static(id.as_bytes()),
            timestamp: Timestamp::from_millis(5),
            element: Bytes::from_static(id.as_bytes()),
            receipt,
        };
        let messages = vec![message];
        for event in [
            Event::SourceWatermark { stage, watermark },
            Event::Messages { stage, messages },
        ] {
            self.inboxes.push_back((LaneId(0), event));
        }
        self.settle();
        // Watermarks are not what these tests are about.
        let kept = self
            .log
            .lines()
            .filter(|line| !line.starts_with("watermark"));
        self.log = kept.map(|line| format!("{line}\n")).collect();
    }
}

#[test]
fn all_deliveries_of_a_message_are_acknowledged_after_its_commit() {
    let mut rig = Rig::new(reading(), Settings::default());
    rig.deliver(0, "a", 1);
    rig.deliver(0, "a", 2);
    rig.check(expect![[r#"
        start b1 work [.a@5]
        Release(Duplicates { stage: StageId(0), count: 1 })
    "#]]);
    rig.finish(&[]);
    rig.check(expect![[r#"
        Release(Ack { stage: StageId(0), receipts: [1, 2] })
    "#]]);
    rig.deliver(0, "a", 3);
    rig.check(expect![[r#"
        Release(Duplicates { stage: StageId(0), count: 1 })
        Release(Ack { stage: StageId(0), receipts: [3] })
    "#]]);
}

#[test]
fn at_least_once_every_delivery_counts_and_is_acknowledged_by_itself() {
    let settings = Settings {
        at_least_once: true,
        ..Settings::default()
    };
    let mut rig = Rig::new(reading(), settings);
    rig.deliver(0, "a", 1);
    rig.deliver(0, "a", 2);
    rig.finish(&[]);
    rig.finish(&[]);
    rig.deliver(1, "a", 3);
    rig.check(expect![[r#"
        start b1 work [.a@5]
        Release(Ack { stage: StageId(0), receipts: [1] })
        start b2 work [.a@5]
        Release(Ack { stage: StageId(0), receipts: [2] })
        start b3 work [.a@5]
    "#]]);
    assert!(rig.lanes[0].1.dedup().is_empty());
}

#[test]
fn a_failed_bundle_acknowledges_nothing() {
    let settings = Settings {
        attempts_max: None,
        ..Settings::default()
    };
    let mut rig = Rig::new(reading(), settings);
    rig.deliver(0, "a", 1);
    rig.fail("no");
    rig.deliver(0, "a", 2);
    rig.wake();
    rig.finish(&[]);
    rig.check(expect![[r#"
        start b1 work [.a@5]
        Release(DiscardMetrics { bundle: BundleId(1) })
        Retrying { stage: StageId(1), failure: "no", attempt: 1 }
        Release(Duplicates { stage: StageId(0), count: 1 })
        start b2 work [.a@5]
        Release(Ack { stage: StageId(0), receipts: [1, 2] })
    "#]]);
}

/// Nothing but the source's watermark tells the lane of time: no timer, no look at a bundle.
#[test]
fn committed_ids_are_forgotten_after_ten_minutes_without_a_delivery() {
    let mut rig = Rig::new(reading(), Settings::default());
    rig.deliver(0, "a", 1);
    rig.finish(&[]);
    rig.deliver(9, "a", 2);
    rig.check(expect![[r#"
        start b1 work [.a@5]
        Release(Ack { stage: StageId(0), receipts: [1] })
        Release(Duplicates { stage: StageId(0), count: 1 })
        Release(Ack { stage: StageId(0), receipts: [2] })
    "#]]);
    rig.deliver(18, "a", 3);
    rig.check(expect![[r#"
        Release(Duplicates { stage: StageId(0), count: 1 })
        Release(Ack { stage: StageId(0), receipts: [3] })
    "#]]);
    assert_eq!(rig.lanes[0].1.dedup().len(), 1);
    rig.deliver(30, "b", 4);
    assert!(rig.lanes[0].1.dedup().is_empty());
    rig.deliver(30, "a", 5);
    rig.check(expect![[r#"
        start b2 work [.b@5]
    "#]]);
}
