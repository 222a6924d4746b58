//! Wire types: Beam's generated messages and services, and its URNs.

pub use beam_protos::{
    DESCRIPTORS, expansion, fn_execution, interactive, job_management, pipeline, urn,
};
