//! Pipelines as clients submit them.

use prost::Message;
use tidemill::plan::{self, Settings, explain};
use tidemill::proto::pipeline::Pipeline;

/// The bytes are a serialized pipeline.
pub fn run(data: &[u8]) {
    let Ok(pipeline) = Pipeline::decode(data) else {
        return;
    };
    let settings = Settings {
        endpoint: "localhost:1".to_owned(),
        ..Settings::default()
    };
    match plan::build(&pipeline, &settings) {
        Ok(plan) => {
            explain::text(&plan);
            for stage in &plan.graph.stages {
                for id in stage.inputs.iter().chain(&stage.outputs) {
                    assert!(id.index() < plan.graph.pcollections.len());
                }
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
