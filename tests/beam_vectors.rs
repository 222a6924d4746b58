//! Every example of Beam's `standard_coders.yaml`, read from an installed apache-beam package.
//!
//! The package's folder is taken from `TIDEMILL_BEAM_PACKAGE`, else asked of `TIDEMILL_PYTHON` or
//! `python3`.

mod beam_package;

use std::fs;

use bytes::Bytes;
use prost::Message;
use serde_yaml_ng::Value as Yaml;
use tidemill::coder::length::encoded_len;
use tidemill::coder::value::{Context, TimerValue, Value, decode, decode_all, encode};
use tidemill::model::coder::Coder;
use tidemill::model::element::ElementHeader;
use tidemill::model::pane::{PaneInfo, PaneTiming};
use tidemill::model::schema::{Field, FieldKind, FieldType, Schema};
use tidemill::model::time::Timestamp;
use tidemill::model::timer::TimerFiring;
use tidemill::model::window::Window;
use tidemill::proto::pipeline;
use tidemill::proto::pipeline::field_type::TypeInfo;

/// How many cases Beam 2.77 has; later releases only add some.
const CASES_MIN: usize = 45;

#[test]
fn every_standard_coder() {
    let Some(package) = beam_package::folder() else {
        return;
    };
    let path = package.join("portability/api/standard_coders.yaml");
    let text = fs::read_to_string(&path).expect("the package has its coder vectors");
    let (mut cases, mut examples) = (0, 0);
    for document in serde_yaml_ng::Deserializer::from_str(&text) {
        let case: Yaml = serde::Deserialize::deserialize(document).expect("YAML");
        if !case.is_null() {
            cases += 1;
            examples += check_case(&case);
        }
    }
    println!("{cases} cases, {examples} examples, each in its contexts");
    assert!(cases >= CASES_MIN, "{cases} cases in {}", path.display());
}

fn check_case(case: &Yaml) -> usize {
    let coder = coder(&case["coder"]);
    let contexts = match case["nested"].as_bool() {
        Some(true) => vec![Context::Nested],
        Some(false) => vec![Context::Outer],
        None => vec![Context::Nested, Context::Outer],
    };
    let deterministic = !case["non_deterministic"].as_bool().unwrap_or(false)
        && !case["coder"]["non_deterministic"]
            .as_bool()
            .unwrap_or(false);
    let examples = case["examples"].as_mapping().expect("examples");
    for (encoded, expected) in examples {
        let bytes = latin1(encoded);
        let state = &case["coder"]["state"];
        for context in &contexts {
            check_example(&coder, *context, &bytes, expected, state, deterministic);
        }
    }
    examples.len()
}

fn check_example(
    coder: &Coder,
    context: Context,
    bytes: &[u8],
    expected: &Yaml,
    state: &Yaml,
    deterministic: bool,
) {
    let at = format!("{coder:?} {context:?} {bytes:x?} {expected:?}");
    let value = decode_all(coder, context, bytes).unwrap_or_else(|error| panic!("{at}: {error}"));
    let resolved = fetch_rest(coder, value.clone(), state);
    let expected = expected_value(coder, expected);
    match (&resolved, &expected) {
        (Value::Double(a), Value::Double(b)) if a.is_nan() && b.is_nan() => {}
        _ => assert_eq!(resolved, expected, "{at}"),
    }
    let mut again = vec![];
    encode(coder, context, &value, &mut again).unwrap_or_else(|error| panic!("{at}: {error}"));
    if deterministic {
        assert_eq!(again, bytes, "{at}");
    } else {
        assert_eq!(decode_all(coder, context, &again), Ok(value), "{at}");
    }
    if context == Context::Nested {
        let followed = [bytes, &[0xaa, 0xbb]].concat();
        assert_eq!(encoded_len(coder, &followed), Ok(bytes.len()), "{at}");
    }
}

