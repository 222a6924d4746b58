//! Bundles that a harness has answered and whose output it does not end.
//!
//! They would wait for ever. They fail instead, and are tried again.

use std::sync::Weak;
use std::time::{Duration, Instant};

use crate::fnapi::connection::{Connection, Phase};
use crate::telemetry::clock;

/// How long after its response, and after the last data of its harness, a bundle waits for ends of its
/// output. They are on their way when it responds.
const OUTPUT_END_WITHIN: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// What the data stream of a harness did last.
#[derive(Debug, Default)]
pub(crate) struct Reception {
    last: Option<Instant>,
    /// Data has come for which there is no room yet: more may stand behind it.
    waits: bool,
}

impl Reception {
    /// Data has come, and waits for room.
    pub(crate) fn wait(&mut self) {
        self.waits = true;
    }

    /// Data has been taken.
    pub(crate) fn receive(&mut self, now: Instant) {
        self.waits = false;
        self.last = Some(now);
    }
}

/// Looks at a harness's bundles from time to time, for as long as it is connected.
pub(crate) async fn watch(connection: Weak<Connection>) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let Some(connection) = connection.upgrade() else {
            return;
        };
        if matches!(*connection.phase().borrow(), Phase::Lost(_)) {
            return;
        }
        connection.fail_overdue(clock::instant());
    }
}

impl Connection {
    /// Fails the bundles whose ends of output are overdue.
    pub(crate) fn fail_overdue(&self, now: Instant) {
        let received = {
            let reception = self.reception.lock();
            if reception.waits {
                return;
            }
            reception.last
        };
        for bundle in self.bundles() {
            if let Some(missing) = bundle.missing_end(now, received, OUTPUT_END_WITHIN) {
                let error = format!(
                    "the SDK harness {} of environment {} answered that the bundle is done, and then \
                     did not say within {}s that its {missing} has ended",
                    self.id,
                    self.environment,
                    OUTPUT_END_WITHIN.as_secs(),
                );
                self.fail(&bundle, error);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    use crate::fnapi::bundle::RunningBundle;
    use crate::fnapi::events::BundleResult;
    use crate::fnapi::metrics::RawMetrics;
    use crate::fnapi::shape::Shape;
    use crate::model::BundleId;

    fn bundle() -> RunningBundle {
        let shape = Shape {
            sources: Vec::new(),
            sinks: vec!["sink".to_owned()],
            timer_families: vec![("step".to_owned(), "family".to_owned())],
        };
        RunningBundle::new(BundleId(1), Arc::new(shape))
    }

    fn respond(bundle: &RunningBundle, now: Instant) {
        let result = BundleResult {
            residuals: Vec::new(),
            requires_finalization: false,
        };
        bundle.responded(now, (result, RawMetrics::Full(Vec::new())));
    }

    #[test]
    fn an_end_is_overdue_once_nothing_comes_after_the_response() {
        let start = clock::instant();
        let after = |seconds| start + Duration::from_secs(seconds);
        let bundle = bundle();
        let missing = |now, received| bundle.missing_end(now, received, OUTPUT_END_WITHIN);
        assert_eq!(missing(after(1_000), None), None, "it runs");
        respond(&bundle, after(1_000));
        assert_eq!(missing(after(1_059), None), None);
        let sink = "output \"sink\"".to_owned();
        assert_eq!(missing(after(1_060), None), Some(sink));
        let received = Some(after(1_050));
        assert_eq!(missing(after(1_060), received), None, "data still comes");
        bundle.output_ended(0);
        let timers = "timers \"family\" of \"step\"".to_owned();
        assert_eq!(missing(after(1_110), received), Some(timers));
        bundle.output_ended(1);
        assert_eq!(missing(after(2_000), received), None, "it has ended");
    }
}
