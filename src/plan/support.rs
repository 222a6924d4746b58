//! The one list of what Tidemill refuses for now; each refusal names the feature and a way out.

use crate::plan::error::Error;
use crate::plan::graph::{Graph, Transform};
use crate::proto::urn::requirements;

/// A valid feature of Beam that is not supported yet.
pub struct Refusal {
    pub feature: &'static str,
    pub urn: &'static str,
    pub remedy: &'static str,
    found: fn(&Transform, &Graph) -> bool,
}

/// Everything that is refused.
pub const REFUSED: &[Refusal] = &[Refusal {
    feature: "a splittable DoFn with state or timers",
    urn: requirements::REQUIRES_SPLITTABLE_DOFN,
    remedy: "put the state into a DoFn of its own behind the splittable one",
    found: |transform, _| {
        transform.par_do.as_ref().is_some_and(|par_do| {
            let keyed = !par_do.state_specs.is_empty() || !par_do.timer_family_specs.is_empty();
            keyed && !par_do.restriction_coder_id.is_empty()
        })
    },
}];

/// Refuses what is on the list.
pub(crate) fn check(graph: &Graph, refused: &[Refusal]) -> Result<(), Error> {
    for transform in &graph.transforms {
        if let Some(refusal) = refused
            .iter()
            .find(|refusal| (refusal.found)(transform, graph))
        {
            return Err(refusal.error().at(&transform.step));
        }
    }
    Ok(())
}

impl Refusal {
    fn error(&self) -> Error {
        let problem = format!("{} is not supported yet", self.feature);
        Error::unsupported(problem, self.remedy).urn(self.urn)
    }
}
