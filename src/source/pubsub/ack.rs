//! Which deliveries are held, until when their leases last, and what to acknowledge them by.
//!
//! A message is held from its first delivery until it is acknowledged or given back. While it is
//! held its lease is extended whenever half of it has passed, for ever. The server may deliver a
//! held message again (its lease ran out while the network was down, a stream broke, or for no
//! reason): that delivery is absorbed, since the earlier one is still being worked on, and from then
//! on the message is known by the newer ack id, the only one that is sure to be valid.
//!
//! Invariant: a held message is in exactly one of the two lists of leases, unless its lease is lost
//! and the next delivery has not come; each list is in order of the time its leases are due.

use bytes::Bytes;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::model::{Millis, Timestamp};
use crate::source::pubsub::keys::hash64;

/// Names one held message in the calls that end its holding. Never used twice by a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Receipt(pub u64);

impl Receipt {
    const fn new(slot: u32, generation: u32) -> Self {
        Self((generation as u64) << 32 | slot as u64)
    }

    const fn slot(self) -> u32 {
        self.0 as u32
    }

    const fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// A message as it came off the wire.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The server's name for the message.
    pub message_id: Bytes,
    /// The server's name for this delivery.
    pub ack_id: Bytes,
    /// What the message weighs against the limit on held bytes.
    pub bytes: usize,
    /// The event time, handed back when the message is no longer held.
    pub timestamp: Timestamp,
}

/// A message that is no longer held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// What to acknowledge or give it back by.
    pub ack_id: Bytes,
    /// Its event time.
    pub timestamp: Timestamp,
}

/// All messages that a reader holds.
#[derive(Debug)]
pub struct Leases {
    first_extension: Millis,
    extension: Millis,
    slots: Vec<Slot>,
    free: Vec<u32>,
    by_message: HashTable<u32>,
    /// Leases as delivered, and leases that were extended.
    lists: [List; 2],
    bytes: usize,
}

impl Leases {
    /// An empty table. Leases are due for extension after `first_extension` once delivered, and
    /// after `extension` once extended.
    pub fn new(first_extension: Millis, extension: Millis) -> Self {
        Self {
            first_extension,
            extension,
            slots: Vec::new(),
            free: Vec::new(),
            by_message: HashTable::new(),
            lists: [List::EMPTY; 2],
            bytes: 0,
        }
    }

    /// Takes in a delivery. `None` says that its message was held already.
    pub fn deliver(&mut self, now: Timestamp, delivery: Delivery) -> Option<Receipt> {
        let hash = hash64(&delivery.message_id);
        let slots = &self.slots;
        let same = |slot: &u32| {
            slots
                .get(*slot as usize)
                .is_some_and(|slot| slot.message_id == delivery.message_id)
        };
        let rehash = |slot: &u32| {
            slots
                .get(*slot as usize)
                .map_or(0, |slot| hash64(&slot.message_id))
        };
        let (slot, is_new) = match self.by_message.entry(hash, same, rehash) {
            Entry::Occupied(entry) => (*entry.get(), false),
            Entry::Vacant(entry) => {
                let slot = self.free.pop().unwrap_or(slots.len() as u32);
                entry.insert(slot);
                (slot, true)
            }
        };
        if !is_new {
            self.unlink(slot);
            self.slots[slot as usize].ack_id = delivery.ack_id;
            self.link(slot, FRESH, now.plus(self.first_extension));
            return None;
        }
        self.bytes += delivery.bytes;
        let generation = self.fill(slot, delivery);
        self.link(slot, FRESH, now.plus(self.first_extension));
        Some(Receipt::new(slot, generation))
    }

    /// Ends the holding of a message; `None` if it ended before.
    pub fn settle(&mut self, receipt: Receipt) -> Option<Settled> {
        let index = receipt.slot();
        self.held(receipt)?;
        self.unlink(index);
        let slot = &mut self.slots[index as usize];
        let hash = hash64(&slot.message_id);
        let settled = Settled {
            ack_id: std::mem::take(&mut slot.ack_id),
            timestamp: slot.timestamp,
        };
        self.bytes -= slot.bytes;
        slot.bytes = 0;
        slot.is_held = false;
        slot.message_id = Bytes::new();
        slot.generation = slot.generation.wrapping_add(1);
        if let Ok(entry) = self.by_message.find_entry(hash, |other| *other == index) {
            entry.remove();
        }
        self.free.push(index);
        Some(settled)
    }

