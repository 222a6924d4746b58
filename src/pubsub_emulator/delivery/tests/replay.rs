//! Seek and snapshots.

use expect_test::expect;

use super::script::check;
use crate::pubsub_emulator::delivery::Policy;

#[test]
fn seek_to_a_time_brings_back_what_is_retained() {
    check(
        Policy {
            retain_acked: true,
            ..Policy::default()
        },
        "publish a
         at 1
         publish b
         at 2
         publish c
         stream s
         take s
         ack a#1 b#2
         stats
         seek 1
         take s
         ack c#3
         ack b#4
         stats
         seek 60
         take s
         stats
         publish d
         take s",
        &expect![[r#"
            s gets a#1 b#2 c#3
            backlog 1 (1 out, 1 B), retained 2, oldest Some(0.0), streams 1; delivered 3, again 0, acked 2, nacked 0, expired 0, returned 0, dropped 0
            s gets b#4 c#5
            c#3 is Invalid
            backlog 1 (1 out, 1 B), retained 2, oldest Some(0.0), streams 1; delivered 5, again 0, acked 3, nacked 0, expired 0, returned 0, dropped 0
            s gets nothing
            backlog 0 (0 out, 0 B), retained 3, oldest None, streams 1; delivered 5, again 0, acked 3, nacked 0, expired 0, returned 0, dropped 0
            wake s
            s gets d#6
        "#]],
    );
}

#[test]
fn without_retention_only_the_backlog_can_be_sought() {
    check(
        Policy::default(),
        "publish a b
         stream s
         take s
         ack a#1
         seek 0
         take s",
        &expect![[r#"
            s gets a#1 b#2
            s gets b#3
        "#]],
    );
}

#[test]
fn seek_to_a_snapshot_restores_what_was_unacknowledged() {
    check(
        Policy::default(),
        "publish a b c
         stream s
         take s
         ack a#1
         snapshot
         ack b#2 c#3
         take s
         seek snapshot
         take s
         nack b#2
         extend b#2 10
         stats",
        &expect![[r#"
            s gets a#1 b#2 c#3
            s gets nothing
            wake s
            s gets b#4 c#5
            b#2 is Invalid
            b#2 is Invalid
            backlog 2 (2 out, 2 B), retained 0, oldest Some(0.0), streams 1; delivered 5, again 0, acked 3, nacked 0, expired 0, returned 0, dropped 0
        "#]],
    );
}

#[test]
fn oldest_unacked_counts_what_is_out() {
    check(
        Policy::default(),
        "publish a
         at 5
         publish b
         stream s
         take s
         at 7
         stats
         ack a#1
         stats
         ack b#2
         stats",
        &expect![[r#"
            s gets a#1 b#2
            backlog 2 (2 out, 2 B), retained 0, oldest Some(7.0), streams 1; delivered 2, again 0, acked 0, nacked 0, expired 0, returned 0, dropped 0
            backlog 1 (1 out, 1 B), retained 0, oldest Some(2.0), streams 1; delivered 2, again 0, acked 1, nacked 0, expired 0, returned 0, dropped 0
            backlog 0 (0 out, 0 B), retained 0, oldest None, streams 1; delivered 2, again 0, acked 2, nacked 0, expired 0, returned 0, dropped 0
        "#]],
    );
}
