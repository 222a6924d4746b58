//! Compiles the .proto files beside this script with protox, so that no protoc is needed.

use std::{env, error::Error, fs, path::PathBuf};

const FILES: &[&str] = &[
    "pipeline/v1/beam_runner_api",
    "pipeline/v1/endpoints",
    "pipeline/v1/external_transforms",
    "pipeline/v1/metrics",
    "pipeline/v1/schema",
    "pipeline/v1/standard_window_fns",
    "fn_execution/v1/beam_fn_api",
    "fn_execution/v1/beam_provision_api",
    "job_management/v1/beam_artifact_api",
    "job_management/v1/beam_expansion_api",
    "job_management/v1/beam_job_api",
    "interactive/v1/beam_interactive_api",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let paths: Vec<String> = FILES
        .iter()
        .map(|file| format!("proto/org/apache/beam/model/{file}.proto"))
        .collect();
    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler.include_imports(true).open_files(&paths)?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    // Encoded by protox, not by prost, which would drop the options that hold Beam's URNs.
    fs::write(
        out.join("descriptors.bin"),
        compiler.encode_file_descriptor_set(),
    )?;
    let descriptors = compiler.include_source_info(true).file_descriptor_set();
    tonic_prost_build::configure()
        .bytes(".")
        .btree_map(".")
        .boxed(".org.apache.beam.model.pipeline.v1.ExecutableStagePayload.environment")
        .compile_fds(descriptors)?;
    Ok(())
}
