//! Processing time as user code sees it: the wall clock, or what a TestStream makes of it.

use crate::model::time::{Millis, Timestamp};

/// The clock of triggers, timers and delays.
///
/// It stands still while a script moves it: what a pipeline does must not depend on how long its
/// steps take. How long bundles run is measured by the wall clock all the same.
#[derive(Debug)]
pub(super) struct ProcessingTime {
    wall: Timestamp,
    ahead: Millis,
    scripted: bool,
}

impl ProcessingTime {
    /// The wall clock, or a clock that starts with it and waits for a script.
    pub fn new(scripted: bool) -> Self {
        Self {
            wall: Timestamp::MIN,
            ahead: 0,
            scripted,
        }
    }

    /// Takes note of the wall clock; returns the processing time.
    pub fn show(&mut self, wall: Timestamp) -> Timestamp {
        let now = self.at(wall);
        self.ahead = now.millis() - wall.millis();
        self.wall = wall;
        now
    }

    /// What the clock will show when the wall clock shows this, if nobody moves it.
    pub fn at(&self, wall: Timestamp) -> Timestamp {
        let started = self.wall > Timestamp::MIN;
        if self.scripted && started {
            self.wall.plus(self.ahead)
        } else {
            wall.plus(self.ahead)
        }
    }

    /// What the wall clock showed last.
    pub fn wall(&self) -> Timestamp {
        self.wall
    }

    /// How far it is ahead of the wall clock, or behind it if negative.
    pub fn ahead(&self) -> Millis {
        self.ahead
    }

    pub fn advance(&mut self, by: Millis) {
        self.ahead += by;
    }

    /// The script is over: from now on time passes.
    pub fn flow(&mut self) {
        self.scripted = false;
    }

    /// When the wall clock shows what is due, if it comes by itself.
    pub fn due_by_wall(&self, due: Timestamp) -> Option<Timestamp> {
        (!self.scripted).then(|| due.plus(-self.ahead))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn without_a_script_it_is_the_wall_clock() {
        let mut time = ProcessingTime::new(false);
        assert_eq!([time.show(at(5)), time.show(at(7))], [at(5), at(7)]);
        assert_eq!(time.due_by_wall(at(9)), Some(at(9)));
    }

    #[test]
    fn a_script_moves_it_and_nothing_else() {
        let mut time = ProcessingTime::new(true);
        assert_eq!([time.show(at(5)), time.show(at(7))], [at(5), at(5)]);
        assert_eq!((time.ahead(), time.due_by_wall(at(9))), (-2, None));
        time.advance(100);
        assert_eq!([time.at(at(8)), time.show(at(9))], [at(105), at(105)]);
    }

    #[test]
    fn after_the_script_it_goes_on_from_where_it_is() {
        let mut time = ProcessingTime::new(true);
        time.show(at(5));
        time.advance(100);
        time.show(at(9));
        time.flow();
        assert_eq!([time.show(at(9)), time.show(at(12))], [at(105), at(108)]);
        assert_eq!(time.due_by_wall(at(110)), Some(at(14)));
    }
}
