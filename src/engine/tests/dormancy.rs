//! A bundle that does nothing for a while lends its room.

use super::*;

/// Four elements that come one in a bundle, while a single bundle may run.
fn slow_elements() -> Rig {
    let mut builder = Builder::default();
    let impulse = builder.impulse();
    let elements = builder.par_do("make", impulse, Some(Coder::Bytes));
    builder.par_do("slow", elements, Some(Coder::Bytes));
    let settings = Settings {
        bundle_elements_max: 1,
        ..Settings::default()
    };
    let mut rig = Rig::new(builder.graph(), settings);
    rig.slots = 0;
    rig.finish(&[(1, "a"), (2, "b"), (3, "c"), (4, "d")]);
    rig.log.clear();
    rig
}

impl Rig {
    /// The bundle that started first has taken so many elements when it is asked.
    fn progress(&mut self, taken: Option<u64>) {
        let bundle = self.started.front().expect("a bundle is running").bundle;
        self.tell(bundle, Event::Progress { bundle, taken });
    }

    fn output(&mut self) {
        self.put_out(encode(&[(5, "x")]), false);
    }
}

#[test]
fn another_bundle_runs_beside_one_that_waits() {
    let mut rig = slow_elements();
    assert_eq!(rig.started.len(), 1);
    rig.wake();
    rig.progress(Some(0));
    assert_eq!(rig.started.len(), 2);
    rig.wake();
    rig.progress(Some(0));
    assert_eq!(rig.started.len(), 2, "a room is lent once");
    // Its own room is given back, and what it lent is not there any more.
    rig.finish(&[]);
    rig.check(expect![[r#"
        lend
        start b3 slow [.b@2]
        reclaim
    "#]]);
}

#[test]
fn a_bundle_that_moves_takes_its_room_back() {
    let mut rig = slow_elements();
    rig.progress(Some(0));
    rig.output();
    rig.progress(Some(0));
    // Both run on; the first to end makes no room.
    assert_eq!(rig.started.len(), 2);
    rig.finish(&[]);
    assert_eq!(rig.started.len(), 1);
    rig.finish(&[]);
    rig.check(expect![[r#"
        lend
        start b3 slow [.b@2]
        reclaim
        start b4 slow [.c@3]
    "#]]);
}

#[test]
fn a_bundle_that_works_lends_nothing() {
    let mut rig = slow_elements();
    rig.progress(Some(1));
    rig.progress(Some(2));
    rig.output();
    rig.progress(Some(2));
    // An SDK that does not say how far it is.
    rig.progress(None);
    rig.check(expect![[r#""#]]);
}
