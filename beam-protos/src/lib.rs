//! Beam's wire protocol: the messages and services of the model packages, and the URNs they use.
//!
//! The `.proto` files are Tidemill's own and wire-compatible with Beam 2.77; `build.rs` compiles them.

// Generated code; the lints are for what people write.
#![expect(clippy::all, reason = "generated code")]

pub mod urn;

/// `org.apache.beam.model.pipeline.v1`: pipelines, windows, metrics.
pub mod pipeline {
    pub use v1::*;

    /// The package as generated; use the names re-exported one level up.
    pub mod v1 {
        tonic::include_proto!("org.apache.beam.model.pipeline.v1");
    }
}

/// `org.apache.beam.model.fn_execution.v1`: the Fn API and provisioning.
pub mod fn_execution {
    pub use v1::*;

    /// The package as generated; use the names re-exported one level up.
    pub mod v1 {
        tonic::include_proto!("org.apache.beam.model.fn_execution.v1");
    }
}

/// `org.apache.beam.model.job_management.v1`: jobs and artifacts.
pub mod job_management {
    pub use v1::*;

    /// The package as generated; use the names re-exported one level up.
    pub mod v1 {
        tonic::include_proto!("org.apache.beam.model.job_management.v1");
    }
}

/// `org.apache.beam.model.expansion.v1`: cross-language expansion.
pub mod expansion {
    pub use v1::*;

    /// The package as generated; use the names re-exported one level up.
    pub mod v1 {
        tonic::include_proto!("org.apache.beam.model.expansion.v1");
    }
}

/// `org.apache.beam.model.interactive.v1`: the service behind a TestStream.
pub mod interactive {
    pub use v1::*;

    /// The package as generated; use the names re-exported one level up.
    pub mod v1 {
        tonic::include_proto!("org.apache.beam.model.interactive.v1");
    }
}

/// The serialized `FileDescriptorSet` of every proto above, for gRPC reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
