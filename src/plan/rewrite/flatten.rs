//! Flatten: the runner passes bytes on, so every input must be encoded like the output.

use crate::plan::error::Error;
use crate::plan::graph::{Graph, Kind};
use crate::plan::rewrite::transcode::Transcoder;

/// Transcodes the inputs of flattens whose coder differs from the output's.
pub(crate) fn encode_flatten_inputs_alike(graph: &mut Graph) -> Result<(), Error> {
    let transcoder = Transcoder::new(graph);
    for index in 0..graph.transforms.len() {
        let transform = &graph.transforms[index];
        if !matches!(transform.kind, Kind::Flatten) {
            continue;
        }
        let coder = graph.coder_of(transform.output()?).to_owned();
        for input in 0..transform.inputs.len() {
            transcoder.adapt(graph, index, input, &coder)?;
        }
    }
    Ok(())
}
