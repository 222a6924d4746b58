//! What a bundle hands back besides elements: residual work and splits.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::model::time::{Millis, Timestamp};

/// Work given back by a harness: one element for one input of one transform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleApplication {
    /// The transform whose input this is, by its id in the descriptor.
    pub transform: String,
    /// The local name of the input.
    pub input: String,
    /// One encoded windowed value.
    pub element: Bytes,
    /// The lowest timestamp each output may still get, by local output name.
    pub output_watermarks: BTreeMap<String, Timestamp>,
}

/// A [`BundleApplication`] to be run later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Residual {
    pub application: BundleApplication,
    /// How long to wait, in milliseconds, from when the bundle ended.
    pub delay: Millis,
}

/// The answer to a split request; all empty when the harness did not split.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SplitOutcome {
    pub primaries: Vec<BundleApplication>,
    pub residuals: Vec<Residual>,
    pub channel_splits: Vec<ChannelSplit>,
}

/// Where a data input was cut, by absolute element index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelSplit {
    /// The data source transform's id.
    pub transform: String,
    /// The last element the bundle keeps whole; -1 when none.
    pub last_primary: i64,
    /// The first element that the runner takes back.
    pub first_residual: i64,
}
