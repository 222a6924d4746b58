//! Ordering keys.

use expect_test::expect;

use super::script::check;
use crate::pubsub_emulator::delivery::{Policy, Retry};

fn ordered() -> Policy {
    Policy {
        ordering: true,
        ..Policy::default()
    }
}

#[test]
fn a_key_goes_to_one_stream_while_it_is_out() {
    check(
        ordered(),
        "stream s
         stream t
         publish a1:a a2:a b1:b x
         take s 1
         take t 1
         take t
         take s
         publish a3:a
         take t
         take s
         ack a1#2 a2#3 a3#5
         publish a4:a
         take t
         take s",
        &expect![[r#"
            s gets x#1
            t gets a1#2
            t gets a2#3
            s gets b1#4
            t gets a3#5
            s gets nothing
            wake s
            t gets a4#6
            s gets nothing
        "#]],
    );
}

#[test]
fn a_nack_brings_back_all_later_ones_of_the_key() {
    check(
        ordered(),
        "stream s
         publish a1:a a2:a a3:a b1:b
         take s
         ack a3#3
         nack a1#1
         take s
         ack a2#2
         ack a1#5 a2#6 a3#7
         stats",
        &expect![[r#"
            s gets a1#1 a2#2 a3#3 b1#4
            s gets a1#5 a2#6 a3#7
            a2#2 is Invalid
            backlog 1 (1 out, 3 B), retained 0, oldest Some(0.0), streams 1; delivered 7, again 3, acked 3, nacked 1, expired 0, returned 0, dropped 0
        "#]],
    );
}

#[test]
fn an_ack_out_of_order_waits_for_the_earlier_ones() {
    check(
        ordered(),
        "stream s
         publish a1:a a2:a a3:a
         take s
         ack a2#2
         stats
         ack a1#1
         stats
         at 10
         take s",
        &expect![[r#"
            s gets a1#1 a2#2 a3#3
            backlog 2 (2 out, 9 B), retained 0, oldest Some(0.0), streams 1; delivered 3, again 0, acked 0, nacked 0, expired 0, returned 0, dropped 0
            backlog 1 (1 out, 3 B), retained 0, oldest Some(0.0), streams 1; delivered 3, again 0, acked 2, nacked 0, expired 0, returned 0, dropped 0
            s gets a3#4
        "#]],
    );
}

#[test]
fn exactly_once_refuses_acks_out_of_order() {
    check(
        Policy {
            exactly_once: true,
            ..ordered()
        },
        "stream s
         publish a1:a a2:a
         take s
         ack a2#2
         ack a1#1
         ack a2#2
         stats",
        &expect![[r#"
            s gets a1#1 a2#2
            a2#2 is Unordered
            backlog 0 (0 out, 0 B), retained 0, oldest None, streams 1; delivered 2, again 0, acked 2, nacked 0, expired 0, returned 0, dropped 0
        "#]],
    );
}

#[test]
fn a_key_waits_for_its_backoff() {
    let retry = Retry {
        minimum: std::time::Duration::from_secs(5),
        maximum: std::time::Duration::from_secs(60),
    };
    check(
        Policy {
            retry: Some(retry),
            ..ordered()
        },
        "stream s
         publish a1:a a2:a b1:b
         take s
         nack a1#1
         take s
         publish a3:a
         take s
         at 5
         take s",
        &expect![[r#"
            s gets a1#1 a2#2 b1#3
            s gets nothing
            wake s
            s gets nothing
            wake s
            s gets a1#4 a2#5 a3#6
        "#]],
    );
}

#[test]
fn a_pull_gets_a_key_only_when_nothing_of_it_is_out() {
    check(
        ordered(),
        "publish a1:a a2:a a3:a
         pull p
         take p 2
         close p keep
         pull q
         take q
         ack a1#1 a2#2
         take q",
        &expect![[r#"
            p gets a1#1 a2#2
            q gets nothing
            wake q
            q gets a3#3
        "#]],
    );
}

#[test]
fn a_closed_stream_returns_its_keys_in_order() {
    check(
        ordered(),
        "publish a1:a a2:a a3:a
         stream s
         take s
         close s return
         stream t
         take t",
        &expect![[r#"
            s gets a1#1 a2#2 a3#3
            t gets a1#4 a2#5 a3#6
        "#]],
    );
}

#[test]
fn a_dead_letter_lets_its_key_go_on() {
    check(
        Policy {
            attempts_max: Some(2),
            ..ordered()
        },
        "publish a1:a a2:a
         stream s
         take s
         nack a1#1
         take s
         nack a1#3
         take s",
        &expect![[r#"
            s gets a1#1/1 a2#2/1
            s gets a1#3/2 a2#4/1
            a1 is a dead letter after 2
            s gets nothing
        "#]],
    );
}
