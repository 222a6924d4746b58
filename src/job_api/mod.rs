//! The Job API that clients call.

mod authority;
mod describe;
mod service;
mod status;
mod streams;
mod supervisor;
mod wire;

pub use authority::{ClientAuthority, ClientAuthorityLayer};
pub use service::{JobApi, Settings};
pub use supervisor::Supervisor;
