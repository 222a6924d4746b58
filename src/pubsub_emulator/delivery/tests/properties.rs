//! What holds whatever happens: random scripts from fixed seeds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::pubsub_emulator::delivery::backlog::Standing;
use crate::pubsub_emulator::delivery::{
    AckId, Action, Backlog, Consumer, ConsumerId, DeliveryFaults, Limit, Message, Policy, Retry,
    Rng, Time,
};

const STEPS: usize = 1000;
const KEYS: [&str; 4] = ["", "a", "b", "c"];

struct World {
    now: Time,
    rng: Rng,
    backlog: Backlog,
    published: u64,
    next_consumer: u64,
    streams: Vec<ConsumerId>,
    out: Vec<AckId>,
    buried: BTreeSet<u64>,
    ordering: bool,
    drained: bool,
}

impl World {
    fn new(seed: u64, policy: Policy, faults: DeliveryFaults) -> World {
        let ordering = policy.ordering;
        let mut backlog = Backlog::new(1, policy);
        backlog.set_faults(faults);
        World {
            now: Time::default(),
            rng: Rng::new(seed),
            backlog,
            published: 0,
            next_consumer: 1,
            streams: Vec::new(),
            out: Vec::new(),
            buried: BTreeSet::new(),
            ordering,
            drained: false,
        }
    }

    fn step(&mut self) {
        match self.rng.below(12) {
            0..3 => self.publish(),
            3 if self.streams.len() < 3 => self.open(),
            4 if self.rng.chance(0.2) => self.close(),
            3..8 => self.take(),
            8..10 => self.acknowledge(),
            10 => self.modify(),
            _ => self.advance(),
        }
        self.check();
    }

    fn publish(&mut self) {
        self.published += 1;
        let message = Message {
            id: self.published,
            publish_time: self.now,
            data: "12345".into(),
            attributes: Vec::new(),
            ordering_key: KEYS[self.rng.below(KEYS.len())].to_owned(),
        };
        let mut rng = self.rng.clone();
        self.backlog.publish(self.now, &Arc::new(message), &mut rng);
    }

    fn open(&mut self) {
        let client = ["x", "y"][self.rng.below(2)];
        let messages = [0, 1, 5][self.rng.below(3)];
        let consumer = Consumer::stream(client, Duration::from_secs(10), messages, 0);
        let id = ConsumerId(self.next_consumer);
        self.next_consumer += 1;
        self.backlog.open(id, consumer);
        self.streams.push(id);
    }

    fn close(&mut self) {
        if self.streams.is_empty() {
            return;
        }
        let id = self.streams.swap_remove(self.rng.below(self.streams.len()));
        let give_back = self.rng.chance(0.5);
        self.backlog.close(id, give_back);
    }

    fn take(&mut self) {
        if self.streams.is_empty() {
            return;
        }
        let id = self.streams[self.rng.below(self.streams.len())];
        let limit = Limit {
            messages: 1 + self.rng.below(4),
            bytes: u64::MAX,
        };
        let mut rng = self.rng.clone();
        for delivery in self.backlog.take(self.now, id, limit, &mut rng) {
            self.check_order(&delivery.message);
            self.out.push(AckId {
                subscription: 1,
                message: delivery.message.id,
                generation: delivery.generation,
            });
        }
    }

    /// Nothing earlier of a key may still be due when a message of it goes out.
    fn check_order(&self, message: &Message) {
        if !self.ordering || message.ordering_key.is_empty() {
            return;
        }
        for (id, entry) in self.backlog.entries.range(..message.id) {
            let is_same = entry.message.ordering_key == message.ordering_key;
            let is_due = matches!(entry.standing, Standing::Ready | Standing::Waiting { .. });
            assert!(!is_same || !is_due, "{id} is overtaken by {}", message.id);
        }
    }

    fn acknowledge(&mut self) {
        if self.out.is_empty() {
            return;
        }
        let ack_id = self.out.swap_remove(self.rng.below(self.out.len()));
        let mut rng = self.rng.clone();
        self.backlog.acknowledge(ack_id, &mut rng);
    }

