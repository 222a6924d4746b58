//! What is wrong with pipelines, as their authors read it.

use expect_test::{Expect, expect};
use prost::Message;

use crate::plan::{self, testing};
use crate::proto::pipeline as pb;

fn check(script: &str, expected: Expect) {
    expected.assert_eq(&testing::explained(script));
}

/// The error for a pipeline that was changed after it was made.
fn check_changed(change: impl Fn(&mut pb::Pipeline), expected: Expect) {
    let mut pipeline = testing::pipeline(
        "
        start: impulse
        pairs: pardo start coder=kv(string,custom)
        groups: gbk pairs
        end: pardo groups
        ",
    );
    change(&mut pipeline);
    expected.assert_eq(&testing::explained_pipeline(&pipeline));
}

fn components(pipeline: &mut pb::Pipeline) -> &mut pb::Components {
    pipeline.components.get_or_insert_default()
}

fn transform<'a>(pipeline: &'a mut pb::Pipeline, id: &str) -> &'a mut pb::PTransform {
    components(pipeline)
        .transforms
        .entry(id.to_owned())
        .or_default()
}

#[test]
fn unknown_and_refused_transforms() {
    check(
        "start: beam:transform:read:v1",
        expect![[r#"
        error: transform "user/start" (beam:transform:read:v1): the deprecated Read primitive cannot be run; leave out the experiment use_deprecated_read, or use an SDK that reads by splittable DoFns
    "#]],
    );
    check(
        "start: beam:transform:new:v7",
        expect![[r#"
        error: transform "user/start" (beam:transform:new:v7): a primitive that Tidemill does not know; expand it into ParDos, or use an SDK that does
    "#]],
    );
    check(
        "start: beam:runner:executable_stage:v1",
        expect![[r#"
        error: transform "user/start" (beam:runner:executable_stage:v1): the client has fused the pipeline already; leave out the experiment pre_optimize=all
    "#]],
    );
    check(
        "start: beam:transform:pubsub_read:v1 coder=bytes",
        expect![[r#"
            error: transform "user/start" (beam:transform:pubsub_read:v1): it names neither a topic nor a subscription
        "#]],
    );
    check(
        "
        start: impulse
        both: pardo start is=stateful,sdf
        ",
        expect![[r#"
            error: transform "user/both" (beam:requirement:pardo:splittable_dofn:v1): a splittable DoFn with state or timers is not supported yet; put the state into a DoFn of its own behind the splittable one
        "#]],
    );
}

#[test]
fn a_test_stream_service_beside_another_test_stream() {
    let script = "
        one: beam:transform:teststream:v1 stream=bytes coder=bytes
        two: beam:transform:teststream:v1 stream=bytes coder=bytes
        ";
    let mut pipeline = testing::pipeline(script);
    let spec = transform(&mut pipeline, "two").spec.get_or_insert_default();
    let mut payload = pb::TestStreamPayload::decode(spec.payload.clone()).expect("a payload");
    payload.endpoint.get_or_insert_default().url = "localhost:1".to_owned();
    spec.payload = payload.encode_to_vec().into();
    expect![[r#"
        error: transform "user/two" (beam:transform:teststream:v1): a service cannot hand out events where there is another TestStream; give the one TestStream several outputs
    "#]]
    .assert_eq(&testing::explained_pipeline(&pipeline));
}

#[test]
fn windows_that_cannot_be_grouped() {
    check(
        "
        start: impulse
        pairs: window start windows=retracting coder=kv(string,custom)
        ",
        expect![[r#"
            error: transform "user/pairs": retracting accumulation is not supported; use accumulating or discarding panes
        "#]],
    );
}

#[test]
fn inputs_of_the_wrong_kind() {
    check(
        "
        start: impulse
        end: pardo start coder=custom is=stateful
        ",
        expect![[r#"
            error: transform "user/end" (beam:transform:pardo:v1): state needs an input that is encoded as key-value pairs
        "#]],
    );
    check(
        "
        start: impulse
        main: pardo start
        other: impulse
        side: pardo other coder=custom
        end: pardo main multi=side
        ",
        expect![[r#"
            error: transform "user/end" (beam:transform:pardo:v1): its multimap side input "multi-side" is not encoded as key-value pairs
        "#]],
    );
    check(
        "
        start: impulse
        pairs: pardo start coder=kv(string,custom)
        groups: gbk pairs coder=custom
        ",
        expect![[r#"
            error: transform "user/groups" (beam:transform:group_by_key:v1): its output is not encoded as pairs of a key and an iterable
        "#]],
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn pipelines_that_contradict_themselves() {
    check_changed(
        |pipeline| {
            pipeline
                .requirements
                .push("beam:requirement:new:v1".to_owned())
        },
        expect![[r#"
            error: beam:requirement:new:v1: the pipeline has a requirement that Tidemill does not know; use an SDK version that this version of Tidemill knows
        "#]],
    );
    check_changed(
        |pipeline| pipeline.components = None,
        expect![[r#"
        error: the pipeline has no components
    "#]],
    );
    check_changed(
        |pipeline| transform(pipeline, "end").environment_id.clear(),
        expect![[r#"
            error: transform "user/end": has no environment to run in
        "#]],
    );
    check_changed(
        |pipeline| components(pipeline).environments.clear(),
        expect![[r#"
            error: transform "user/pairs": its environment "py" is not there
        "#]],
    );
    check_changed(
        |pipeline| drop(components(pipeline).coders.remove("kv(string,custom)")),
        expect![[r#"
            error: transform "user/pairs": PCollection "pairs" has the coder "kv(string,custom)", which is not there
        "#]],
    );
    check_changed(
        |pipeline| drop(components(pipeline).coders.remove("custom")),
        expect![[r#"
            error: there is no coder "custom"
        "#]],
    );
    check_changed(
        |pipeline| {
            let coders = &mut components(pipeline).coders;
            let pair = coders.entry("kv(string,custom)".to_owned()).or_default();
            pair.component_coder_ids[1] = "kv(string,custom)".to_owned();
        },
        expect![[r#"
            error: coder "kv(string,custom)" is nested deeper than 100 levels, or contains itself
        "#]],
    );
    check_changed(
        |pipeline| components(pipeline).windowing_strategies.clear(),
        expect![[r#"
            error: transform "user/start": PCollection "start" has the windowing strategy "global", which is not there
        "#]],
    );
    check_changed(
        |pipeline| drop(components(pipeline).pcollections.remove("pairs")),
        expect![[r#"
            error: transform "user/pairs": PCollection "pairs" is not there
        "#]],
    );
    check_changed(
        |pipeline| drop(components(pipeline).transforms.remove("pairs")),
        expect![[r#"
            error: there is no transform "pairs"
        "#]],
    );
    check_changed(
        |pipeline| pipeline.root_transform_ids.retain(|id| id != "pairs"),
        expect![[r#"
            error: transform "user/groups" (beam:transform:group_by_key:v1): nothing makes its input PCollection "pairs"
        "#]],
    );
    check_changed(
        |pipeline| {
            let inputs = &mut transform(pipeline, "pairs").inputs;
            inputs.insert("in0".to_owned(), "groups".to_owned());
        },
        expect![[r#"
            error: transform "user/pairs" (beam:transform:pardo:v1): its input depends on its own output
        "#]],
    );
    check_changed(
        |pipeline| {
            let outputs = &mut transform(pipeline, "end").outputs;
            outputs.insert("out0".to_owned(), "pairs".to_owned());
        },
        expect![[r#"
            error: transform "user/end" (beam:transform:pardo:v1): PCollection "pairs" is made by "user/pairs" too
        "#]],
    );
    check_changed(
        |pipeline| {
            let spec = transform(pipeline, "end").spec.get_or_insert_default();
            spec.payload = vec![0xff, 0xff].into();
        },
        expect![[r#"
            error: transform "user/end" (beam:transform:pardo:v1): its ParDoPayload cannot be read
        "#]],
    );
    check_changed(
        |pipeline| {
            transform(pipeline, "outer").subtransforms = vec!["outer".to_owned()];
            pipeline.root_transform_ids.push("outer".to_owned());
        },
        expect![[r#"
            error: transform "": is contained twice, or contains itself
        "#]],
    );
}

#[test]
fn nesting_may_be_deep() {
    let mut pipeline = testing::pipeline("start: impulse");
    let mut inner = "start".to_owned();
    for level in 0..100_000 {
        let id = format!("level{level}");
        transform(&mut pipeline, &id).subtransforms = vec![inner];
        inner = id;
    }
    pipeline.root_transform_ids = vec![inner];
    let plan = plan::build(&pipeline, &testing::settings()).expect("a plan");
    assert_eq!(plan.graph.stages.len(), 1);
}
