//! Which streams a harness has open, to see when it has torn down.

use std::time::Duration;

use tokio::sync::watch;

/// After the last sign of a harness without a log stream, its user code is torn down: give it this long.
const UNSEEN_TEARDOWN: Duration = Duration::from_millis(5);

/// The open streams of one harness.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    open: watch::Sender<Open>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Open {
    data: u32,
    data_seen: bool,
    log: u32,
    log_seen: bool,
}

/// One open stream; dropped when it ends.
pub(crate) struct OpenStream {
    open: watch::Sender<Open>,
    close: fn(&mut Open),
}

impl Streams {
    pub(crate) fn open_data(&self) -> OpenStream {
        self.open.send_modify(|open| {
            open.data += 1;
            open.data_seen = true;
        });
        OpenStream {
            open: self.open.clone(),
            close: |open| open.data -= 1,
        }
    }

    pub(crate) fn open_log(&self) -> OpenStream {
        self.open.send_modify(|open| {
            open.log += 1;
            open.log_seen = true;
        });
        OpenStream {
            open: self.open.clone(),
            close: |open| open.log -= 1,
        }
    }

    /// Waits until a harness whose control stream is over has torn down, as far as can be seen.
    ///
    /// SDKs close their log last. Python has none in LOOPBACK: it closes its data streams and then
    /// tears down at once.
    pub(crate) async fn torn_down(&self) {
        let mut open = self.open.subscribe();
        // Never fails: `self` holds the sender.
        let Ok(last) = open
            .wait_for(|open| {
                if open.log_seen {
                    open.log == 0
                } else {
                    open.data == 0
                }
            })
            .await
            .map(|open| *open)
        else {
            return;
        };
        if !last.log_seen && last.data_seen {
            tokio::time::sleep(UNSEEN_TEARDOWN).await;
        }
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.open.send_modify(self.close);
    }
}