    fn modify(&mut self) {
        if self.out.is_empty() {
            return;
        }
        let ack_id = self.out[self.rng.below(self.out.len())];
        let seconds = [0, 0, 5, 30][self.rng.below(4)];
        self.backlog.modify_deadline(self.now, ack_id, seconds);
    }

    fn advance(&mut self) {
        let by = Duration::from_millis(500 * u64::try_from(self.rng.below(8)).expect("small"));
        self.now = self.now.plus(by);
        self.backlog.advance(self.now);
        assert!(
            self.backlog.next_wakeup() > self.now,
            "all that is due is done"
        );
    }

    fn check(&mut self) {
        while let Some(action) = self.backlog.poll_action() {
            if let Action::DeadLetter { message, .. } = action {
                assert!(self.buried.insert(message.id), "a letter is written once");
            }
        }
        let entries = &self.backlog.entries;
        let mut held: BTreeMap<ConsumerId, u64> = BTreeMap::new();
        let (mut leased, mut waiting, mut behind) = (0, 0, 0);
        for entry in entries.values() {
            match entry.standing {
                Standing::Leased { consumer, .. } => {
                    leased += 1;
                    *held.entry(consumer).or_default() += 1;
                }
                Standing::Waiting { .. } => waiting += 1,
                Standing::Behind => behind += 1,
                Standing::Ready => {}
            }
        }
        let tally = self.backlog.tally;
        assert_eq!(
            (tally.leased, tally.waiting, tally.behind),
            (leased, waiting, behind)
        );
        for (id, consumer) in self.backlog.consumers() {
            assert_eq!(
                consumer.messages,
                held.get(&id).copied().unwrap_or(0),
                "{id:?}"
            );
        }
        let acked = self.backlog.counters.acked;
        let gone = acked + u64::try_from(self.buried.len()).expect("small");
        let here = u64::try_from(entries.len()).expect("small");
        assert_eq!(gone + here, self.published, "no message is lost or made up");
    }

    /// Acknowledges whatever comes until nothing is left.
    fn drain(&mut self) {
        self.backlog.set_faults(DeliveryFaults::default());
        for id in std::mem::take(&mut self.streams) {
            self.backlog.close(id, true);
        }
        self.backlog.open(
            ConsumerId(u64::MAX),
            Consumer::stream("", Duration::from_secs(10), 0, 0),
        );
        self.streams.push(ConsumerId(u64::MAX));
        for _ in 0..200 {
            self.out.clear();
            self.take();
            while !self.out.is_empty() {
                let ack_id = self.out.remove(0);
                let mut rng = self.rng.clone();
                self.backlog.acknowledge(ack_id, &mut rng);
            }
            self.now = self.now.plus(Duration::from_secs(1));
            self.backlog.advance(self.now);
            self.check();
            self.drained = self.backlog.entries.is_empty();
        }
    }
}

fn run(seed: u64, policy: Policy, faults: DeliveryFaults) {
    let mut world = World::new(seed, policy, faults);
    for _ in 0..STEPS {
        world.step();
    }
    // Everything can still be delivered and acknowledged, so nothing is stuck.
    while !world.drained {
        let before = world.backlog.entries.len();
        world.drain();
        assert!(
            world.drained || world.backlog.entries.len() < before,
            "seed {seed}: {before} messages are stuck"
        );
    }
}

#[test]
fn nothing_is_lost_stuck_or_out_of_order() {
    let chaos = DeliveryFaults {
        duplicate_rate: 0.1,
        duplicate_delay_seconds: 1.0,
        lost_ack_rate: 0.1,
        delivery_delay_seconds: 0.1,
        delivery_jitter_seconds: 3.0,
        reorder_window: 5,
        ..DeliveryFaults::default()
    };
    let retry = Some(Retry {
        minimum: Duration::from_secs(1),
        maximum: Duration::from_secs(5),
    });
    for seed in 0..24 {
        let policy = Policy {
            ordering: seed % 2 == 0,
            exactly_once: seed % 3 == 0,
            retry: if seed % 4 < 2 { retry } else { None },
            attempts_max: (seed % 5 == 0).then_some(5),
            ..Policy::default()
        };
        let faults = if seed % 6 < 3 {
            chaos
        } else {
            DeliveryFaults::default()
        };
        run(seed, policy, faults);
    }
}
