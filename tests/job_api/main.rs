//! The Job API and the artifact services as clients see them: a server in this process, a stub
//! instead of the engine, generated clients.

#![expect(
    clippy::unwrap_used,
    reason = "what helpers of tests cannot do fails the test"
)]

mod artifacts;
mod calls;
mod fixture;
mod probes;
mod python;
