//! Faults on request.

use expect_test::expect;

use super::script::check_with;
use crate::pubsub_emulator::delivery::{DeliveryFaults, Policy};

#[test]
fn duplicates_follow_each_delivery() {
    check_with(
        Policy::default(),
        DeliveryFaults {
            duplicate_rate: 1.0,
            duplicate_delay_seconds: 2.0,
            ..DeliveryFaults::default()
        },
        "publish a b
         stream s
         take s
         ack b#2
         take s
         wakeup
         at 2
         take s
         at 4
         take s
         ack a#1
         stats",
        &expect![[r#"
            s gets a#1 b#2
            s gets nothing
            wakes at 2
            wake s
            s gets a#3
            s gets nothing
            backlog 0 (0 out, 0 B), retained 0, oldest None, streams 1; delivered 3, again 1, acked 2, nacked 0, expired 0, returned 0, dropped 0
        "#]],
    );
}

#[test]
fn lost_acks_bring_messages_back() {
    check_with(
        Policy::default(),
        DeliveryFaults {
            lost_ack_rate: 1.0,
            ..DeliveryFaults::default()
        },
        "publish a
         stream s
         take s
         ack a#1
         at 10
         take s
         stats",
        &expect![[r#"
            s gets a#1
            s gets a#2
            backlog 1 (1 out, 1 B), retained 0, oldest Some(10.0), streams 1; delivered 2, again 1, acked 0, nacked 0, expired 1, returned 0, dropped 0
        "#]],
    );
}

#[test]
fn failed_acks_of_exactly_once_are_told() {
    check_with(
        Policy {
            exactly_once: true,
            ..Policy::default()
        },
        DeliveryFaults {
            failed_ack_rate: 1.0,
            duplicate_rate: 1.0,
            ..DeliveryFaults::default()
        },
        "publish a
         stream s
         take s
         ack a#1
         take s
         stats",
        &expect![[r#"
            s gets a#1
            a#1 is Failed
            s gets nothing
            backlog 1 (1 out, 1 B), retained 0, oldest Some(0.0), streams 1; delivered 1, again 0, acked 0, nacked 0, expired 0, returned 0, dropped 0
        "#]],
    );
}

#[test]
fn withheld_messages_overtake_each_other() {
    check_with(
        Policy::default(),
        DeliveryFaults {
            delivery_delay_seconds: 1.0,
            delivery_jitter_seconds: 4.0,
            ..DeliveryFaults::default()
        },
        "stream s
         take s
         publish a b c d
         take s
         at 2
         take s
         at 3
         take s
         at 5
         take s",
        &expect![[r#"
            s gets nothing
            s gets nothing
            wake s
            s gets b#1
            s gets a#2
            s gets d#3 c#4
        "#]],
    );
}

#[test]
fn messages_are_drawn_from_a_window() {
    check_with(
        Policy::default(),
        DeliveryFaults {
            reorder_window: 3,
            ..DeliveryFaults::default()
        },
        "publish a b c d e f g h i j
         stream s
         take s",
        &expect![[r#"
            s gets a#1 b#2 c#3 d#4 f#5 e#6 h#7 g#8 j#9 i#10
        "#]],
    );
}

#[test]
fn a_stall_delivers_nothing_and_ends() {
    check_with(
        Policy::default(),
        DeliveryFaults {
            stall_every_seconds: 60.0,
            stall_seconds: 5.0,
            ..DeliveryFaults::default()
        },
        "publish a
         stream s
         take s
         wakeup
         at 5
         take s
         wakeup
         stall 3
         publish b
         take s
         at 8
         take s",
        &expect![[r#"
            s gets nothing
            wakes at 5
            wake s
            s gets a#1
            wakes at 15
            s gets nothing
            wake s
            s gets b#2
        "#]],
    );
}
