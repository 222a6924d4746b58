//! Windows of a keyed stage that hold state or timers, until they expire.

use std::collections::BTreeSet;

use crate::model::time::{Millis, Timestamp};
use crate::model::window::Window;

/// Live windows, by when they expire.
#[derive(Debug, Default)]
pub struct LiveWindows {
    by_expiry: BTreeSet<(Timestamp, Window)>,
}

impl LiveWindows {
    /// The window has something to be forgotten.
    pub fn note(&mut self, window: &Window, allowed_lateness: Millis) {
        self.by_expiry
            .insert((expiry(window, allowed_lateness), window.clone()));
    }

    /// The window that expires first, if it expires below `watermark`.
    pub fn expired(&self, watermark: Timestamp) -> Option<&Window> {
        self.by_expiry
            .first()
            .filter(|(at, _)| *at < watermark)
            .map(|(_, window)| window)
    }

    /// The window is forgotten.
    pub fn forget(&mut self, window: &Window, allowed_lateness: Millis) {
        self.by_expiry
            .remove(&(expiry(window, allowed_lateness), window.clone()));
    }
}

/// The last instant at which the window is alive.
pub fn expiry(window: &Window, allowed_lateness: Millis) -> Timestamp {
    window
        .max_timestamp()
        .plus(allowed_lateness)
        .min(Timestamp::GLOBAL_WINDOW_MAX)
}
