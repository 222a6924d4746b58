//! Calls that are refused or delayed on purpose.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tonic::Code;

use super::broker::Refusal;
use super::delivery::Rng;

/// Delays calls, or refuses them, or breaks them after they took effect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RpcRule {
    /// The method it is about, like `Publish`; `*` is about all.
    pub method: String,
    /// The topic, subscription or snapshot it is about; any, where it is empty.
    #[serde(default)]
    pub resource: String,
    /// The status that the call fails with, like `UNAVAILABLE`; none only delays.
    #[serde(default)]
    pub status: String,
    /// The text of the status.
    #[serde(default)]
    pub message: String,
    /// How many of the calls it hits.
    #[serde(default = "always")]
    pub rate: f64,
    /// How often it hits before it is used up; none means without end.
    #[serde(default)]
    pub count: Option<u64>,
    /// How long the call waits.
    #[serde(default)]
    pub delay_seconds: f64,
    /// Whether the call takes effect before it fails, so that only its answer is lost.
    #[serde(default)]
    pub takes_effect: bool,
}

/// What the rules make of one call.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Verdict {
    pub(super) delay: Duration,
    pub(super) refusal: Option<Refusal>,
    pub(super) takes_effect: bool,
}

fn always() -> f64 {
    1.0
}

impl Default for RpcRule {
    fn default() -> RpcRule {
        RpcRule {
            method: "*".to_owned(),
            resource: String::new(),
            status: String::new(),
            message: String::new(),
            rate: always(),
            count: None,
            delay_seconds: 0.0,
            takes_effect: false,
        }
    }
}

impl RpcRule {
    fn fits(&self, method: &str, resource: &str) -> bool {
        (self.method == "*" || self.method == method)
            && (self.resource.is_empty() || self.resource == resource)
            && self.count != Some(0)
    }
}

/// What the rules make of a call; a rule that hits is counted down.
pub(super) fn judge(rules: &mut [RpcRule], rng: &mut Rng, method: &str, resource: &str) -> Verdict {
    for rule in rules {
        if !rule.fits(method, resource) || !rng.chance(rule.rate) {
            continue;
        }
        rule.count = rule.count.map(|count| count.saturating_sub(1));
        let message = if rule.message.is_empty() {
            format!("{method} fails by a rule of the emulator")
        } else {
            rule.message.clone()
        };
        let refusal = code(&rule.status).map(|code| Refusal::new(code, message));
        return Verdict {
            delay: Duration::try_from_secs_f64(rule.delay_seconds).unwrap_or_default(),
            refusal,
            takes_effect: rule.takes_effect,
        };
    }
    Verdict::default()
}

/// The status code of a name like `UNAVAILABLE`; none for an empty or unknown one.
pub(super) fn code(name: &str) -> Option<Code> {
    let codes = (0..=16).map(Code::from_i32);
    let spelled = |code: &Code| format!("{code:?}").to_uppercase();
    let wanted = name.replace('_', "").to_uppercase();
    codes
        .skip(1)
        .find(|code| spelled(code) == wanted && !wanted.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_status_names() {
        assert_eq!(code("UNAVAILABLE"), Some(Code::Unavailable));
        assert_eq!(code("resource_exhausted"), Some(Code::ResourceExhausted));
        assert_eq!(code("DATA_LOSS"), Some(Code::DataLoss));
        assert_eq!(code("OK"), None);
        assert_eq!(code("nonsense"), None);
    }

    #[test]
    fn a_rule_hits_what_it_is_about_until_it_is_used_up() {
        let mut rules = [RpcRule {
            method: "Publish".to_owned(),
            resource: "projects/p/topics/one".to_owned(),
            status: "ABORTED".to_owned(),
            count: Some(2),
            ..RpcRule::default()
        }];
        let mut rng = Rng::new(1);
        let calls = [
            ("Publish", "projects/p/topics/two"),
            ("Pull", "projects/p/topics/one"),
            ("Publish", "projects/p/topics/one"),
            ("Publish", "projects/p/topics/one"),
            ("Publish", "projects/p/topics/one"),
        ];
        let hits = calls.map(|(method, resource)| {
            let verdict = judge(&mut rules, &mut rng, method, resource);
            verdict.refusal.map(|refusal| refusal.code)
        });
        let hit = Some(Code::Aborted);
        assert_eq!(hits, [None, None, hit, hit, None]);
    }
}
