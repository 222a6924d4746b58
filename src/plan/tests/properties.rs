//! Properties of plans of pipelines made by chance.

use std::collections::BTreeSet;
use std::fmt::Write;

use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, any};
use proptest::{prop_assert, prop_assert_eq, proptest};

use crate::model::stage::StageKind;
use crate::plan::tests::validity::assert_valid;
use crate::plan::{self, explain, testing};
use crate::proto::urn::primitives;

/// A pipeline of as many steps as there are choices, each read from them.
fn script(choices: &[(u8, u16, u16, u8)]) -> String {
    let mut script = String::from("t0: impulse coder=bytes\nt1: pardo t0 coder=string\n");
    for (index, &(kind, first, second, extra)) in choices.iter().enumerate() {
        let name = index + 2;
        let input = |choice: u16| usize::from(choice) % name;
        let (first, second) = (input(first), input(second));
        let environment = ["py", "py", "py", "java"][usize::from(extra % 4)];
        let coder = ["string", "custom", "other"][usize::from(extra / 4 % 3)];
        let pairs = format!("kv({coder},custom)");
        let line = match kind % 10 {
            0 => "impulse".to_owned(),
            1..=4 => format!("pardo t{first} env={environment} coder={pairs}"),
            5 => format!("pardo t{first} env={environment} coder={coder} side=t{second}"),
            6 => format!("flatten t{first} t{second} coder={coder}"),
            7 => format!("gbk t{first} coder=kv({coder},iter(custom))"),
            8 => format!("reshuffle t{first} coder={coder}"),
            _ => format!("pardo t{first} env={environment} coder={coder} is=sdf"),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(script, "t{name}: {line}");
    }
    script
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_transform_runs_once_in_a_valid_plan(
        choices in vec((any::<u8>(), any::<u16>(), any::<u16>(), any::<u8>()), 1..60)
    ) {
        let pipeline = testing::pipeline(&script(&choices));
        let plan = plan::build(&pipeline, &testing::settings());
        prop_assert!(plan.is_ok(), "{:?}", plan.err());
        let plan = plan.expect("checked");
        let runs: BTreeSet<String> = assert_valid(&plan).into_iter().collect();
        let components = pipeline.components.expect("components");
        for (id, transform) in &components.transforms {
            let urn = transform.spec.as_ref().map_or("", |spec| spec.urn.as_str());
            prop_assert_eq!(runs.contains(id), urn == primitives::PAR_DO, "{}", id);
        }
        let again = plan::build(&testing::pipeline(&script(&choices)), &testing::settings());
        prop_assert_eq!(explain::text(&plan), explain::text(&again.expect("a plan")));
    }
}

#[test]
fn big_pipelines_are_planned_in_time_that_grows_with_their_size() {
    let mut script = String::from("t0: impulse coder=bytes\n");
    for index in 1..5_000 {
        let before = index - 1;
        let far = index * 7 / 10;
        let line = match index % 5 {
            0 => format!("gbk t{before} coder=kv(string,iter(custom))"),
            1 => format!("pardo t{before} side=t{far} coder=kv(string,custom)"),
            _ => format!("pardo t{before} coder=kv(string,custom)"),
        };
        let _ = writeln!(script, "t{index}: {line}");
    }
    let plan = plan::build(&testing::pipeline(&script), &testing::settings()).expect("a plan");
    assert_valid(&plan);
    let grouped =
        |stage: &&crate::model::stage::Stage| matches!(stage.kind, StageKind::GroupByKey(_));
    assert_eq!(plan.graph.stages.iter().filter(grouped).count(), 999);
}
