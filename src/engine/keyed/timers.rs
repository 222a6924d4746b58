//! Timers that a running bundle sets and clears.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::coder;
use crate::engine::tables::{TimerId, TimerTable};
use crate::engine::watermark::Holds;
use crate::model::coder::Coder;
use crate::model::ids::StageId;
use crate::model::stage::TimerFamily;
use crate::model::time::Millis;
use crate::model::timer::{TimeDomain, Timer, TimerFiring};

/// The last word of a bundle on each timer that it touched.
#[derive(Debug, Default)]
pub struct TimerChanges {
    changes: BTreeMap<TimerId, (TimeDomain, Option<TimerFiring>)>,
}

/// A timer that is set from now on.
pub type SetTimer = (TimerId, TimerFiring);

impl TimerChanges {
    /// Takes encoded timers of the stage's family with this index.
    ///
    /// # Errors
    ///
    /// When the bytes are not timers of the family.
    pub fn add(
        &mut self,
        index: usize,
        family: &TimerFamily,
        mut bytes: Bytes,
    ) -> Result<(), coder::Error> {
        let Coder::Timer(key_coder, window_coder) = &family.coder else {
            return Err(coder::Error::WrongCoder("timer"));
        };
        while !bytes.is_empty() {
            let Timer {
                key,
                tag,
                windows,
                firing,
            } = coder::timer::read(key_coder, window_coder, &mut bytes)?;
            for window in windows {
                let id = TimerId {
                    key: key.clone(),
                    window,
                    family: index,
                    tag: tag.clone(),
                };
                self.changes.insert(id, (family.domain, firing));
            }
        }
        Ok(())
    }

    /// Commits the changes; `holds` follow.
    ///
    /// Harnesses know nothing of a TestStream that has processing time `clock_ahead` of their clock.
    pub fn apply(
        self,
        stage: StageId,
        clock_ahead: Millis,
        table: &mut impl TimerTable,
        holds: &mut Holds,
    ) -> Vec<SetTimer> {
        let mut set = Vec::new();
        for (id, (domain, firing)) in self.changes {
            let former = match firing {
                Some(mut firing) => {
                    if domain == TimeDomain::ProcessingTime {
                        firing.fire_at = firing.fire_at.plus(clock_ahead);
                    }
                    holds.add(firing.hold);
                    set.push((id.clone(), firing));
                    table.set(stage, domain, id, firing)
                }
                None => table.clear(stage, domain, &id),
            };
            if let Some(former) = former {
                holds.remove(former.hold);
            }
        }
        set
    }
}
