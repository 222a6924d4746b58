//! Artifacts: pulled from the client, kept by content hash, served to harnesses.

mod error;
mod incoming;
pub mod name;
mod repository;
mod retrieval;
mod sessions;
mod staging;

pub use error::Error;
pub use repository::{ArtifactAddress, Repository};
pub use retrieval::RetrievalService;
pub use sessions::{Sessions, Staged};
pub use staging::StagingService;
