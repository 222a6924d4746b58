//! Rewrites of the graph, in the order they run: what Tidemill does differently from how the SDK wrote it.

pub(crate) mod combine_lifting;
mod flatten;
mod group_by_key;
mod merge_windows;
pub(crate) mod native_read;
pub(crate) mod native_write;
mod pubsub_path;
mod reshuffle;
mod splittable_dofn;
mod test_stream;
mod transcode;

pub(crate) use combine_lifting::lift_combiners;
pub(crate) use flatten::encode_flatten_inputs_alike;
pub(crate) use group_by_key::encode_groups_alike;
pub(crate) use merge_windows::merge_windows_in_sdk;
pub(crate) use native_write::detach_outputs;
pub(crate) use reshuffle::encode_reshuffles_alike;
pub(crate) use splittable_dofn::expand_splittable_dofns;
pub use test_stream::script_event;
pub(crate) use test_stream::{TestStream, script, split_test_stream};
