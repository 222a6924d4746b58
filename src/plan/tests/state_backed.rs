//! Which groups may have their values in state, and who is told so.

use expect_test::expect;
use prost::Message;

use crate::plan::build::build_unless;
use crate::plan::tests::validity::assert_valid;
use crate::plan::{Plan, explain, testing};
use crate::proto::fn_execution::RemoteGrpcPort;
use crate::proto::urn::coders;

fn plan(script: &str) -> Plan {
    let plan = build_unless(&testing::pipeline(script), &testing::settings(), &[]);
    plan.expect("a plan")
}

#[test]
fn values_of_groups_are_in_state_where_one_stage_that_can_reads_them() {
    let script = "
        start: impulse
        pairs: pardo start env=java coder=kv(string,custom)
        alone: gbk pairs
        left: pardo alone env=java
        right: pardo alone env=java
        stateful: gbk pairs
        keyed: pardo stateful env=java is=stateful
        unable: gbk pairs
        python: pardo unable
        two: gbk pairs
        java: pardo two env=java
        other: pardo two env=go
        native: gbk pairs
        flat: flatten native native
        behind: pardo flat env=java
        aside: gbk pairs
        reader: pardo left env=java side=aside
        ";
    let plan = plan(script);
    assert_valid(&plan);
    let text = explain::text(&plan);
    let groups = text
        .split("\n\n")
        .filter(|stage| stage.contains(": group by key"));
    let outputs: Vec<&str> = groups
        .filter_map(|stage| stage.lines().find(|line| line.contains("out ")))
        .map(str::trim)
        .collect();
    let expected = expect![[r#"
          out p2 "alone": windowed(kv(string, state_backed_iterable(prefixed(test:coder:custom))), global)
          out p3 "stateful": windowed(kv(string, iterable(prefixed(test:coder:custom))), global)
          out p4 "unable": windowed(kv(string, iterable(prefixed(test:coder:custom))), global)
          out p5 "two": windowed(kv(string, iterable(prefixed(test:coder:custom))), global)
          out p6 "native": windowed(kv(string, iterable(prefixed(test:coder:custom))), global)
          out p8 "aside": windowed(kv(string, iterable(prefixed(test:coder:custom))), global)"#]];
    expected.assert_eq(&outputs.join("\n"));
}

#[test]
fn only_the_port_says_that_values_may_be_in_state() {
    let script = "
        start: impulse
        pairs: pardo start env=java coder=kv(string,custom)
        groups: gbk pairs
        read: pardo groups env=java
        ";
    let plan = plan(script);
    let descriptor = &plan.descriptors["stage-3"];
    let urn_of = |id: &str| {
        let coder = &descriptor.coders[id];
        let values = &descriptor.coders[&coder.component_coder_ids[1]];
        values.spec.as_ref().map(|spec| spec.urn.clone())
    };
    let source = &descriptor.transforms["source/groups"];
    let payload = source.spec.as_ref().expect("a port").payload.clone();
    let port = RemoteGrpcPort::decode(payload).expect("a port");
    let element = &descriptor.coders[&port.coder_id].component_coder_ids[0];
    assert_eq!(
        urn_of(element).as_deref(),
        Some(coders::STATE_BACKED_ITERABLE)
    );
    let pcollection = &descriptor.pcollections["groups"];
    assert_eq!(
        urn_of(&pcollection.coder_id).as_deref(),
        Some(coders::ITERABLE)
    );
}
