//! What a job has said so far: its messages and states, in order, in bounded memory.
//!
//! Readers hold a position and ask for what follows it, so a late reader sees the same history as
//! an early one. Old messages are forgotten first; states never are, and warnings and errors have
//! room of their own so that chatter cannot push them out.

use std::{collections::VecDeque, sync::Arc};

use crate::model::JobState;

/// How important a message is; the order is Beam's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Importance {
    /// For those who look for a fault in Tidemill.
    Debug,
    /// For those who look for a fault in a pipeline.
    Detailed,
    /// For every user.
    Basic,
    /// Something is not as it should be.
    Warning,
    /// The job fails, or part of its work did.
    Error,
}

/// One line of a job's own log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// How important it is.
    pub importance: Importance,
    /// When it was said, in milliseconds since the Unix epoch.
    pub time: i64,
    /// What was said.
    pub text: String,
    /// The unique name of the transform that it is about, where there is one.
    pub transform: Option<String>,
}

/// Something that followers of a job see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobEvent {
    /// A message.
    Message(Arc<Message>),
    /// The job entered a state, at a time in milliseconds since the Unix epoch.
    State(JobState, i64),
}

/// A place in a job's history; 0 is its start.
pub type Position = u64;

/// Bounds on what a job's history may hold.
#[derive(Clone, Copy, Debug)]
pub struct MessageLimits {
    /// Most messages kept of each of the two classes.
    pub count_max: usize,
    /// Most bytes of text kept of each of the two classes.
    pub bytes_max: usize,
    /// Longest text; what is longer loses its middle.
    pub text_bytes_max: usize,
}

impl MessageLimits {
    /// While a job runs.
    pub const RUNNING: Self = Self {
        count_max: 10_000,
        bytes_max: 8 << 20,
        text_bytes_max: 256 << 10,
    };
    /// Once it has ended.
    pub const FINISHED: Self = Self {
        count_max: 1_000,
        bytes_max: 512 << 10,
        text_bytes_max: 256 << 10,
    };
}

/// The history of one job.
#[derive(Debug)]
pub struct History {
    next: Position,
    states: Vec<(Position, JobState, i64)>,
    routine: Ring,
    trouble: Ring,
    limits: MessageLimits,
}

impl History {
    /// A history that begins with [`JobState::Stopped`] at `now`.
    pub fn new(now: i64, limits: MessageLimits) -> Self {
        Self {
            next: 1,
            states: vec![(0, JobState::Stopped, now)],
            routine: Ring::default(),
            trouble: Ring::default(),
            limits,
        }
    }

    /// Records that the job entered `state`; the caller has checked that it may.
    pub fn push_state(&mut self, state: JobState, now: i64) {
        debug_assert!(self.state().may_become(state));
        self.states.push((self.next, state, now));
        self.next += 1;
    }

    /// Records a message and forgets what no longer fits.
    pub fn push_message(&mut self, mut message: Message) {
        shorten(&mut message.text, self.limits.text_bytes_max);
        let position = self.next;
        self.next += 1;
        let ring = if message.importance >= Importance::Warning {
            &mut self.trouble
        } else {
            &mut self.routine
        };
        ring.push(position, message, self.limits);
    }

    /// Applies narrower limits from now on.
    pub fn shrink(&mut self, limits: MessageLimits) {
        self.limits = limits;
        self.routine.shrink(limits);
        self.trouble.shrink(limits);
    }

    /// The state entered last.
    pub fn state(&self) -> JobState {
        self.states
            .last()
            .map_or(JobState::Stopped, |(_, state, _)| *state)
    }

    /// When the state entered last was entered.
    pub fn state_time(&self) -> i64 {
        self.states.last().map_or(0, |(_, _, time)| *time)
    }

    /// All states so far and when each was entered.
    pub fn states(&self) -> Vec<(JobState, i64)> {
        self.states
            .iter()
            .map(|(_, state, time)| (*state, *time))
            .collect()
    }

    /// Up to `count_max` of the events at or after `from`, in order, and the position that follows
    /// them.
    pub fn read(&self, from: Position, count_max: usize) -> (Vec<JobEvent>, Position) {
        let mut found: Vec<(Position, JobEvent)> = Vec::new();
        let skip = self.states.partition_point(|(at, ..)| *at < from);
        for (at, state, time) in self.states.iter().skip(skip).take(count_max) {
            found.push((*at, JobEvent::State(*state, *time)));
        }
        for ring in [&self.routine, &self.trouble] {
            let skip = ring.entries.partition_point(|(at, _)| *at < from);
            for (at, message) in ring.entries.iter().skip(skip).take(count_max) {
                found.push((*at, JobEvent::Message(Arc::clone(message))));
            }
        }
        found.sort_by_key(|(at, _)| *at);
        found.truncate(count_max);
        // What was cut off lies behind the last event that was kept.
        let next = found.last().map_or(self.next, |(at, _)| at + 1);
        (
            found.into_iter().map(|(_, event)| event).collect(),
            next.max(from),
        )
    }