    /// Hands to `extend` every lease that is due at `now`, and counts it as extended then.
    pub fn extend_due(&mut self, now: Timestamp, mut extend: impl FnMut(Receipt, &Bytes)) {
        for list in [FRESH, EXTENDED] {
            while let Some(index) = self.lists[list].head() {
                if self.slots[index as usize].due > now {
                    break;
                }
                self.unlink(index);
                self.link(index, EXTENDED, now.plus(self.extension));
                let slot = &self.slots[index as usize];
                extend(Receipt::new(index, slot.generation), &slot.ack_id);
            }
        }
    }

    /// The server said that the lease named `ack_id` is gone: it is not extended any more, and the
    /// message goes on being held until its next delivery renews the lease.
    pub fn lose(&mut self, receipt: Receipt, ack_id: &Bytes) {
        if self.held(receipt).is_some_and(|slot| slot.ack_id == ack_id) {
            self.unlink(receipt.slot());
        }
    }

    /// Whether `ack_id` is what the held message is known by.
    pub fn is_current(&self, receipt: Receipt, ack_id: &Bytes) -> bool {
        self.held(receipt).is_some_and(|slot| slot.ack_id == ack_id)
    }

    /// When the next lease is due.
    pub fn next_due(&self) -> Option<Timestamp> {
        let due = |list: &List| Some(self.slots.get(list.head()? as usize)?.due);
        self.lists.iter().filter_map(due).min()
    }

    /// How many messages are held.
    pub fn len(&self) -> usize {
        self.by_message.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.by_message.is_empty()
    }

    /// How many bytes they have.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    fn held(&self, receipt: Receipt) -> Option<&Slot> {
        self.slots
            .get(receipt.slot() as usize)
            .filter(|slot| slot.is_held && slot.generation == receipt.generation())
    }

    fn fill(&mut self, index: u32, delivery: Delivery) -> u32 {
        if index as usize == self.slots.len() {
            self.slots.push(Slot::EMPTY);
        }
        let slot = &mut self.slots[index as usize];
        assert!(!slot.is_held, "a free slot is not held");
        slot.is_held = true;
        slot.message_id = delivery.message_id;
        slot.ack_id = delivery.ack_id;
        slot.bytes = delivery.bytes;
        slot.timestamp = delivery.timestamp;
        slot.generation
    }

    fn link(&mut self, index: u32, list: usize, due: Timestamp) {
        let last = self.lists[list].last;
        let slot = &mut self.slots[index as usize];
        slot.list = list as u8;
        slot.due = due;
        slot.before = last;
        slot.after = NONE;
        match self.slots.get_mut(last as usize) {
            Some(before) => before.after = index,
            None => self.lists[list].first = index,
        }
        self.lists[list].last = index;
    }

    fn unlink(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        let (list, before, after) = (slot.list as usize, slot.before, slot.after);
        slot.list = UNLISTED;
        let Some(list) = self.lists.get_mut(list) else {
            return;
        };
        match self.slots.get_mut(before as usize) {
            Some(slot) => slot.after = after,
            None => list.first = after,
        }
        match self.slots.get_mut(after as usize) {
            Some(slot) => slot.before = before,
            None => list.last = before,
        }
    }
}

/// A held message, or a place for one.
#[derive(Debug)]
struct Slot {
    message_id: Bytes,
    ack_id: Bytes,
    timestamp: Timestamp,
    due: Timestamp,
    bytes: usize,
    /// Counts the messages that were held here.
    generation: u32,
    before: u32,
    after: u32,
    list: u8,
    is_held: bool,
}

impl Slot {
    const EMPTY: Self = Self {
        message_id: Bytes::new(),
        ack_id: Bytes::new(),
        timestamp: Timestamp::MIN,
        due: Timestamp::MAX,
        bytes: 0,
        generation: 0,
        before: NONE,
        after: NONE,
        list: UNLISTED,
        is_held: false,
    };
}

/// The ends of a list that runs through the slots.
#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
}

impl List {
    const EMPTY: Self = Self {
        first: NONE,
        last: NONE,
    };

    fn head(&self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }
}

