//! Leases, flow control, streams.

use expect_test::expect;

use super::script::check;
use crate::pubsub_emulator::delivery::Policy;

#[test]
fn a_lease_ends_by_ack_nack_or_deadline() {
    check(
        Policy::default(),
        "publish a b c
         stream s
         take s
         ack a#1
         nack b#2
         take s
         at 9.9
         take s
         at 10
         take s
         ack c#3
         ack b#5
         ack c#6
         stats
         wakeup",
        &expect![[r#"
            s gets a#1 b#2 c#3
            s gets b#4
            s gets nothing
            wake s
            s gets b#5 c#6
            c#3 is Invalid
            backlog 0 (0 out, 0 B), retained 0, oldest None, streams 1; delivered 6, again 3, acked 3, nacked 1, expired 2, returned 0, dropped 0
            wakes never
        "#]],
    );
}

#[test]
fn an_extended_lease_ends_later_or_sooner() {
    check(
        Policy::default(),
        "publish a b
         stream s deadline=20
         take s
         extend a#1 60
         extend b#2 5
         at 5
         take s
         at 59.9
         ack b#3
         take s
         at 60
         take s
         wakeup",
        &expect![[r#"
            s gets a#1 b#2
            s gets b#3
            b#3 is Invalid
            s gets b#4
            s gets a#5
            wakes at 79.9
        "#]],
    );
}

#[test]
fn an_old_ack_id_means_nothing_after_its_deadline() {
    check(
        Policy::default(),
        "publish a
         stream s
         take s
         at 10
         ack a#1
         nack a#1
         extend a#1 30
         take s
         ack a#1
         ack a#2
         ack a#2
         ack a#9",
        &expect![[r#"
            s gets a#1
            a#1 is Invalid
            a#1 is Invalid
            a#1 is Invalid
            s gets a#2
            a#1 is Invalid
            a#2 is Invalid
            a#9 is Invalid
        "#]],
    );
}

#[test]
fn flow_control_limits_what_is_out() {
    check(
        Policy::default(),
        "publish a b c dd ee f
         stream s messages=2
         take s
         take s
         ack a#1
         take s
         nack b#2
         close s return
         stream bytes bytes=3
         take bytes
         take bytes",
        &expect![[r#"
            s gets a#1 b#2
            s gets nothing
            wake s
            s gets c#3
            bytes gets b#4 c#5 dd#6
            bytes gets nothing
        "#]],
    );
}

#[test]
fn an_expired_lease_gives_its_credit_back() {
    check(
        Policy::default(),
        "publish a b
         stream s messages=1
         take s
         take s
         at 10
         take s
         ack a#2
         take s",
        &expect![[r#"
            s gets a#1
            s gets nothing
            wake s
            s gets a#2
            s gets b#3
        "#]],
    );
}

#[test]
fn streams_share_and_only_sleepers_are_woken() {
    check(
        Policy::default(),
        "stream s
         stream t
         take s
         publish a b c d
         take s
         take t
         take t
         take s
         publish e
         take t
         take s",
        &expect![[r#"
            s gets nothing
            wake s
            s gets a#1 b#2
            t gets c#3
            t gets d#4
            s gets nothing
            wake s
            t gets e#5
            s gets nothing
        "#]],
    );
}

#[test]
fn a_closed_stream_returns_its_messages_or_keeps_them_out() {
    check(
        Policy::default(),
        "publish a b
         stream s
         take s
         close s return
         stream t
         ack a#1
         take t
         ack b#2
         publish c
         take t
         close t keep
         stream u
         take u
         ack c#4
         stats",
        &expect![[r#"
            s gets a#1 b#2
            t gets b#3
            t gets c#4
            u gets nothing
            backlog 0 (0 out, 0 B), retained 0, oldest None, streams 1; delivered 4, again 1, acked 3, nacked 0, expired 0, returned 2, dropped 0
        "#]],
    );
}

#[test]
fn a_returned_message_can_be_extended_before_it_goes_out_again() {
    check(
        Policy::default(),
        "publish a
         stream s
         take s
         close s return
         extend a#1 30
         stream t
         take t
         at 30
         take t",
        &expect![[r#"
            s gets a#1
            t gets nothing
            wake t
            t gets a#2
        "#]],
    );
}

#[test]
fn streams_of_one_client_take_over_from_each_other() {
    check(
        Policy::default(),
        "publish a b c
         stream s client=x messages=2
         stream t client=x messages=2
         take s
         close s return
         take t
         ack a#1
         take t
         stats",
        &expect![[r#"
            s gets a#1 b#2
            t gets nothing
            wake t
            t gets c#3
            backlog 2 (2 out, 2 B), retained 0, oldest Some(0.0), streams 1; delivered 3, again 0, acked 1, nacked 0, expired 0, returned 0, dropped 0
        "#]],
    );
}

#[test]
fn exactly_once_keeps_what_is_out_and_tells_stale_ids() {
    check(
        Policy {
            exactly_once: true,
            ..Policy::default()
        },
        "publish a
         stream s
         take s
         close s return
         stream t
         take t
         at 10
         ack a#1
         take t
         extend a#1 20
         extend a#2 20
         ack a#2
         ack a#2
         stats",
        &expect![[r#"
            s gets a#1
            t gets nothing
            wake t
            a#1 is Invalid
            t gets a#2
            a#1 is Invalid
            a#2 is Invalid
            backlog 0 (0 out, 0 B), retained 0, oldest None, streams 1; delivered 2, again 1, acked 1, nacked 0, expired 1, returned 0, dropped 0
        "#]],
    );
}

#[test]
fn a_pull_keeps_what_it_got_until_the_deadline() {
    check(
        Policy::default(),
        "publish a b c
         pull p deadline=10
         take p 2
         close p return
         pull q
         take q
         close q return
         at 10
         pull r
         take r",
        &expect![[r#"
            p gets a#1 b#2
            q gets c#3
            r gets a#4 b#5 c#6
        "#]],
    );
}

#[test]
fn streams_end_when_old_or_idle() {
    check(
        Policy::default(),
        "stream old life=60
         stream idle idle=30
         wakeup
         at 20
         publish a
         take idle
         at 30
         wakeup
         at 50
         close idle return
         at 60",
        &expect![[r#"
            wakes at 30
            idle gets a#1
            wakes at 50
            end idle
            end old
        "#]],
    );
}

#[test]
fn old_messages_are_dropped_whoever_has_them() {
    check(
        Policy {
            retention: std::time::Duration::from_secs(600),
            ..Policy::default()
        },
        "publish a
         at 100
         publish b
         stream s
         take s 1
         wakeup
         extend a#1 600
         wakeup
         at 600
         stats
         wakeup
         ack a#1
         take s",
        &expect![[r#"
            s gets a#1
            wakes at 110
            wakes at 600
            backlog 1 (0 out, 1 B), retained 0, oldest Some(500.0), streams 1; delivered 1, again 0, acked 0, nacked 0, expired 0, returned 0, dropped 1
            wakes at 700
            a#1 is Invalid
            s gets b#2
        "#]],
    );
}
