//! Reshuffle and Redistribute: the runner passes bytes on, so the input must be encoded like the output.
//!
//! Python, for one, declares a deterministic key coder behind a reshuffle that the input did not have.

use crate::plan::error::Error;
use crate::plan::graph::{Graph, Kind};
use crate::plan::rewrite::transcode::Transcoder;

/// Transcodes the inputs of reshuffles whose coder differs from the output's.
pub(crate) fn encode_reshuffles_alike(graph: &mut Graph) -> Result<(), Error> {
    let transcoder = Transcoder::new(graph);
    for index in 0..graph.transforms.len() {
        let transform = &graph.transforms[index];
        if matches!(transform.kind, Kind::Reshuffle) {
            let coder = graph.coder_of(transform.output()?).to_owned();
            transcoder.adapt(graph, index, 0, &coder)?;
        }
    }
    Ok(())
}
