//! The language of the tables.
//!
//! One command a line: `at 5` (seconds), `publish a b:key`, `stream s messages=2 bytes=9 client=x
//! deadline=20 life=60 idle=60`, `pull p`, `take s 3`, `ack a#1 b#2`, `nack a#1`, `extend a#1 30`,
//! `close s keep|return`, `stall 5`, `snapshot`, `seek snapshot`, `seek 3`, `stats`, `wakeup`.
//! A delivery is written as `name#generation`, with `/attempt` where that is counted.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use crate::pubsub_emulator::delivery::{
    AckId, AckOutcome, Action, Backlog, Consumer, ConsumerId, DeliveryFaults, Limit, Message,
    Policy, Rng, Time,
};

/// Runs a script and compares what it says.
pub(super) fn check(policy: Policy, script: &str, expected: &expect_test::Expect) {
    check_with(policy, DeliveryFaults::default(), script, expected);
}

/// The same, with misbehaviour.
pub(super) fn check_with(
    policy: Policy,
    faults: DeliveryFaults,
    script: &str,
    expected: &expect_test::Expect,
) {
    let mut table = Table::new(policy, faults);
    for line in script
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        table.run(line);
    }
    expected.assert_eq(&table.output);
}

struct Table {
    now: Time,
    backlog: Backlog,
    rng: Rng,
    names: BTreeMap<u64, String>,
    consumers: BTreeMap<String, ConsumerId>,
    snapshot: Vec<Arc<Message>>,
    output: String,
}

impl Table {
    fn new(policy: Policy, faults: DeliveryFaults) -> Table {
        let mut backlog = Backlog::new(1, policy);
        backlog.set_faults(faults);
        Table {
            now: Time::default(),
            backlog,
            rng: Rng::new(7),
            names: BTreeMap::new(),
            consumers: BTreeMap::new(),
            snapshot: Vec::new(),
            output: String::new(),
        }
    }

    fn run(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (command, rest) = words.split_first().expect("a command");
        match *command {
            "at" => {
                self.now = Time::default().plus(seconds(rest[0]));
                self.backlog.advance(self.now);
            }
            "publish" => rest.iter().for_each(|name| self.publish(name)),
            "stream" | "pull" => self.open(command, rest),
            "take" => self.take(
                rest[0],
                rest.get(1).map_or(100, |n| n.parse().expect("a number")),
            ),
            "ack" => self.each(rest, Self::ack),
            "nack" => self.each(rest, |table, id| {
                table.backlog.modify_deadline(table.now, id, 0)
            }),
            "extend" => {
                let by: u64 = rest[1].parse().expect("a number");
                self.each(&rest[..1], |table, id| {
                    table.backlog.modify_deadline(table.now, id, by)
                });
            }
            "close" => self
                .backlog
                .close(self.consumers[rest[0]], rest[1] == "return"),
            "stall" => self.backlog.stall(self.now.plus(seconds(rest[0]))),
            "snapshot" => self.snapshot = self.backlog.unacked(),
            "seek" if rest[0] == "snapshot" => self.backlog.seek_to_messages(&self.snapshot),
            "seek" => self
                .backlog
                .seek_to_time(Time::default().plus(seconds(rest[0])), &[]),
            "stats" => self.stats(),
            "wakeup" => self.wakeup(),
            other => panic!("unknown command {other}"),
        }
        self.actions();
    }

    fn publish(&mut self, text: &str) {
        let (name, key) = text.split_once(':').unwrap_or((text, ""));
        let id = u64::try_from(self.names.len()).expect("small") + 1;
        self.names.insert(id, name.to_owned());
        let message = Message {
            id,
            publish_time: self.now,
            data: name.to_owned().into(),
            attributes: Vec::new(),
            ordering_key: key.to_owned(),
        };
        self.backlog
            .publish(self.now, &Arc::new(message), &mut self.rng);
    }