/// Completes a state-backed iterable with what the case says the runner's state holds.
fn fetch_rest(coder: &Coder, value: Value, state: &Yaml) -> Value {
    let (
        Coder::StateBackedIterable(element),
        Value::Continued {
            mut elements,
            token,
        },
    ) = (coder, value.clone())
    else {
        return value;
    };
    let token = str::from_utf8(&token).expect("a token of text");
    let rest = latin1(&state[token]);
    let mut rest = &rest[..];
    while !rest.is_empty() {
        elements.push(decode(element, Context::Nested, &mut rest).expect("an element"));
    }
    Value::List(elements)
}

/// The cases write each byte as the character of the same number.
fn latin1(text: &Yaml) -> Vec<u8> {
    let text = text.as_str().expect("bytes as text");
    let byte = |character: char| u8::try_from(u32::from(character)).expect("a byte");
    text.chars().map(byte).collect()
}

fn coder(spec: &Yaml) -> Coder {
    let components = spec["components"].as_sequence();
    let part = |index: usize| Box::new(coder(&components.expect("components")[index]));
    match spec["urn"].as_str().expect("a URN") {
        "beam:coder:bytes:v1" => Coder::Bytes,
        "beam:coder:string_utf8:v1" => Coder::StringUtf8,
        "beam:coder:bool:v1" => Coder::Bool,
        "beam:coder:varint:v1" => Coder::VarInt,
        "beam:coder:double:v1" => Coder::Double,
        "beam:coder:kv:v1" => Coder::Kv(part(0), part(1)),
        "beam:coder:iterable:v1" => Coder::Iterable(part(0)),
        "beam:coder:state_backed_iterable:v1" => Coder::StateBackedIterable(part(0)),
        "beam:coder:nullable:v1" => Coder::Nullable(part(0)),
        "beam:coder:sharded_key:v1" => Coder::ShardedKey(part(0)),
        "beam:coder:global_window:v1" => Coder::GlobalWindow,
        "beam:coder:interval_window:v1" => Coder::IntervalWindow,
        "beam:coder:custom_window:v1" => Coder::CustomWindow(part(0)),
        "beam:coder:windowed_value:v1" => Coder::WindowedValue(part(0), part(1)),
        "beam:coder:param_windowed_value:v1" => {
            Coder::ParamWindowedValue(part(0), part(1), latin1(&spec["payload"]).into())
        }
        "beam:coder:timer:v1" => Coder::Timer(part(0), part(1)),
        "beam:coder:row:v1" => {
            let schema = pipeline::Schema::decode(&latin1(&spec["payload"])[..]);
            Coder::Row(schema_of(&schema.expect("a schema")))
        }
        other => panic!("{other} has vectors but no codec"),
    }
}

