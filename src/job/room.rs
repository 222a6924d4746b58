//! How many bundles a harness may run at a time, by what its environment says of it.

use crate::proto::pipeline::Environment;
use crate::proto::urn::{protocols, resource_hints};

/// How many bundles a harness may run at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bundles that work.
    pub bundles_max: u32,
    /// Dormant bundles beside which as many others may run.
    pub dormant_max: u32,
}

/// Bundles at a time for a harness that runs one at a time: while it works on one, others wait at hand, and
/// one that waits for its source does not keep the others out.
const BUNDLES_PER_SINGLE_CORE: u32 = 4;

/// Bundles at a time for each core of a harness that uses them all: while one works, the next is at hand.
const BUNDLES_PER_CORE: u32 = 2;

/// Dormant bundles for each core. A thread that waits costs little, but one that only seems to wait, since
/// it computes for long on one element, costs the memory of that element.
const DORMANT_PER_CORE: u32 = 30;

impl Room {
    /// Room in a harness of this environment, on a machine with so many cores.
    pub fn of(environment: &Environment, cores: u32) -> Self {
        let room = if is_multi_core(environment) {
            Self {
                bundles_max: cores * BUNDLES_PER_CORE,
                dormant_max: cores * DORMANT_PER_CORE,
            }
        } else {
            Self {
                bundles_max: BUNDLES_PER_SINGLE_CORE,
                dormant_max: 0,
            }
        };
        match bundles_hinted(environment) {
            Some(most) => {
                let bundles_max = room.bundles_max.min(most);
                Self {
                    bundles_max,
                    dormant_max: room.dormant_max.min(most - bundles_max),
                }
            }
            None => room,
        }
    }
}

/// How many bundles such a harness works on at a time.
pub fn useful_bundles(environment: &Environment, cores: u32) -> u32 {
    let cores = if is_multi_core(environment) { cores } else { 1 };
    cores.min(bundles_hinted(environment).unwrap_or(u32::MAX))
}

fn is_multi_core(environment: &Environment) -> bool {
    environment
        .capabilities
        .iter()
        .any(|urn| urn == protocols::MULTI_CORE_BUNDLE_PROCESSING)
}

/// How many bundles at a time the pipeline's author allows a harness.
fn bundles_hinted(environment: &Environment) -> Option<u32> {
    let hint = resource_hints::MAX_ACTIVE_BUNDLES_PER_WORKER;
    let text = environment.resource_hints.get(hint)?;
    let number: u32 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (number > 0).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(hint: Option<&str>) -> Environment {
        let name = resource_hints::MAX_ACTIVE_BUNDLES_PER_WORKER.to_owned();
        Environment {
            capabilities: vec![protocols::MULTI_CORE_BUNDLE_PROCESSING.to_owned()],
            resource_hints: hint
                .map(|hint| (name, hint.as_bytes().to_vec().into()))
                .into_iter()
                .collect(),
            ..Environment::default()
        }
    }

    fn room(environment: &Environment) -> (u32, u32) {
        let room = Room::of(environment, 2);
        (room.bundles_max, room.dormant_max)
    }

    #[test]
    fn only_a_harness_that_uses_every_core_lends_room() {
        assert_eq!(room(&environment(None)), (4, 60));
        assert_eq!(useful_bundles(&environment(None), 2), 2);
        let single = Environment::default();
        assert_eq!(room(&single), (4, 0));
        assert_eq!(useful_bundles(&single, 2), 1);
    }

    #[test]
    fn a_hint_bounds_all_bundles_of_a_harness() {
        let rooms =
            ["1", "3", "10", "1000", "0", "many"].map(|hint| room(&environment(Some(hint))));
        assert_eq!(rooms, [(1, 0), (3, 0), (4, 6), (4, 60), (4, 60), (4, 60)]);
        assert_eq!(useful_bundles(&environment(Some("1")), 2), 1);
    }
}
