//! Plans of what Python clients send; `integration/python/make_pipelines.py` makes the pipelines.

use std::path::PathBuf;

use expect_test::expect_file;
use prost::Message;

use crate::plan::tests::validity::assert_valid;
use crate::plan::{self, explain, testing};
use crate::proto::pipeline::Pipeline;

fn check(name: &str) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/plan/fixtures");
    let bytes = std::fs::read(folder.join(format!("{name}.pb"))).expect("the fixture");
    let pipeline = Pipeline::decode(bytes.as_slice()).expect("a pipeline");
    let plan = plan::build(&pipeline, &testing::settings()).expect("a plan");
    assert_valid(&plan);
    let again = plan::build(&pipeline, &testing::settings()).expect("a plan");
    assert!(plan == again, "not deterministic");
    expect_file![folder.join(format!("{name}.txt"))].assert_eq(&explain::text(&plan));
}

#[test]
fn words() {
    check("words-raw");
    check("words-lifted");
    check("words-expanded");
}

#[test]
fn sides() {
    check("sides-raw");
}

#[test]
fn splittable() {
    check("splittable-raw");
    check("splittable-expanded");
}

#[test]
fn shuffles() {
    check("shuffles-raw");
    check("shuffles-expanded");
}

#[test]
fn stateful() {
    check("stateful-raw");
}

#[test]
fn pubsub() {
    check("pubsub-raw");
}
