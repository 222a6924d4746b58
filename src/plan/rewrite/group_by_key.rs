//! Group-by-key: keys and values of the input must be encoded as the output declares them.

use crate::plan::error::Error;
use crate::plan::graph::{Graph, Kind, Transform};
use crate::plan::rewrite::transcode::Transcoder;
use crate::proto::urn::coders;

/// Transcodes the inputs of group-by-keys whose key or value coder differs from the output's.
pub(crate) fn encode_groups_alike(graph: &mut Graph) -> Result<(), Error> {
    let transcoder = Transcoder::new(graph);
    for index in 0..graph.transforms.len() {
        let transform = &graph.transforms[index];
        if !matches!(transform.kind, Kind::GroupByKey) {
            continue;
        }
        let (key, value) = grouped(graph, transform)?;
        let name = format!("{}_pairs", transform.id);
        let pairs = graph.coders.add(&name, coders::KV, &[&key, &value]);
        transcoder.adapt(graph, index, 0, &pairs)?;
    }
    Ok(())
}

/// The key and value coder of the output, which must be pairs of key and iterable.
fn grouped(graph: &Graph, transform: &Transform) -> Result<(String, String), Error> {
    let coder = graph.coder_of(transform.output()?);
    if let Some([key, values]) = graph.coders.components(coder, coders::KV)?
        && let Some([value]) = graph.coders.components(&values, coders::ITERABLE)?
    {
        return Ok((key, value));
    }
    Err(transform.error("its output is not encoded as pairs of a key and an iterable"))
}
