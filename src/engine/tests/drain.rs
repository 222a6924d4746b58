//! Drain under the rig: what is truncated, what is finished, and that the job ends.

use super::*;
use crate::model::stage::TruncateStep;

/// A splittable DoFn that can be truncated.
fn endless() -> StageGraph {
    let mut builder = Builder::default();
    let impulse = builder.impulse();
    let restrictions = builder.par_do("pair", impulse, Some(Coder::Bytes));
    builder.splittable("process", restrictions);
    let StageKind::Executable(process) = &mut builder.stages[2].kind else {
        unreachable!("it was just added");
    };
    process
        .splittable
        .as_mut()
        .expect("it is splittable")
        .truncate = Some(TruncateStep {
        descriptor: "truncate".to_owned(),
        source: "source".to_owned(),
        sink: "sink".to_owned(),
    });
    builder.graph()
}

fn residual(text: &str, delay: i64) -> Residual {
    Residual {
        application: BundleApplication {
            transform: "process".to_owned(),
            input: "in".to_owned(),
            element: encode(&[(5, text)]),
            output_watermarks: BTreeMap::from([("out".to_owned(), Timestamp::from_millis(7))]),
        },
        delay,
    }
}

/// A checkpoint of a bundle with one restriction.
fn given_back(text: &str) -> SplitOutcome {
    SplitOutcome {
        primaries: Vec::new(),
        residuals: vec![residual(text, 0)],
        channel_splits: vec![ChannelSplit {
            transform: "source".to_owned(),
            last_primary: -1,
            first_residual: 1,
        }],
    }
}

impl Rig {
    fn drain(&mut self) {
        self.inboxes.push_back((LaneId(0), Event::Drain));
        self.settle();
    }

    fn runs_truncation(&self) -> bool {
        self.started[0].truncates
    }
}

#[test]
fn a_delayed_restriction_is_truncated_once_and_then_finished() {
    let mut rig = Rig::new(endless(), Settings::default());
    rig.finish(&[(5, "all")]);
    rig.finish_with(&[(5, "0")], vec![residual("rest", 600_000)]);
    assert!(rig.started.is_empty(), "the rest waits");
    rig.drain();
    assert!(rig.runs_truncation());
    rig.finish(&[(5, "short")]);
    assert!(!rig.runs_truncation());
    rig.finish_with(&[(8, "1")], vec![residual("shorter", 0)]);
    assert!(!rig.runs_truncation(), "what was truncated is not again");
    rig.finish(&[(9, "2")]);
    assert!(rig.done());
    rig.check(expect![[r#"
        watermark impulse MAX
        start b1 pair [.@MIN]
        watermark pair MAX
        watermark process 5
        start b2 process [.all@5]
        watermark process 7
        start b3 process [.rest@5]
        start b4 process [.short@5]
        start b5 process [.shorter@5]
        watermark process MAX
    "#]]);
}

#[test]
fn a_running_restriction_is_given_back_and_truncated_to_nothing() {
    let mut rig = Rig::new(endless(), Settings::default());
    rig.finish(&[(5, "all")]);
    let bundle = rig.started[0].bundle;
    rig.drain();
    let outcome = given_back("rest");
    rig.tell(bundle, Event::Split { bundle, outcome });
    rig.finish(&[(5, "0")]);
    assert!(rig.runs_truncation());
    rig.finish(&[]);
    assert!(rig.done());
    rig.check(expect![[r#"
        watermark impulse MAX
        start b1 pair [.@MIN]
        watermark pair MAX
        watermark process 5
        start b2 process [.all@5]
        SplitBundle(SplitBundle { bundle: BundleId(2), stage: StageId(2), worker: WorkerId(0), keep: 0.0, elements: 1, only_if: Always })
        start b3 process [.rest@5]
        watermark process 7
        watermark process MAX
    "#]]);
}

#[test]
fn what_a_split_gives_back_after_its_bundle_ended_is_not_lost() {
    let mut rig = Rig::new(endless(), Settings::default());
    rig.finish(&[(5, "all")]);
    let bundle = rig.started[0].bundle;
    rig.drain();
    rig.finish(&[(5, "0")]);
    assert!(rig.started.is_empty() && !rig.done(), "the answer decides");
    let outcome = given_back("rest");
    rig.tell(bundle, Event::Split { bundle, outcome });
    assert!(rig.runs_truncation());
    rig.finish(&[]);
    assert!(rig.done());
}

#[test]
fn a_bundle_that_ended_before_a_split_of_nothing_is_committed() {
    let mut rig = Rig::new(endless(), Settings::default());
    rig.finish(&[(5, "all")]);
    let bundle = rig.started[0].bundle;
    rig.drain();
    rig.finish(&[(5, "0")]);
    let outcome = SplitOutcome::default();
    rig.tell(bundle, Event::Split { bundle, outcome });
    assert!(rig.started.is_empty() && rig.done());
}

#[test]
fn what_a_truncated_restriction_gives_back_is_not_truncated_again() {
    let mut rig = Rig::new(endless(), Settings::default());
    rig.drain();
    rig.finish(&[(5, "all")]);
    rig.finish(&[(5, "short")]);
    let bundle = rig.started[0].bundle;
    let outcome = given_back("shorter");
    rig.tell(bundle, Event::Split { bundle, outcome });
    rig.finish(&[]);
    assert!(!rig.runs_truncation());
}

#[test]
fn a_failed_truncation_is_tried_again() {
    let mut rig = Rig::new(endless(), Settings::default());
    rig.drain();
    rig.finish(&[(5, "all")]);
    assert!(rig.runs_truncation());
    rig.fail("boom");
    assert!(rig.runs_truncation());
    rig.finish(&[(5, "short")]);
    assert!(!rig.runs_truncation());
    rig.finish(&[]);
    assert!(rig.done());
}
