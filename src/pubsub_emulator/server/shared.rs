//! What all connections share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tonic::Code;

use crate::pubsub_emulator::broker::{Broker, Refusal};
use crate::pubsub_emulator::delivery::{ConsumerId, DeliveryFaults, Rng, Time};
use crate::pubsub_emulator::rules::{self, Verdict};
use crate::pubsub_emulator::settings::{Faults, Settings};

use super::clock::Clock;
use super::run::Error;

/// The timer looks at the clock at least this often.
const TIMER_WAIT_MAX: Duration = Duration::from_secs(3600);

/// The broker with its clock, and how sleeping consumers are woken.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) clock: Clock,
    pub(super) settings: Settings,
    broker: Mutex<Broker>,
    sleepers: Mutex<BTreeMap<ConsumerId, Arc<Notify>>>,
    timer: Notify,
    chaos: Mutex<Chaos>,
}

#[derive(Debug)]
struct Chaos {
    faults: Faults,
    rng: Rng,
}

impl Shared {
    pub(super) fn new(settings: Settings, clock: Clock, broker: Broker) -> Shared {
        let chaos = Chaos {
            faults: settings.faults.clone(),
            rng: Rng::new(settings.seed ^ 0x5EED),
        };
        Shared {
            clock,
            settings,
            broker: Mutex::new(broker),
            sleepers: Mutex::default(),
            timer: Notify::new(),
            chaos: Mutex::new(chaos),
        }
    }

    /// Does something with the broker, then wakes whom that concerns.
    pub(super) fn with<R>(&self, act: impl FnOnce(&mut Broker, Time) -> R) -> R {
        let mut broker = self.broker.lock();
        let now = self.clock.now();
        let before = broker.next_wakeup();
        let result = act(&mut broker, now);
        let wakes = broker.take_wakes();
        let is_sooner = broker.next_wakeup() < before;
        drop(broker);
        if is_sooner {
            self.timer.notify_one();
        }
        if !wakes.is_empty() {
            let sleepers = self.sleepers.lock();
            for consumer in wakes {
                if let Some(sleeper) = sleepers.get(&consumer) {
                    sleeper.notify_one();
                }
            }
        }
        result
    }

    /// Calls the broker whenever a moment of its has come. Never returns.
    pub(super) async fn keep_time(&self) {
        loop {
            let due = self.broker.lock().next_wakeup();
            let wait = due.since(self.clock.now()).min(TIMER_WAIT_MAX);
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.timer.notified() => {}
            }
            if self.clock.now() >= due {
                self.with(Broker::advance);
            }
        }
    }

    /// Sets the clock ahead, and does all that falls due by that.
    pub(super) fn advance(&self, by: Duration) {
        self.clock.advance(by);
        self.with(Broker::advance);
        self.timer.notify_one();
    }

    /// What wakes a consumer, until the guard is dropped.
    pub(super) fn guard(self: &Arc<Self>, id: ConsumerId) -> Guard {
        let sleeper = Arc::new(Notify::new());
        self.sleepers.lock().insert(id, Arc::clone(&sleeper));
        Guard {
            shared: Arc::clone(self),
            id,
            sleeper,
        }
    }

    /// What the rules make of a call.
    pub(super) fn judge(&self, method: &str, resource: &str) -> Verdict {
        let mut chaos = self.chaos.lock();
        let Chaos { faults, rng } = &mut *chaos;
        rules::judge(&mut faults.rpcs, rng, method, resource)
    }

    /// What goes wrong on purpose.
    pub(super) fn faults(&self) -> Faults {
        self.chaos.lock().faults.clone()
    }

    /// Lets other things go wrong from now on.
    pub(super) fn set_faults(&self, faults: Faults) -> Result<(), Error> {
        for rule in faults.rpcs.iter().filter(|rule| !rule.status.is_empty()) {
            Shared::code(&rule.status)?;
        }
        let delivery = faults.delivery;
        self.chaos.lock().faults = faults;
        self.with(|broker, now| broker.set_faults(now, None, Some(delivery)));
        Ok(())
    }

    /// Lets one subscription's delivery go wrong in its own way, or again like the others'.
    pub(super) fn set_faults_of(&self, subscription: &str, faults: Option<DeliveryFaults>) {
        self.with(|broker, now| broker.set_faults(now, Some(subscription), faults));
    }

    /// Ends streams with a status, and says how many there were.
    pub(super) fn kill_streams(
        &self,
        subscription: Option<&str>,
        status: &str,
    ) -> Result<usize, Error> {
        let death = Refusal::new(Shared::code(status)?, "the stream was ended on request");
        Ok(self.with(|broker, now| broker.kill_streams(now, subscription, &death)))
    }

    /// Delivers nothing for that long.
    pub(super) fn stall(&self, subscription: Option<&str>, lasting: Duration) {
        self.with(|broker, now| broker.stall(now, subscription, lasting));
    }

    /// The status code of that name.
    pub(super) fn code(status: &str) -> Result<Code, Error> {
        rules::code(status).ok_or_else(|| Error::UnknownStatus(status.to_owned()))
    }
}

/// A registered consumer; unregisters it when dropped, however that comes about.
#[derive(Debug)]
pub(super) struct Guard {
    pub(super) shared: Arc<Shared>,
    pub(super) id: ConsumerId,
    pub(super) sleeper: Arc<Notify>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.shared.sleepers.lock().remove(&self.id);
        self.shared.with(|broker, now| broker.close(now, self.id));
    }
}
