//! What a descriptor makes a harness read and write: the streams that each need an end.

use prost::Message;

use crate::proto::fn_execution::ProcessBundleDescriptor;
use crate::proto::pipeline::ParDoPayload;
use crate::proto::urn::{primitives, splittable_par_do_components};

const DATA_SOURCE: &str = "beam:runner:source:v1";
const DATA_SINK: &str = "beam:runner:sink:v1";

/// Names of the data sources, data sinks and timer families of a descriptor.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) sources: Vec<String>,
    pub(crate) sinks: Vec<String>,
    /// Transform and family.
    pub(crate) timer_families: Vec<(String, String)>,
}

impl Shape {
    pub(crate) fn of(descriptor: &ProcessBundleDescriptor) -> Self {
        let mut shape = Self::default();
        for (id, transform) in &descriptor.transforms {
            let Some(spec) = &transform.spec else {
                continue;
            };
            match spec.urn.as_str() {
                DATA_SOURCE => shape.sources.push(id.clone()),
                DATA_SINK => shape.sinks.push(id.clone()),
                primitives::PAR_DO
                | splittable_par_do_components::PROCESS_SIZED_ELEMENTS_AND_RESTRICTIONS => {
                    // A payload that cannot be read fails in the harness, with its words.
                    let payload = ParDoPayload::decode(spec.payload.clone()).unwrap_or_default();
                    let families = payload.timer_family_specs.into_keys();
                    shape
                        .timer_families
                        .extend(families.map(|family| (id.clone(), family)));
                }
                _ => {}
            }
        }
        shape
    }

    /// How many ends a bundle's output has.
    pub(crate) fn output_ends(&self) -> usize {
        self.sinks.len() + self.timer_families.len()
    }

    /// What ends with the end of this index, for people.
    pub(crate) fn end_name(&self, end: usize) -> String {
        let family = end.checked_sub(self.sinks.len());
        match (
            self.sinks.get(end),
            family.and_then(|end| self.timer_families.get(end)),
        ) {
            (Some(sink), _) => format!("output {sink:?}"),
            (None, Some((transform, family))) => format!("timers {family:?} of {transform:?}"),
            (None, None) => "an output".to_owned(),
        }
    }

    /// The index of a sink's end.
    pub(crate) fn sink_end(&self, transform: &str) -> Option<usize> {
        self.sinks.iter().position(|sink| sink == transform)
    }

    /// The index of a timer family's end.
    pub(crate) fn timer_end(&self, transform: &str, family: &str) -> Option<usize> {
        let position = self
            .timer_families
            .iter()
            .position(|(t, f)| t == transform && f == family)?;
        Some(self.sinks.len() + position)
    }
}
