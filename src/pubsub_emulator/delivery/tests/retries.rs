//! Backoff and dead letters.

use std::time::Duration;

use expect_test::expect;

use super::script::check;
use crate::pubsub_emulator::delivery::{Policy, Retry};

#[test]
fn a_failed_message_waits_longer_each_time() {
    let retry = Retry {
        minimum: Duration::from_secs(8),
        maximum: Duration::from_secs(30),
    };
    check(
        Policy {
            retry: Some(retry),
            ..Policy::default()
        },
        "publish a b
         stream s
         take s
         ack b#2
         nack a#1
         take s
         wakeup
         at 8
         take s
         at 18
         take s
         wakeup
         at 34
         take s
         nack a#4
         wakeup",
        &expect![[r#"
            s gets a#1 b#2
            s gets nothing
            wakes at 8
            wake s
            s gets a#3
            s gets nothing
            wakes at 34
            wake s
            s gets a#4
            wakes at 64
        "#]],
    );
}

#[test]
fn a_message_that_failed_too_often_is_a_dead_letter() {
    check(
        Policy {
            attempts_max: Some(3),
            ..Policy::default()
        },
        "publish a b
         stream s
         take s
         ack b#2
         nack a#1
         take s
         at 10
         take s
         nack a#4
         take s
         stats",
        &expect![[r#"
            s gets a#1/1 b#2/1
            s gets a#3/2
            s gets a#4/3
            a is a dead letter after 3
            s gets nothing
            backlog 0 (0 out, 0 B), retained 0, oldest None, streams 1; delivered 4, again 2, acked 1, nacked 2, expired 1, returned 0, dropped 0
        "#]],
    );
}