fn schema_of(proto: &pipeline::Schema) -> Schema {
    let field = |field: &pipeline::Field| Field {
        name: field.name.clone(),
        field_type: field_type(field.r#type.as_ref()),
    };
    let mut schema = Schema::in_order(proto.fields.iter().map(field).collect());
    if proto.encoding_positions_set {
        let position = |index: &usize| proto.fields[*index].encoding_position;
        schema.encoding_order.sort_by_key(position);
    }
    schema
}

fn field_type(proto: Option<&pipeline::FieldType>) -> FieldType {
    let proto = proto.expect("a field type");
    let element =
        |element: &Option<Box<pipeline::FieldType>>| Box::new(field_type(element.as_deref()));
    let kind = match proto.type_info.as_ref().expect("a type") {
        TypeInfo::AtomicType(atomic) => match pipeline::AtomicType::try_from(*atomic) {
            Ok(pipeline::AtomicType::Byte) => FieldKind::Byte,
            Ok(pipeline::AtomicType::Int16) => FieldKind::Int16,
            Ok(pipeline::AtomicType::Int32) => FieldKind::Int32,
            Ok(pipeline::AtomicType::Int64) => FieldKind::Int64,
            Ok(pipeline::AtomicType::Float) => FieldKind::Float,
            Ok(pipeline::AtomicType::Double) => FieldKind::Double,
            Ok(pipeline::AtomicType::String) => FieldKind::String,
            Ok(pipeline::AtomicType::Boolean) => FieldKind::Boolean,
            Ok(pipeline::AtomicType::Bytes) => FieldKind::Bytes,
            other => panic!("atomic type {other:?}"),
        },
        TypeInfo::ArrayType(array) => FieldKind::Array(element(&array.element_type)),
        TypeInfo::IterableType(array) => FieldKind::Iterable(element(&array.element_type)),
        TypeInfo::MapType(map) => FieldKind::Map(element(&map.key_type), element(&map.value_type)),
        TypeInfo::RowType(row) => FieldKind::Row(schema_of(row.schema.as_ref().expect("a schema"))),
        TypeInfo::LogicalType(logical) => FieldKind::Logical {
            urn: logical.urn.clone(),
            representation: element(&logical.representation),
        },
    };
    FieldType {
        nullable: proto.nullable,
        kind,
    }
}

fn expected_value(coder: &Coder, yaml: &Yaml) -> Value {
    let part = |coder: &Coder, name: &str| Box::new(expected_value(coder, &yaml[name]));
    match coder {
        Coder::Bytes => Value::Bytes(utf8(yaml)),
        Coder::StringUtf8 => Value::Text(yaml.as_str().expect("text").into()),
        Coder::Bool => Value::Bool(yaml.as_bool().expect("a boolean")),
        Coder::VarInt => Value::Int(yaml.as_i64().expect("an integer")),
        Coder::Double => Value::Double(number(yaml)),
        Coder::Kv(key, value) => Value::Pair(part(key, "key"), part(value, "value")),
        Coder::Iterable(element) | Coder::StateBackedIterable(element) => {
            let elements = yaml.as_sequence().expect("a list").iter();
            Value::List(elements.map(|yaml| expected_value(element, yaml)).collect())
        }
        Coder::Nullable(_) if yaml.is_null() => Value::Null,
        Coder::Nullable(inner) => expected_value(inner, yaml),
        Coder::ShardedKey(key) => Value::ShardedKey {
            shard: utf8(&yaml["shardId"]),
            key: part(key, "key"),
        },
        Coder::GlobalWindow | Coder::IntervalWindow | Coder::CustomWindow(_) => {
            Value::Window(window(coder, yaml))
        }
        Coder::WindowedValue(value, window) | Coder::ParamWindowedValue(value, window, _) => {
            let header = ElementHeader {
                timestamp: millis(&yaml["timestamp"]),
                windows: windows(window, yaml),
                pane: pane(&yaml["pane"]),
            };
            Value::Windowed(Box::new(header), part(value, "value"))
        }
        Coder::Timer(key, window) => Value::Timer(Box::new(TimerValue {
            key: *part(key, "userKey"),
            tag: utf8(&yaml["dynamicTimerTag"]),
            windows: windows(window, yaml),
            firing: (yaml["clearBit"] == Yaml::Bool(false)).then(|| TimerFiring {
                fire_at: millis(&yaml["fireTimestamp"]),
                hold: millis(&yaml["holdTimestamp"]),
                pane: pane(&yaml["pane"]),
            }),
        })),
        Coder::Row(schema) => expected_row(schema, yaml),
        other => panic!("no vectors for {other:?}"),
    }
}

fn expected_row(schema: &Schema, yaml: &Yaml) -> Value {
    let field = |field: &Field| expected_field(&field.field_type, &yaml[field.name.as_str()]);
    Value::Row(schema.fields.iter().map(field).collect())
}

fn expected_field(field: &FieldType, yaml: &Yaml) -> Value {
    if yaml.is_null() {
        assert!(field.nullable, "null for {field:?}");
        return Value::Null;
    }
    match &field.kind {
        FieldKind::Byte | FieldKind::Int16 | FieldKind::Int32 | FieldKind::Int64 => {
            Value::Int(yaml.as_i64().expect("an integer"))
        }
        FieldKind::Float => {
            Value::Float(yaml.as_str().expect("a number").parse().expect("a number"))
        }
        FieldKind::Double => Value::Double(number(yaml)),
        FieldKind::String => Value::Text(yaml.as_str().expect("text").into()),
        FieldKind::Boolean => Value::Bool(yaml.as_bool().expect("a boolean")),
        FieldKind::Bytes => Value::Bytes(utf8(yaml)),
        FieldKind::Array(element) | FieldKind::Iterable(element) => {
            let elements = yaml.as_sequence().expect("a list").iter();
            Value::List(elements.map(|yaml| expected_field(element, yaml)).collect())
        }
        FieldKind::Map(key, value) => {
            let entries = yaml.as_mapping().expect("a map").iter();
            let entry = |(k, v)| (expected_field(key, k), expected_field(value, v));
            Value::Map(entries.map(entry).collect())
        }
        FieldKind::Row(schema) => expected_row(schema, yaml),
        // Given as its encoding would read as an integer, the flipped sign included.
        FieldKind::Logical { urn, .. } if urn.ends_with(":millis_instant:v1") => {
            Value::Instant(yaml.as_i64().expect("an integer") ^ i64::MIN)
        }
        FieldKind::Logical { urn, .. } if urn.ends_with(":decimal:v1") => decimal(yaml),
        FieldKind::Logical { representation, .. } => expected_field(representation, yaml),
    }
}

fn decimal(yaml: &Yaml) -> Value {
    let text = yaml.as_str().expect("a decimal");
    let (whole, fraction) = text.split_once('.').expect("a point");
    let unscaled: i64 = format!("{whole}{fraction}").parse().expect("digits");
    let bytes = unscaled.to_be_bytes();
    let spare = |n: &usize| i64::from_be_bytes(bytes) << (8 * n) >> (8 * n) == unscaled;
    let spare = (0..8).rev().find(spare).unwrap_or(0);
    Value::Decimal {
        scale: fraction.len() as i64,
        unscaled: Bytes::copy_from_slice(&bytes[spare..]),
    }
}

fn window(coder: &Coder, yaml: &Yaml) -> Window {
    match coder {
        Coder::GlobalWindow => Window::Global,
        Coder::IntervalWindow => {
            let end = millis(&yaml["end"]);
            Window::Interval {
                start: end.plus(-yaml["span"].as_i64().expect("a length")),
                end,
            }
        }
        Coder::CustomWindow(inner) => {
            let inside = window(inner, &yaml["window"]);
            let mut encoded = vec![];
            tidemill::coder::window::write(&mut encoded, &inside);
            Window::Custom {
                max_timestamp: inside.max_timestamp(),
                encoded: encoded.into(),
            }
        }
        other => panic!("not a window coder: {other:?}"),
    }
}

fn windows(coder: &Coder, yaml: &Yaml) -> Vec<Window> {
    let windows = yaml["windows"].as_sequence().expect("windows").iter();
    windows.map(|yaml| window(coder, yaml)).collect()
}

fn pane(yaml: &Yaml) -> PaneInfo {
    PaneInfo {
        timing: match yaml["timing"].as_str() {
            Some("EARLY") => PaneTiming::Early,
            Some("ON_TIME") => PaneTiming::OnTime,
            Some("LATE") => PaneTiming::Late,
            Some("UNKNOWN") => PaneTiming::Unknown,
            other => panic!("timing {other:?}"),
        },
        is_first: yaml["is_first"].as_bool().expect("a boolean"),
        is_last: yaml["is_last"].as_bool().expect("a boolean"),
        index: yaml["index"].as_i64().expect("an integer"),
        non_speculative_index: yaml["on_time_index"].as_i64().expect("an integer"),
    }
}

fn millis(yaml: &Yaml) -> Timestamp {
    Timestamp::from_millis(yaml.as_i64().expect("milliseconds"))
}

fn utf8(yaml: &Yaml) -> Bytes {
    Bytes::copy_from_slice(yaml.as_str().expect("text").as_bytes())
}

fn number(yaml: &Yaml) -> f64 {
    yaml.as_str().expect("a number").parse().expect("a number")
}