    fn open(&mut self, kind: &str, words: &[&str]) {
        let options: BTreeMap<_, _> = words
            .iter()
            .filter_map(|word| word.split_once('='))
            .collect();
        let number = |name: &str| {
            options
                .get(name)
                .map_or(0, |value| value.parse().expect("a number"))
        };
        let deadline = options
            .get("deadline")
            .map_or(Duration::from_secs(10), |text| seconds(text));
        let client = options.get("client").copied().unwrap_or_default();
        let mut consumer = match kind {
            "pull" => Consumer::pull(deadline),
            _ => Consumer::stream(client, deadline, number("messages"), number("bytes")),
        };
        consumer.active_at = self.now;
        if let Some(life) = options.get("life") {
            consumer.ends_at = self.now.plus(seconds(life));
        }
        consumer.idle_max = options.get("idle").map(|text| seconds(text));
        let id = ConsumerId(u64::try_from(self.consumers.len()).expect("small") + 1);
        self.consumers.insert(words[0].to_owned(), id);
        self.backlog.open(id, consumer);
    }

    fn take(&mut self, consumer: &str, messages: usize) {
        let limit = Limit {
            messages,
            bytes: u64::MAX,
        };
        let id = self.consumers[consumer];
        let deliveries = self.backlog.take(self.now, id, limit, &mut self.rng);
        let _ = write!(self.output, "{consumer} gets");
        for delivery in &deliveries {
            let name = &self.names[&delivery.message.id];
            let _ = write!(self.output, " {name}#{}", delivery.generation);
            if delivery.attempt > 0 {
                let _ = write!(self.output, "/{}", delivery.attempt);
            }
        }
        self.output.push_str(if deliveries.is_empty() {
            " nothing\n"
        } else {
            "\n"
        });
    }

    fn each(&mut self, words: &[&str], act: impl Fn(&mut Table, AckId) -> AckOutcome) {
        for word in words {
            let (name, generation) = word.split_once('#').expect("name#generation");
            let named = self.names.iter().find(|(_, one)| *one == name);
            let id = AckId {
                subscription: 1,
                message: *named.expect("published").0,
                generation: generation.parse().expect("a number"),
            };
            let outcome = act(self, id);
            if outcome != AckOutcome::Done {
                let _ = writeln!(self.output, "{word} is {outcome:?}");
            }
        }
    }

    fn ack(&mut self, id: AckId) -> AckOutcome {
        self.backlog.acknowledge(id, &mut self.rng)
    }

    fn stats(&mut self) {
        let stats = self.backlog.stats(self.now);
        let counters = stats.counters;
        let _ = writeln!(
            self.output,
            "backlog {} ({} out, {} B), retained {}, oldest {:?}, streams {}; delivered {}, again \
             {}, acked {}, nacked {}, expired {}, returned {}, dropped {}",
            stats.backlog,
            stats.outstanding,
            stats.backlog_bytes,
            stats.retained,
            stats.oldest_unacked_seconds,
            stats.streams,
            counters.delivered,
            counters.redelivered,
            counters.acked,
            counters.nacked,
            counters.expired,
            counters.returned,
            counters.dropped,
        );
    }

    fn wakeup(&mut self) {
        let at = self.backlog.next_wakeup();
        let at = if at == Time::NEVER {
            "never".to_owned()
        } else {
            format!("at {}", at.since(Time::default()).as_secs_f64())
        };
        let _ = writeln!(self.output, "wakes {at}");
    }

    fn actions(&mut self) {
        while let Some(action) = self.backlog.poll_action() {
            let (verb, id) = match action {
                Action::Wake(id) => ("wake", id),
                Action::End(id) => ("end", id),
                Action::DeadLetter { message, failures } => {
                    let name = &self.names[&message.id];
                    let _ = writeln!(self.output, "{name} is a dead letter after {failures}");
                    continue;
                }
            };
            let consumer = self.consumers.iter().find(|(_, one)| **one == id);
            let consumer = consumer.map_or("?", |(name, _)| name.as_str());
            let _ = writeln!(self.output, "{verb} {consumer}");
        }
    }
}

fn seconds(text: &str) -> Duration {
    Duration::from_secs_f64(text.parse().expect("seconds"))
}
