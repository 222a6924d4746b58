//! The Fn API over real gRPC: a fake harness made of client stubs, and the real Python one.

#![expect(
    clippy::unwrap_used,
    clippy::too_many_lines,
    reason = "a test may panic, and is read from top to bottom"
)]

mod flow;
mod life;
mod pool;
mod python;
mod refusal;
mod rig;