    /// How many messages have been forgotten.
    pub fn forgotten(&self) -> u64 {
        self.routine.forgotten + self.trouble.forgotten
    }

    /// Whether `position` is behind everything recorded so far.
    pub fn is_end(&self, position: Position) -> bool {
        position >= self.next
    }
}

/// Messages of one class, oldest first.
#[derive(Debug, Default)]
struct Ring {
    entries: VecDeque<(Position, Arc<Message>)>,
    bytes: usize,
    forgotten: u64,
}

impl Ring {
    fn push(&mut self, position: Position, message: Message, limits: MessageLimits) {
        self.bytes += message.text.len();
        self.entries.push_back((position, Arc::new(message)));
        self.shrink(limits);
    }

    /// Forgets the oldest until the rest fits; the newest always stays.
    fn shrink(&mut self, limits: MessageLimits) {
        while self.entries.len() > 1
            && (self.entries.len() > limits.count_max || self.bytes > limits.bytes_max)
        {
            if let Some((_, message)) = self.entries.pop_front() {
                self.bytes -= message.text.len();
                self.forgotten += 1;
            }
        }
    }
}

/// Takes the middle out of a text that is too long: a traceback tells most at its two ends.
fn shorten(text: &mut String, bytes_max: usize) {
    if text.len() <= bytes_max {
        return;
    }
    let head = text.floor_char_boundary(bytes_max / 2);
    let tail = text.ceil_char_boundary(text.len() - bytes_max / 2);
    let cut = tail - head;
    text.replace_range(head..tail, &format!("\n… {cut} bytes left out …\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: MessageLimits = MessageLimits {
        count_max: 3,
        bytes_max: 100,
        text_bytes_max: 40,
    };

    fn say(history: &mut History, importance: Importance, text: &str) {
        history.push_message(Message {
            importance,
            time: 7,
            text: text.to_owned(),
            transform: None,
        });
    }

    fn texts(history: &History) -> Vec<String> {
        let (events, next) = history.read(0, usize::MAX);
        assert!(history.is_end(next));
        events
            .into_iter()
            .map(|event| match event {
                JobEvent::Message(message) => message.text.clone(),
                JobEvent::State(state, _) => state.to_string(),
            })
            .collect()
    }

    #[test]
    fn chatter_does_not_push_out_errors_or_states() {
        let mut history = History::new(1, LIMITS);
        say(&mut history, Importance::Error, "bad");
        history.push_state(JobState::Starting, 2);
        for n in 0..5 {
            say(&mut history, Importance::Basic, &format!("m{n}"));
        }
        assert_eq!(
            texts(&history),
            ["STOPPED", "bad", "STARTING", "m2", "m3", "m4"]
        );
        assert_eq!(history.forgotten(), 2);
        history.shrink(MessageLimits {
            count_max: 1,
            ..LIMITS
        });
        assert_eq!(texts(&history), ["STOPPED", "bad", "STARTING", "m4"]);
    }

    #[test]
    fn pages_follow_each_other_without_gap_or_repeat() {
        let mut history = History::new(1, MessageLimits::RUNNING);
        for n in 0..10 {
            let importance = if n % 3 == 0 {
                Importance::Error
            } else {
                Importance::Basic
            };
            say(&mut history, importance, &format!("m{n}"));
        }
        let (mut position, mut all) = (0, Vec::new());
        while !history.is_end(position) {
            let (events, next) = history.read(position, 3);
            assert!(next > position);
            all.extend(events);
            position = next;
        }
        assert_eq!(all, history.read(0, usize::MAX).0);
        assert_eq!(all.len(), 11);
    }

    #[test]
    fn a_long_text_keeps_its_ends() {
        let mut history = History::new(1, LIMITS);
        say(
            &mut history,
            Importance::Error,
            &format!("é{}Ende", "ü".repeat(100)),
        );
        let text = texts(&history).remove(1);
        assert!(text.starts_with("éü") && text.ends_with("Ende"), "{text}");
        assert!(text.contains("bytes left out"));
    }
}
