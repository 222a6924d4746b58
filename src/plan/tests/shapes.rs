//! Plans of small pipelines, as text.

use expect_test::{Expect, expect};

use crate::plan::build::build_unless;
use crate::plan::tests::validity::assert_valid;
use crate::plan::{explain, testing};
use crate::proto::fn_execution::ProcessBundleDescriptor;

/// Plans a pipeline, features that are refused for now included.
fn check(script: &str, expected: Expect) {
    let plan = build_unless(&testing::pipeline(script), &testing::settings(), &[]);
    let plan = plan.expect("a plan");
    assert_valid(&plan);
    expected.assert_eq(&explain::text(&plan));
}

#[test]
fn par_dos_share_a_stage() {
    check(
        "
        start: impulse
        words: pardo start coder=string
        pairs: pardo words coder=kv(string,custom)
        ",
        expect![[r#"
            s0 "user/start": impulse
              out p0 "start": windowed(bytes, global)

            s1 "user/words + user/pairs": executable in env0 "py"
              in  p0 "start": windowed(bytes, global)
              run "pairs" user/pairs [beam:transform:pardo:v1]
              run "words" user/words [beam:transform:pardo:v1]
        "#]],
    );
}

#[test]
fn a_group_by_key_stands_between_stages() {
    check(
        "
        start: impulse
        pairs: pardo start coder=kv(custom,string)
        groups: gbk pairs
        left: pardo groups coder=string
        right: pardo groups coder=string
        ",
        expect![[r#"
            s0 "user/start": impulse
              out p0 "start": windowed(bytes, global)

            s1 "user/pairs": executable in env0 "py"
              in  p0 "start": windowed(bytes, global)
              run "pairs" user/pairs [beam:transform:pardo:v1]
              out p1 "pairs": windowed(kv(prefixed(test:coder:custom), string), global)

            s2 "user/groups": group by key
              in  p1 "pairs": windowed(kv(prefixed(test:coder:custom), string), global)
              by  Global, Default
              out p2 "groups": windowed(kv(prefixed(test:coder:custom), iterable(string)), global)

            s3 "user/left + user/right": executable in env0 "py"
              in  p2 "groups": windowed(kv(prefixed(test:coder:custom), iterable(string)), global)
              run "left" user/left [beam:transform:pardo:v1]
              run "right" user/right [beam:transform:pardo:v1]
        "#]],
    );
}

#[test]
fn a_flatten_wants_inputs_encoded_like_its_output() {
    check(
        "
        start: impulse
        one: pardo start coder=string
        two: pardo start coder=custom
        all: flatten one two one
        more: flatten all coder=custom
        end: pardo more
        ",
        expect![[r#"
            s0 "user/start": impulse
              out p0 "start": windowed(bytes, global)

            s1 "user/one + user/two + user/all": executable in env0 "py"
              in  p0 "start": windowed(bytes, global)
              run "one" user/one [beam:transform:pardo:v1]
              run "two" user/two [beam:transform:pardo:v1]
              out p1 "one": windowed(string, global)
              out p2 "all/Transcode/in1.out": windowed(string, global)

            s2 "user/all": flatten
              in  p1 "one": windowed(string, global)
              in  p2 "all/Transcode/in1.out": windowed(string, global)
              in  p1 "one": windowed(string, global)
              out p3 "all": windowed(string, global)

            s3 "user/more": executable in env0 "py"
              in  p3 "all": windowed(string, global)
              out p4 "more/Transcode/in0.out": windowed(prefixed(test:coder:custom), global)

            s4 "user/more": flatten
              in  p4 "more/Transcode/in0.out": windowed(prefixed(test:coder:custom), global)
              out p5 "more": windowed(prefixed(test:coder:custom), global)

            s5 "user/end": executable in env0 "py"
              in  p5 "more": windowed(prefixed(test:coder:custom), global)
              run "end" user/end [beam:transform:pardo:v1]
        "#]],
    );
}

#[test]
fn a_side_input_from_the_same_stage_breaks_fusion() {
    check(
        "
        start: impulse
        one: pardo start coder=string
        side: pardo one coder=kv(string,custom)
        main: pardo one multi=side
        other: impulse
        third: pardo other side=main
        fourth: pardo third
        ",
        expect![[r#"
            s0 "user/start": impulse
              out p0 "start": windowed(bytes, global)

            s1 "user/one + user/side": executable in env0 "py"
              in  p0 "start": windowed(bytes, global)
              run "one" user/one [beam:transform:pardo:v1]
              run "side" user/side [beam:transform:pardo:v1]
              out p1 "one": windowed(string, global)
              out p2 "side": windowed(kv(string, prefixed(test:coder:custom)), global)

            s2 "user/main": executable in env0 "py"
              in  p1 "one": windowed(string, global)
              run "main" user/main [beam:transform:pardo:v1]
              side p2 multimap "multi-side" of "main": kv(string, prefixed(test:coder:custom))
              out p3 "main": windowed(string, global)
              why starts here: its side input "side" depends on the stage that makes its main input

            s3 "user/other": impulse
              out p4 "other": windowed(bytes, global)

            s4 "user/third + user/fourth": executable in env0 "py"
              in  p4 "other": windowed(bytes, global)
              run "fourth" user/fourth [beam:transform:pardo:v1]
              run "third" user/third [beam:transform:pardo:v1]
              side p3 iterable "side-main" of "third": string
        "#]],
    );
}

#[test]
fn combiners_are_lifted() {
    check(
        "
        start: impulse
        pairs: pardo start coder=kv(custom,string)
        group: gbk pairs out=grouped
        values: values grouped coder=kv(custom,string) out=sum
        sum: combine pairs coder=kv(custom,string) parts=group,values
        end: pardo sum
        ",
        expect![[r#"
            s0 "user/start": impulse
              out p0 "start": windowed(bytes, global)

            s1 "user/pairs + user/sum": executable in env0 "py"
              in  p0 "start": windowed(bytes, global)
              run "pairs" user/pairs [beam:transform:pardo:v1]
              run "sum/Precombine" user/sum [beam:transform:combine_per_key_precombine:v1]
              out p1 "sum/Precombine.out": windowed(kv(prefixed(test:coder:custom), prefixed(test:coder:accumulator)), global)

            s2 "user/sum": group by key
              in  p1 "sum/Precombine.out": windowed(kv(prefixed(test:coder:custom), prefixed(test:coder:accumulator)), global)
              by  Global, Default
              out p2 "sum/Group.out": windowed(kv(prefixed(test:coder:custom), iterable(prefixed(test:coder:accumulator))), global)

            s3 "user/sum + user/end": executable in env0 "py"
              in  p2 "sum/Group.out": windowed(kv(prefixed(test:coder:custom), iterable(prefixed(test:coder:accumulator))), global)
              run "end" user/end [beam:transform:pardo:v1]
              run "sum/ExtractOutputs" user/sum [beam:transform:combine_per_key_extract_outputs:v1]
              run "sum/Merge" user/sum [beam:transform:combine_per_key_merge_accumulators:v1]
        "#]],
    );
}

#[test]
fn splittable_dofns_are_split_into_parts() {
    check(
        "
        start: impulse
        other: impulse
        side: pardo other
        read: pardo start coder=string side=side is=sdf,unbounded
        end: pardo read
        ",
        expect![[r#"
            s0 "user/start": impulse
              out p0 "start": windowed(bytes, global)

            s1 "user/other": impulse
              out p1 "other": windowed(bytes, global)

            s2 "user/side": executable in env0 "py"
              in  p1 "other": windowed(bytes, global)
              run "side" user/side [beam:transform:pardo:v1]
              out p2 "side": windowed(bytes, global)

            s3 "user/read": executable in env0 "py"
              in  p0 "start": windowed(bytes, global)
              run "read/PairWithRestriction" user/read [beam:transform:sdf_pair_with_restriction:v1]
              run "read/SplitAndSize" user/read [beam:transform:sdf_split_and_size_restrictions:v1]
              side p2 iterable "side-side" of "read/PairWithRestriction": bytes
              side p2 iterable "side-side" of "read/SplitAndSize": bytes
              out p3 "read/SplitAndSize.out": windowed(kv(kv(bytes, prefixed(test:coder:restriction)), double), global)

            s4 "user/read + user/end": executable in env0 "py", splittable
              in  p3 "read/SplitAndSize.out": windowed(kv(kv(bytes, prefixed(test:coder:restriction)), double), global)
              run "end" user/end [beam:transform:pardo:v1]
              run "read" user/read [beam:transform:sdf_process_sized_element_and_restrictions:v1]
              side p2 iterable "side-side" of "read": bytes
              splits "read", truncates on drain
              why starts here: restrictions are spread over workers
        "#]],
    );
}

#[test]
fn environments_do_not_mix() {
    check(
        "
        start: impulse
        python: pardo start coder=kv(string,custom)
        java: pardo python env=java coder=kv(string,custom)
        back: pardo java coder=custom
        beside: pardo python
        ",
        expect![[r#"
            s0 "user/start": impulse
              out p0 "start": windowed(bytes, global)

            s1 "user/python + user/beside": executable in env1 "py"
              in  p0 "start": windowed(bytes, global)
              run "beside" user/beside [beam:transform:pardo:v1]
              run "python" user/python [beam:transform:pardo:v1]
              out p1 "python": windowed(kv(string, prefixed(test:coder:custom)), global)

            s2 "user/java": executable in env0 "java"
              in  p1 "python": windowed(kv(string, prefixed(test:coder:custom)), global)
              run "java" user/java [beam:transform:pardo:v1]
              out p2 "java": windowed(kv(string, prefixed(test:coder:custom)), global)
              why starts here: another environment or other resource hints

            s3 "user/back": executable in env1 "py"
              in  p2 "java": windowed(kv(string, prefixed(test:coder:custom)), global)
              run "back" user/back [beam:transform:pardo:v1]
              why starts here: another environment or other resource hints
        "#]],
    );
}

#[test]
fn a_keyed_stage_starts_at_the_stateful_transform() {
    check(
        "
        start: impulse
        pairs: pardo start coder=kv(custom,string)
        state: pardo pairs is=stateful coder=string
        after: pardo state
        beside: pardo pairs
        ",
        expect![[r#"
            s0 "user/start": impulse
              out p0 "start": windowed(bytes, global)

            s1 "user/pairs + user/beside": executable in env0 "py"
              in  p0 "start": windowed(bytes, global)
              run "beside" user/beside [beam:transform:pardo:v1]
              run "pairs" user/pairs [beam:transform:pardo:v1]
              out p1 "pairs": windowed(kv(prefixed(test:coder:custom), string), global)

            s2 "user/state + user/after": executable in env0 "py", keyed
              in  p1 "pairs": windowed(kv(prefixed(test:coder:custom), string), global)
              run "after" user/after [beam:transform:pardo:v1]
              run "state" user/state [beam:transform:pardo:v1]
              state "seen" of "state"
              why starts here: state or timers need a stage input that is spread by key
        "#]],
    );
}

#[test]
fn side_inputs_wait_for_windows_of_the_stage_input() {
    check(
        "
        start: impulse
        events: pardo start coder=string is=unbounded
        shuffled: reshuffle events
        fixed: window shuffled windows=fixed
        side: pardo fixed
        again: reshuffle side
        join: pardo fixed side=again
        same: pardo again side=side
        ",
        expect![[r#"
            s0 "user/start": impulse
              out p0 "start": windowed(bytes, global)

            s1 "user/events": executable in env0 "py"
              in  p0 "start": windowed(bytes, global)
              run "events" user/events [beam:transform:pardo:v1]
              out p1 "events": windowed(string, global), unbounded

            s2 "user/shuffled": reshuffle
              in  p1 "events": windowed(string, global), unbounded
              out p2 "shuffled": windowed(string, global), unbounded

            s3 "user/fixed + user/side": executable in env0 "py"
              in  p2 "shuffled": windowed(string, global), unbounded
              run "fixed" user/fixed [beam:transform:window_into:v1]
              run "side" user/side [beam:transform:pardo:v1]
              out p3 "fixed": windowed(string, interval), unbounded
              out p4 "side": windowed(string, interval), unbounded

            s4 "user/again": reshuffle
              in  p4 "side": windowed(string, interval), unbounded
              out p5 "again": windowed(string, interval), unbounded

            s5 "user/join": executable in env0 "py"
              in  p3 "fixed": windowed(string, interval), unbounded
              run "join" user/join [beam:transform:pardo:v1]
              side p5 iterable "side-again" of "join": string
              why starts here: its side input "again" is waited for per window, and the stage's input has other windows

            s6 "user/same": executable in env0 "py"
              in  p5 "again": windowed(string, interval), unbounded
              run "same" user/same [beam:transform:pardo:v1]
              side p4 iterable "side-side" of "same": string
        "#]],
    );
}

#[test]
fn reshuffles_encode_their_input_like_their_output() {
    check(
        "
        start: impulse
        pairs: pardo start coder=kv(plain,custom)
        shuffled: reshuffle pairs coder=kv(deterministic,custom)
        again: reshuffle shuffled
        end: pardo again
        ",
        expect![[r#"
            s0 "user/start": impulse
              out p0 "start": windowed(bytes, global)

            s1 "user/pairs + user/shuffled": executable in env0 "py"
              in  p0 "start": windowed(bytes, global)
              run "pairs" user/pairs [beam:transform:pardo:v1]
              out p1 "shuffled/Transcode/in0.out": windowed(kv(prefixed(test:coder:deterministic), prefixed(test:coder:custom)), global)

            s2 "user/shuffled": reshuffle
              in  p1 "shuffled/Transcode/in0.out": windowed(kv(prefixed(test:coder:deterministic), prefixed(test:coder:custom)), global)
              out p2 "shuffled": windowed(kv(prefixed(test:coder:deterministic), prefixed(test:coder:custom)), global)

            s3 "user/again": reshuffle
              in  p2 "shuffled": windowed(kv(prefixed(test:coder:deterministic), prefixed(test:coder:custom)), global)
              out p3 "again": windowed(kv(prefixed(test:coder:deterministic), prefixed(test:coder:custom)), global)

            s4 "user/end": executable in env0 "py"
              in  p3 "again": windowed(kv(prefixed(test:coder:deterministic), prefixed(test:coder:custom)), global)
              run "end" user/end [beam:transform:pardo:v1]
        "#]],
    );
}

#[test]
fn custom_windows_show_their_end() {
    check(
        "
        start: impulse
        pairs: window start windows=my:windows coder=kv(string,custom)
        groups: gbk pairs
        end: pardo groups
        ",
        expect![[r#"
            s0 "user/start": impulse
              out p0 "start": windowed(bytes, global)

            s1 "user/pairs": executable in env0 "py"
              in  p0 "start": windowed(bytes, global)
              run "pairs" user/pairs [beam:transform:window_into:v1]
              out p1 "pairs": windowed(kv(string, prefixed(test:coder:custom)), custom_window(prefixed(test:coder:special_window)))

            s2 "user/groups": group by key
              in  p1 "pairs": windowed(kv(string, prefixed(test:coder:custom)), custom_window(prefixed(test:coder:special_window)))
              by  custom my:windows, Default
              out p2 "groups": windowed(kv(string, iterable(prefixed(test:coder:custom))), custom_window(prefixed(test:coder:special_window)))

            s3 "user/end": executable in env0 "py"
              in  p2 "groups": windowed(kv(string, iterable(prefixed(test:coder:custom))), custom_window(prefixed(test:coder:special_window)))
              run "end" user/end [beam:transform:pardo:v1]
        "#]],
    );
}

#[test]
fn what_only_hands_its_input_through_is_no_work() {
    check(
        "
        start: impulse
        through: beam:transform:pickled_python:v1 start out=start
        nothing: composite start out=
        end: pardo start
        ",
        expect![[r#"
            s0 "user/start": impulse
              out p0 "start": windowed(bytes, global)

            s1 "user/end": executable in env0 "py"
              in  p0 "start": windowed(bytes, global)
              run "end" user/end [beam:transform:pardo:v1]
        "#]],
    );
}

#[test]
fn a_flatten_of_nothing_is_a_source() {
    check(
        "
        none: flatten coder=string
        end: pardo none
        ",
        expect![[r#"
            s0 "user/none": flatten
              out p0 "none": windowed(string, global)

            s1 "user/end": executable in env0 "py"
              in  p0 "none": windowed(string, global)
              run "end" user/end [beam:transform:pardo:v1]
        "#]],
    );
}

#[test]
fn a_test_stream_is_decoded_by_its_readers() {
    check(
        "
        stream: beam:transform:teststream:v1 stream=custom coder=kv(string,custom) out=a,b is=unbounded
        keyed: pardo a is=stateful
        plain: pardo a
        grouped: gbk b coder=kv(string,iter(custom))
        end: pardo grouped
        ",
        expect![[r#"
            s0 "user/stream": test stream
              out p0 "stream/out0.encoded": windowed(prefixed(test:coder:custom), global), unbounded

            s1 "user/stream + user/plain": executable in env0 "py"
              in  p0 "stream/out0.encoded": windowed(prefixed(test:coder:custom), global), unbounded
              run "plain" user/plain [beam:transform:pardo:v1]
              out p1 "a": windowed(kv(string, prefixed(test:coder:custom)), global), unbounded

            s2 "user/stream": test stream
              out p2 "stream/out1.encoded": windowed(prefixed(test:coder:custom), global), unbounded

            s3 "user/stream": executable in env0 "py"
              in  p2 "stream/out1.encoded": windowed(prefixed(test:coder:custom), global), unbounded
              out p3 "b": windowed(kv(string, prefixed(test:coder:custom)), global), unbounded

            s4 "user/keyed": executable in env0 "py", keyed
              in  p1 "a": windowed(kv(string, prefixed(test:coder:custom)), global), unbounded
              run "keyed" user/keyed [beam:transform:pardo:v1]
              state "seen" of "keyed"
              why starts here: state or timers need a stage input that is spread by key

            s5 "user/grouped": group by key
              in  p3 "b": windowed(kv(string, prefixed(test:coder:custom)), global), unbounded
              by  Global, Default
              out p4 "grouped": windowed(kv(string, iterable(prefixed(test:coder:custom))), global), unbounded

            s6 "user/end": executable in env0 "py"
              in  p4 "grouped": windowed(kv(string, iterable(prefixed(test:coder:custom))), global), unbounded
              run "end" user/end [beam:transform:pardo:v1]

            script:
              s0 gets b"x" at 7
              5 ms pass
              s0 is complete to MAX
        "#]],
    );
    check(
        "
        stream: beam:transform:teststream:v1 stream=custom coder=custom is=unbounded
        end: pardo stream
        ",
        expect![[r#"
            s0 "user/stream": test stream
              out p0 "stream": windowed(prefixed(test:coder:custom), global), unbounded

            s1 "user/end": executable in env0 "py"
              in  p0 "stream": windowed(prefixed(test:coder:custom), global), unbounded
              run "end" user/end [beam:transform:pardo:v1]

            script:
              s0 gets b"x" at 7
              5 ms pass
              s0 is complete to MAX
        "#]],
    );
}

#[test]
fn some_inputs_need_a_stage_of_their_own() {
    check(
        "
        start: impulse
        pairs: pardo start coder=kv(string,custom)
        stable: pardo pairs is=stable
        sorted: pardo stable is=stateful,sorted
        ",
        expect![[r#"
            s0 "user/start": impulse
              out p0 "start": windowed(bytes, global)

            s1 "user/pairs": executable in env0 "py"
              in  p0 "start": windowed(bytes, global)
              run "pairs" user/pairs [beam:transform:pardo:v1]
              out p1 "pairs": windowed(kv(string, prefixed(test:coder:custom)), global)

            s2 "user/stable": executable in env0 "py", stable input
              in  p1 "pairs": windowed(kv(string, prefixed(test:coder:custom)), global)
              run "stable" user/stable [beam:transform:pardo:v1]
              out p2 "stable": windowed(kv(string, prefixed(test:coder:custom)), global)
              why starts here: its input must be durable first

            s3 "user/sorted": executable in env0 "py", keyed, time-sorted input
              in  p2 "stable": windowed(kv(string, prefixed(test:coder:custom)), global)
              run "sorted" user/sorted [beam:transform:pardo:v1]
              state "seen" of "sorted"
              why starts here: state or timers need a stage input that is spread by key
        "#]],
    );
}

#[test]
fn combiners_stay_whole_where_the_earliest_element_may_be_late() {
    check(
        "
        start: impulse
        pairs: window start windows=earliest coder=kv(custom,string) is=unbounded
        group: gbk pairs out=grouped windows=earliest
        values: values grouped coder=kv(custom,string) out=sum windows=earliest
        sum: combine pairs coder=kv(custom,string) parts=group,values windows=earliest
        end: pardo sum
        ",
        expect![[r#"
            s0 "user/start": impulse
              out p0 "start": windowed(bytes, global)

            s1 "user/pairs": executable in env0 "py"
              in  p0 "start": windowed(bytes, global)
              run "pairs" user/pairs [beam:transform:window_into:v1]
              out p1 "pairs": windowed(kv(prefixed(test:coder:custom), string), custom_window(prefixed(test:coder:special_window))), unbounded

            s2 "user/group": group by key
              in  p1 "pairs": windowed(kv(prefixed(test:coder:custom), string), custom_window(prefixed(test:coder:special_window))), unbounded
              by  custom earliest, Default
              out p2 "grouped": windowed(kv(prefixed(test:coder:custom), iterable(string)), custom_window(prefixed(test:coder:special_window))), unbounded

            s3 "user/values + user/end": executable in env0 "py"
              in  p2 "grouped": windowed(kv(prefixed(test:coder:custom), iterable(string)), custom_window(prefixed(test:coder:special_window))), unbounded
              run "end" user/end [beam:transform:pardo:v1]
              run "values" user/values [beam:transform:combine_grouped_values:v1]
        "#]],
    );
}

#[test]
fn stages_do_not_wait_for_each_other_in_a_circle() {
    check(
        "
        start: impulse
        a: pardo start coder=string
        p: pardo a env=java coder=string
        other: impulse
        s: pardo other coder=string
        u: pardo a side=s
        v: pardo s side=p
        ",
        expect![[r#"
            s0 "user/start": impulse
              out p0 "start": windowed(bytes, global)

            s1 "user/other": impulse
              out p1 "other": windowed(bytes, global)

            s2 "user/s": executable in env1 "py"
              in  p1 "other": windowed(bytes, global)
              run "s" user/s [beam:transform:pardo:v1]
              out p2 "s": windowed(string, global)

            s3 "user/a + user/u": executable in env1 "py"
              in  p0 "start": windowed(bytes, global)
              run "a" user/a [beam:transform:pardo:v1]
              run "u" user/u [beam:transform:pardo:v1]
              side p2 iterable "side-s" of "u": string
              out p3 "a": windowed(string, global)

            s4 "user/p": executable in env0 "java"
              in  p3 "a": windowed(string, global)
              run "p" user/p [beam:transform:pardo:v1]
              out p4 "p": windowed(string, global)
              why starts here: another environment or other resource hints

            s5 "user/v": executable in env1 "py"
              in  p2 "s": windowed(string, global)
              run "v" user/v [beam:transform:pardo:v1]
              side p4 iterable "side-p" of "v": string
              why starts here: its side input "p" depends on the stage that makes its main input
        "#]],
    );
}

#[test]
fn a_long_chain_is_cut() {
    let mut script = String::from("t0: impulse\n");
    for index in 1..=250 {
        script += &format!("t{index}: pardo t{} coder=string\n", index - 1);
    }
    let plan = build_unless(&testing::pipeline(&script), &testing::settings(), &[]);
    let plan = plan.expect("a plan");
    assert_valid(&plan);
    let run = |descriptor: &ProcessBundleDescriptor| {
        let ids = descriptor.transforms.keys();
        ids.filter(|id| id.starts_with('t')).count()
    };
    let runs: Vec<usize> = plan.descriptors.values().map(run).collect();
    assert_eq!(runs, [100, 100, 50]);
    let last = plan.breaks.last().cloned().flatten();
    let why = "an SDK runs at most 100 transforms inside each other";
    assert_eq!(last.as_deref(), Some(why));
}

#[test]
fn windows_of_its_own_are_merged_in_the_sdk() {
    check(
        "
        start: impulse
        pairs: window start windows=my:merging:windows coder=kv(string,custom)
        groups: gbk pairs
        end: pardo groups
        ",
        expect![[r#"
            s0 "user/start": impulse
              out p0 "start": windowed(bytes, global)

            s1 "user/pairs": executable in env0 "py"
              in  p0 "start": windowed(bytes, global)
              run "pairs" user/pairs [beam:transform:window_into:v1]
              out p1 "pairs": windowed(kv(string, prefixed(test:coder:custom)), custom_window(prefixed(test:coder:special_window)))

            s2 "user/groups": group by key
              in  p1 "pairs": windowed(kv(string, prefixed(test:coder:custom)), custom_window(prefixed(test:coder:special_window)))
              by  custom my:merging:windows, merging, Default
              out p2 "groups": windowed(kv(string, iterable(prefixed(test:coder:custom))), custom_window(prefixed(test:coder:special_window)))
              out p3 "groups/Merge.in": windowed(kv(bytes, iterable(custom_window(prefixed(test:coder:special_window)))), global)

            s3 "user/end": executable in env0 "py"
              in  p2 "groups": windowed(kv(string, iterable(prefixed(test:coder:custom))), custom_window(prefixed(test:coder:special_window)))
              run "end" user/end [beam:transform:pardo:v1]

            s4 "user/groups": executable in env0 "py"
              in  p3 "groups/Merge.in": windowed(kv(bytes, iterable(custom_window(prefixed(test:coder:special_window)))), global)
              run "groups/Merge" user/groups [beam:transform:merge_windows:v1]
              out p4 "groups/Merge.out": windowed(kv(bytes, kv(iterable(custom_window(prefixed(test:coder:special_window))), iterable(kv(custom_window(prefixed(test:coder:special_window)), iterable(custom_window(prefixed(test:coder:special_window))))))), global)
        "#]],
    );
}

#[test]
fn test_streams_take_turns() {
    check(
        "
        one: beam:transform:teststream:v1 stream=bytes coder=bytes is=unbounded
        two: beam:transform:teststream:v1 stream=bytes coder=bytes is=unbounded
        first: pardo one
        second: pardo two
        ",
        expect![[r#"
            s0 "user/one": test stream
              out p0 "one/out0.encoded": windowed(prefixed(bytes), global), unbounded

            s1 "user/one + user/first": executable in env0 "py"
              in  p0 "one/out0.encoded": windowed(prefixed(bytes), global), unbounded
              run "first" user/first [beam:transform:pardo:v1]

            s2 "user/two": test stream
              out p1 "two/out0.encoded": windowed(prefixed(bytes), global), unbounded

            s3 "user/two + user/second": executable in env0 "py"
              in  p1 "two/out0.encoded": windowed(prefixed(bytes), global), unbounded
              run "second" user/second [beam:transform:pardo:v1]

            script:
              s0 gets b"x" at 7
              s2 gets b"x" at 7
              5 ms pass
              5 ms pass
              s0 is complete to MAX
              s2 is complete to MAX
        "#]],
    );
}