const FRESH: usize = 0;
const EXTENDED: usize = 1;
const UNLISTED: u8 = u8::MAX;
const NONE: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn delivery(message_id: &str, ack_id: &str) -> Delivery {
        Delivery {
            message_id: Bytes::copy_from_slice(message_id.as_bytes()),
            ack_id: Bytes::copy_from_slice(ack_id.as_bytes()),
            bytes: 10,
            timestamp: at(7),
        }
    }

    fn due(leases: &mut Leases, now: i64) -> Vec<String> {
        let mut ids = Vec::new();
        leases.extend_due(at(now), |_, ack_id| {
            ids.push(String::from_utf8(ack_id.to_vec()).unwrap());
        });
        ids
    }

    #[test]
    fn extends_until_acknowledged() {
        let mut leases = Leases::new(5, 15);
        let a = leases.deliver(at(0), delivery("a", "a1")).unwrap();
        let b = leases.deliver(at(2), delivery("b", "b1")).unwrap();
        assert_eq!(leases.next_due(), Some(at(5)));
        assert_eq!(due(&mut leases, 4), [""; 0]);
        assert_eq!(due(&mut leases, 7), ["a1", "b1"]);
        assert_eq!(due(&mut leases, 21), [""; 0]);
        assert_eq!(leases.settle(a).unwrap().ack_id, "a1");
        assert_eq!(leases.settle(a), None, "only once");
        for round in 0..1_000 {
            assert_eq!(due(&mut leases, 22 + 15 * round), ["b1"]);
        }
        assert_eq!((leases.len(), leases.bytes()), (1, 10));
        assert!(leases.settle(b).is_some());
        assert!(leases.is_empty() && leases.next_due().is_none());
    }

    #[test]
    fn absorbs_a_redelivery_and_goes_on_by_the_newer_ack_id() {
        let mut leases = Leases::new(5, 15);
        let a = leases.deliver(at(0), delivery("a", "a1")).unwrap();
        assert_eq!(leases.deliver(at(3), delivery("a", "a2")), None);
        assert_eq!(due(&mut leases, 5), [""; 0], "the newer lease is younger");
        assert_eq!(due(&mut leases, 8), ["a2"]);
        let settled = leases.settle(a).unwrap();
        assert_eq!((settled.ack_id, settled.timestamp), ("a2".into(), at(7)));
        let again = leases.deliver(at(9), delivery("a", "a3")).unwrap();
        assert_ne!(
            again, a,
            "a delivery after the ack has a receipt of its own"
        );
        assert_eq!(leases.settle(a), None);
        assert!(leases.settle(again).is_some());
    }

    #[test]
    fn a_lost_lease_rests_until_the_next_delivery() {
        let mut leases = Leases::new(5, 15);
        let a = leases.deliver(at(0), delivery("a", "a1")).unwrap();
        leases.lose(a, &"a0".into());
        assert_eq!(due(&mut leases, 5), ["a1"], "an older ack id is no news");
        leases.lose(a, &"a1".into());
        assert_eq!(leases.next_due(), None);
        assert_eq!(leases.deliver(at(30), delivery("a", "a2")), None);
        assert!(leases.is_current(a, &"a2".into()) && !leases.is_current(a, &"a1".into()));
        assert_eq!(due(&mut leases, 35), ["a2"]);
        leases.lose(a, &"a2".into());
        assert_eq!(leases.settle(a).unwrap().ack_id, "a2");
    }

    proptest! {
        /// Against a plain map: any order of deliveries, settlements and time keeps count, never
        /// lets a lease pass its due time, and hands out each receipt once.
        #[test]
        fn agrees_with_a_plain_map(steps in prop::collection::vec((0u8..4, 0u8..12), 0..300)) {
            let mut leases = Leases::new(5, 15);
            let mut model: BTreeMap<u8, (Receipt, String, i64)> = BTreeMap::new();
            let mut given = std::collections::BTreeSet::new();
            for (now, (what, id)) in (0i64..).zip(steps) {
                let name = format!("{id}");
                match what {
                    0 | 1 => {
                        let ack_id = format!("{id}/{now}");
                        match leases.deliver(at(now), delivery(&name, &ack_id)) {
                            Some(receipt) => {
                                prop_assert!(given.insert(receipt), "a receipt came back");
                                prop_assert!(model.insert(id, (receipt, ack_id, now + 5)).is_none());
                            }
                            None => {
                                let held = model.get_mut(&id).unwrap();
                                (held.1, held.2) = (ack_id, now + 5);
                            }
                        }
                    }
                    2 => if let Some((receipt, ack_id, _)) = model.remove(&id) {
                        prop_assert_eq!(leases.settle(receipt).unwrap().ack_id, ack_id);
                    },
                    _ => leases.extend_due(at(now), |receipt, ack_id| {
                        let held = model.values_mut().find(|held| held.0 == receipt).unwrap();
                        assert!(held.1.as_bytes() == ack_id && held.2 <= now);
                        held.2 = now + 15;
                    }),
                }
                prop_assert_eq!(leases.len(), model.len());
                prop_assert_eq!(leases.bytes(), 10 * model.len());
                prop_assert_eq!(leases.next_due(), model.values().map(|held| at(held.2)).min());
            }
        }
    }
}
