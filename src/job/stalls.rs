//! Bundles that show no progress for long, for people to hear of: user code may hang, or its harness.
//!
//! Nothing is ended for it: what takes an hour on purpose looks the same.

use std::collections::BTreeMap;
use std::hash::Hasher;
use std::time::{Duration, Instant};

use rustc_hash::FxHasher;

use crate::fnapi::ReportedMetric;
use crate::model::{BundleId, StageId, WorkerId};

/// How long a bundle may show nothing before people are told; then at twice that, and so on.
const PATIENCE: Duration = Duration::from_secs(300);

/// The running bundles of a job, and when each last showed that it gets on.
#[derive(Debug, Default)]
pub struct Stalls {
    bundles: BTreeMap<BundleId, Bundle>,
}

/// A bundle that shows no progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    pub bundle: BundleId,
    pub stage: StageId,
    /// How long it has run.
    pub running: Duration,
    /// How long it has shown nothing.
    pub quiet: Duration,
    /// How long its harness has left questions about it unanswered.
    pub unanswered: Duration,
}

#[derive(Debug)]
struct Bundle {
    stage: StageId,
    worker: WorkerId,
    started: Instant,
    progressed: Instant,
    answered: Instant,
    /// What the last report of progress measured.
    measured: u64,
    /// How long it may be quiet until people are told (again).
    patience: Duration,
}

impl Stalls {
    /// A bundle was given to a harness.
    pub fn begin(&mut self, now: Instant, bundle: BundleId, stage: StageId, worker: WorkerId) {
        let running = Bundle {
            stage,
            worker,
            started: now,
            progressed: now,
            answered: now,
            measured: 0,
            patience: PATIENCE,
        };
        self.bundles.insert(bundle, running);
    }

    /// The bundle put something out, or asked for state.
    pub fn progressed(&mut self, now: Instant, bundle: BundleId) {
        if let Some(running) = self.bundles.get_mut(&bundle) {
            running.progressed = now;
            running.patience = PATIENCE;
        }
    }

    /// The harness said what the bundle has measured so far: what counts work has changed when it gets on.
    pub fn answered(&mut self, now: Instant, bundle: BundleId, metrics: &[ReportedMetric]) {
        let Some(running) = self.bundles.get_mut(&bundle) else {
            return;
        };
        running.answered = now;
        let measured = fingerprint(metrics);
        if std::mem::replace(&mut running.measured, measured) != measured {
            self.progressed(now, bundle);
        }
    }

    /// The bundle ended.
    pub fn end(&mut self, bundle: BundleId) {
        self.bundles.remove(&bundle);
    }

    /// A harness is gone with its bundles.
    pub fn lose(&mut self, worker: WorkerId) {
        self.bundles.retain(|_, running| running.worker != worker);
    }

    /// The bundles that people are to hear of now.
    pub fn due(&mut self, now: Instant) -> Vec<Stall> {
        let mut due = Vec::new();
        for (&bundle, running) in &mut self.bundles {
            let quiet = now.saturating_duration_since(running.progressed);
            if quiet < running.patience {
                continue;
            }
            running.patience = quiet * 2;
            due.push(Stall {
                bundle,
                stage: running.stage,
                running: now.saturating_duration_since(running.started),
                quiet,
                unanswered: now.saturating_duration_since(running.answered),
            });
        }
        due
    }
}

impl Stall {
    /// What to tell people, who know the stage by this name.
    pub fn text(&self, stage: &str) -> String {
        let harness = if self.unanswered < PATIENCE / 2 {
            "its SDK harness still answers, so that user code may hang or just take long".to_owned()
        } else {
            format!(
                "its SDK harness has answered nothing about it for {}s, so that the harness may hang",
                self.unanswered.as_secs()
            )
        };
        format!(
            "{stage} has been processing a bundle ({}) for {}s, the last {}s without output, state \
             request or count: {harness}",
            self.bundle,
            self.running.as_secs(),
            self.quiet.as_secs(),
        )
    }
}

/// A number that changes with what metrics say, but for times, which pass also where nothing happens.
fn fingerprint(metrics: &[ReportedMetric]) -> u64 {
    let mut hasher = FxHasher::default();
    for metric in metrics {
        if !metric.info.urn.contains("msecs") {
            hasher.write(metric.info.urn.as_bytes());
            hasher.write(&metric.payload);
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use expect_test::expect;

    use super::*;

    use crate::proto::pipeline::MonitoringInfo;
    use crate::telemetry::clock;

    const BUNDLE: BundleId = BundleId(3);

    fn metric(urn: &str, payload: u8) -> ReportedMetric {
        ReportedMetric {
            info: Arc::new(MonitoringInfo {
                urn: urn.to_owned(),
                ..MonitoringInfo::default()
            }),
            payload: Bytes::copy_from_slice(&[payload]),
        }
    }

    fn running() -> (Stalls, impl Fn(u64) -> Instant) {
        let start = clock::instant();
        let mut stalls = Stalls::default();
        stalls.begin(start, BUNDLE, StageId(1), WorkerId(0));
        (stalls, move |seconds| start + Duration::from_secs(seconds))
    }

    #[test]
    fn people_hear_of_a_quiet_bundle_ever_less_often() {
        let (mut stalls, after) = running();
        let told = |stalls: &mut Stalls, seconds| !stalls.due(after(seconds)).is_empty();
        let at: Vec<u64> = (0..2_000)
            .filter(|second| told(&mut stalls, *second))
            .collect();
        assert_eq!(at, [300, 600, 1_200]);
        stalls.progressed(after(2_000), BUNDLE);
        assert!(!told(&mut stalls, 2_299));
        assert!(told(&mut stalls, 2_300));
        stalls.lose(WorkerId(0));
        assert!(!told(&mut stalls, 9_000));
    }

    #[test]
    fn counts_are_progress_and_times_are_not() {
        let (mut stalls, after) = running();
        let count = "beam:metric:element_count:v1";
        let time = "beam:metric:ptransform_execution_time:total_msecs:v1";
        stalls.answered(after(1), BUNDLE, &[metric(count, 1), metric(time, 1)]);
        stalls.answered(after(200), BUNDLE, &[metric(count, 1), metric(time, 2)]);
        assert_eq!(stalls.due(after(301)).len(), 1);
        stalls.answered(after(302), BUNDLE, &[metric(count, 2), metric(time, 2)]);
        assert_eq!(stalls.due(after(601)), []);
        stalls.end(BUNDLE);
        assert_eq!(stalls.due(after(9_000)), []);
    }

    #[test]
    fn the_text_says_whether_the_harness_answers() {
        let (mut stalls, after) = running();
        let [deaf] = &stalls.due(after(310))[..] else {
            panic!("not told");
        };
        expect!["Parse + Count has been processing a bundle (b3) for 310s, the last 310s without output, state request or count: its SDK harness has answered nothing about it for 310s, so that the harness may hang"]
            .assert_eq(&deaf.text("Parse + Count"));
        stalls.answered(after(600), BUNDLE, &[]);
        let [busy] = &stalls.due(after(920))[..] else {
            panic!("not told");
        };
        assert!(
            busy.text("s")
                .contains("answered nothing about it for 320s")
        );
        stalls.answered(after(1_900), BUNDLE, &[]);
        let [busy] = &stalls.due(after(1_901))[..] else {
            panic!("not told");
        };
        assert!(busy.text("s").contains("still answers"));
    }
}
