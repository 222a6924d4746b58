//! Any coder, any value of it, and any bytes.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::coder::length::encoded_len;
use crate::model::coder::Coder;
use crate::model::pane::{PaneInfo, PaneTiming};
use crate::model::schema::{Field, FieldKind, FieldType, Schema};
use crate::model::time::Timestamp;

fn boxed(coder: Coder) -> Box<Coder> {
    Box::new(coder)
}

fn opaque() -> Coder {
    Coder::LengthPrefix(boxed(Coder::Opaque("pickled".into())))
}

fn window_coder() -> impl Strategy<Value = Coder> {
    prop_oneof![
        Just(Coder::GlobalWindow),
        Just(Coder::IntervalWindow),
        Just(Coder::CustomWindow(boxed(opaque()))),
    ]
}

fn coder() -> impl Strategy<Value = Coder> {
    let leaf = prop_oneof![
        Just(Coder::Bytes),
        Just(Coder::StringUtf8),
        Just(Coder::Bool),
        Just(Coder::VarInt),
        Just(Coder::Double),
        Just(opaque()),
        window_coder(),
        schema().prop_map(Coder::Row),
    ];
    leaf.prop_recursive(4, 12, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(k, v)| Coder::Kv(boxed(k), boxed(v))),
            inner.clone().prop_map(|c| Coder::Iterable(boxed(c))),
            inner
                .clone()
                .prop_map(|c| Coder::StateBackedIterable(boxed(c))),
            inner.clone().prop_map(|c| Coder::LengthPrefix(boxed(c))),
            inner
                .clone()
                .prop_filter("a null within is no null without", |c| !is_nullable(c))
                .prop_map(|c| Coder::Nullable(boxed(c))),
            inner.clone().prop_map(|c| Coder::ShardedKey(boxed(c))),
            (inner.clone(), window_coder())
                .prop_map(|(v, w)| Coder::WindowedValue(boxed(v), boxed(w))),
            (inner, window_coder()).prop_map(|(k, w)| Coder::Timer(boxed(k), boxed(w))),
        ]
    })
}

fn is_nullable(coder: &Coder) -> bool {
    match coder {
        Coder::Nullable(_) => true,
        Coder::LengthPrefix(inner) => is_nullable(inner),
        _ => false,
    }
}

fn schema() -> impl Strategy<Value = Schema> {
    let kind = prop_oneof![
        Just(FieldKind::Byte),
        Just(FieldKind::Int16),
        Just(FieldKind::Int32),
        Just(FieldKind::Int64),
        Just(FieldKind::Float),
        Just(FieldKind::Double),
        Just(FieldKind::String),
        Just(FieldKind::Boolean),
        Just(FieldKind::Bytes),
        Just(logical(
            "beam:logical_type:millis_instant:v1",
            FieldKind::Int64
        )),
        Just(logical("beam:logical_type:decimal:v1", FieldKind::Bytes)),
        Just(logical("beam:logical_type:var_char:v1", FieldKind::String)),
    ];
    let kind = kind.prop_recursive(2, 6, 3, |inner| {
        prop_oneof![
            field_type(inner.clone()).prop_map(|t| FieldKind::Array(Box::new(t))),
            field_type(inner.clone()).prop_map(|t| FieldKind::Iterable(Box::new(t))),
            (field_type(inner.clone()), field_type(inner.clone()))
                .prop_map(|(k, v)| FieldKind::Map(Box::new(k), Box::new(v))),
            schema_of(inner).prop_map(FieldKind::Row),
        ]
    });
    schema_of(kind)
}

fn logical(urn: &str, representation: FieldKind) -> FieldKind {
    FieldKind::Logical {
        urn: urn.into(),
        representation: Box::new(FieldType {
            nullable: false,
            kind: representation,
        }),
    }
}

fn field_type(kind: impl Strategy<Value = FieldKind>) -> impl Strategy<Value = FieldType> {
    (any::<bool>(), kind).prop_map(|(nullable, kind)| FieldType { nullable, kind })
}

fn schema_of(kind: impl Strategy<Value = FieldKind>) -> impl Strategy<Value = Schema> {
    let field = field_type(kind).prop_map(|field_type| Field {
        name: "f".into(),
        field_type,
    });
    vec(field, 0..12)
        .prop_flat_map(|fields| {
            let order: Vec<usize> = (0..fields.len()).collect();
            (Just(fields), Just(order).prop_shuffle())
        })
        .prop_map(|(fields, encoding_order)| Schema {
            fields,
            encoding_order,
        })
}

fn some_bytes() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..200).prop_map(Bytes::from)
}

fn value_of(coder: &Coder) -> BoxedStrategy<Value> {
    match coder.clone() {
        Coder::Bytes | Coder::Opaque(_) => some_bytes().prop_map(Value::Bytes).boxed(),
        Coder::StringUtf8 => any::<String>().prop_map(Value::Text).boxed(),
        Coder::Bool => any::<bool>().prop_map(Value::Bool).boxed(),
        Coder::VarInt => any::<i64>().prop_map(Value::Int).boxed(),
        Coder::Double => any::<f64>().prop_map(Value::Double).boxed(),
        Coder::Kv(key, value) => (value_of(&key), value_of(&value))
            .prop_map(|(k, v)| Value::Pair(Box::new(k), Box::new(v)))
            .boxed(),
        Coder::Iterable(element) => vec(value_of(&element), 0..4).prop_map(Value::List).boxed(),
        Coder::StateBackedIterable(element) => (
            vec(value_of(&element), 0..4),
            proptest::option::of(some_bytes()),
        )
            .prop_map(|(elements, token)| match token {
                Some(token) => Value::Continued { elements, token },
                None => Value::List(elements),
            })
            .boxed(),
        Coder::LengthPrefix(inner) => value_of(&inner),
        Coder::Nullable(inner) => prop_oneof![Just(Value::Null), value_of(&inner)].boxed(),
        Coder::ShardedKey(key) => (some_bytes(), value_of(&key))
            .prop_map(|(shard, key)| Value::ShardedKey {
                shard,
                key: Box::new(key),
            })
            .boxed(),
        window @ (Coder::GlobalWindow | Coder::IntervalWindow | Coder::CustomWindow(_)) => {
            window_of(&window).prop_map(Value::Window).boxed()
        }
        Coder::WindowedValue(value, window) => (header(&window), value_of(&value))
            .prop_map(|(header, value)| Value::Windowed(Box::new(header), Box::new(value)))
            .boxed(),
        Coder::ParamWindowedValue(..) => unreachable!("not generated"),
        Coder::Timer(key, window) => (value_of(&key), some_bytes(), header(&window), any::<bool>())
            .prop_map(|(key, tag, header, set)| {
                Value::Timer(Box::new(TimerValue {
                    key,
                    tag,
                    windows: header.windows,
                    firing: set.then_some(TimerFiring {
                        fire_at: header.timestamp,
                        hold: Timestamp::MIN,
                        pane: header.pane,
                    }),
                }))
            })
            .boxed(),
        Coder::Row(schema) => row_of(&schema),
    }
}

fn row_of(schema: &Schema) -> BoxedStrategy<Value> {
    let fields: Vec<_> = schema
        .fields
        .iter()
        .map(|f| field_of(&f.field_type))
        .collect();
    fields.prop_map(Value::Row).boxed()
}

fn field_of(field: &FieldType) -> BoxedStrategy<Value> {
    let value = match &field.kind {
        FieldKind::Byte => any::<i8>().prop_map(|i| Value::Int(i.into())).boxed(),
        FieldKind::Int16 => any::<i16>().prop_map(|i| Value::Int(i.into())).boxed(),
        FieldKind::Int32 => any::<i32>().prop_map(|i| Value::Int(i.into())).boxed(),
        FieldKind::Int64 => any::<i64>().prop_map(Value::Int).boxed(),
        FieldKind::Float => any::<f32>().prop_map(Value::Float).boxed(),
        FieldKind::Double => any::<f64>().prop_map(Value::Double).boxed(),
        FieldKind::String => any::<String>().prop_map(Value::Text).boxed(),
        FieldKind::Boolean => any::<bool>().prop_map(Value::Bool).boxed(),
        FieldKind::Bytes => some_bytes().prop_map(Value::Bytes).boxed(),
        FieldKind::Array(element) | FieldKind::Iterable(element) => {
            vec(field_of(element), 0..4).prop_map(Value::List).boxed()
        }
        FieldKind::Map(key, value) => vec((field_of(key), field_of(value)), 0..4)
            .prop_map(Value::Map)
            .boxed(),
        FieldKind::Row(schema) => row_of(schema),
        FieldKind::Logical { urn, .. } if urn.contains("millis") => {
            any::<i64>().prop_map(Value::Instant).boxed()
        }
        FieldKind::Logical { urn, .. } if urn.contains("decimal") => (any::<i32>(), some_bytes())
            .prop_map(|(scale, unscaled)| Value::Decimal {
                scale: scale.into(),
                unscaled,
            })
            .boxed(),
        FieldKind::Logical { representation, .. } => field_of(representation),
    };
    if field.nullable {
        prop_oneof![Just(Value::Null), value].boxed()
    } else {
        value
    }
}

fn window_of(coder: &Coder) -> BoxedStrategy<Window> {
    let time = any::<i32>().prop_map(|millis| Timestamp::from_millis(millis.into()));
    match coder {
        Coder::GlobalWindow => Just(Window::Global).boxed(),
        Coder::IntervalWindow => (time, 0..i64::from(i32::MAX))
            .prop_map(|(start, span)| Window::Interval {
                start,
                end: start.plus(span),
            })
            .boxed(),
        _ => (time, some_bytes())
            .prop_map(|(max_timestamp, bytes)| {
                let mut encoded = vec![];
                crate::coder::length_prefix::write(&mut encoded, &bytes);
                Window::Custom {
                    max_timestamp,
                    encoded: encoded.into(),
                }
            })
            .boxed(),
    }
}

fn header(window_coder: &Coder) -> impl Strategy<Value = ElementHeader> + use<> {
    let windows = match window_coder {
        Coder::GlobalWindow => Just(vec![Window::Global]).boxed(),
        other => vec(window_of(other), 0..4).boxed(),
    };
    (any::<i64>(), windows, pane()).prop_map(|(millis, windows, pane)| ElementHeader {
        timestamp: Timestamp::from_millis(millis),
        windows,
        pane,
    })
}

fn pane() -> impl Strategy<Value = PaneInfo> {
    let fired = prop_oneof![Just(PaneTiming::OnTime), Just(PaneTiming::Late)];
    let fired = (fired, 0..i64::MAX, 0..i64::MAX);
    let early = (0..i64::MAX).prop_map(|index| (PaneTiming::Early, index, -1));
    let unknown = Just((PaneTiming::Unknown, 0, 0));
    (
        any::<bool>(),
        any::<bool>(),
        prop_oneof![unknown, early, fired],
    )
        .prop_map(
            |(is_first, is_last, (timing, index, non_speculative_index))| PaneInfo {
                timing,
                is_first,
                is_last,
                index,
                non_speculative_index,
            },
        )
}

fn encoded(coder: &Coder, context: Context, value: &Value) -> Vec<u8> {
    let mut out = vec![];
    encode(coder, context, value, &mut out).expect("the value fits its coder");
    out
}

proptest! {
    #[test]
    fn values_round_trip(
        (coder, value) in coder().prop_flat_map(|coder| {
            let value = value_of(&coder);
            (Just(coder), value)
        }),
        rest in vec(any::<u8>(), 0..20),
    ) {
        let outer = encoded(&coder, Context::Outer, &value);
        prop_assert_eq!(decode_all(&coder, Context::Outer, &outer), Ok(value.clone()));
        let mut bytes = encoded(&coder, Context::Nested, &value);
        let len = bytes.len();
        bytes.extend(&rest);
        prop_assert_eq!(encoded_len(&coder, &bytes), Ok(len));
        let mut input = &bytes[..];
        prop_assert_eq!(decode(&coder, Context::Nested, &mut input), Ok(value));
        prop_assert_eq!(input, &rest[..]);
    }

    #[test]
    fn cut_or_changed_bytes_never_panic(
        (coder, value) in coder().prop_flat_map(|coder| {
            let value = value_of(&coder);
            (Just(coder), value)
        }),
        at: prop::sample::Index,
        change: u8,
    ) {
        let mut bytes = encoded(&coder, Context::Nested, &value);
        bytes.push(0);
        let at = at.index(bytes.len());
        bytes[at] = change;
        agree(&coder, &bytes)?;
        agree(&coder, &bytes[..at])?;
    }

    #[test]
    fn random_bytes_never_panic(coder in coder(), bytes in vec(any::<u8>(), 0..60)) {
        agree(&coder, &bytes)?;
    }

    #[test]
    fn values_of_other_coders_never_panic(
        coder in coder(),
        value in coder().prop_flat_map(|coder| value_of(&coder)),
    ) {
        let mut out = vec![];
        if encode(&coder, Context::Nested, &value, &mut out).is_ok() {
            prop_assert_eq!(encoded_len(&coder, &out), Ok(out.len()));
        }
    }
}

/// What decodes has the length that is found without decoding.
fn agree(coder: &Coder, bytes: &[u8]) -> Result<(), TestCaseError> {
    let len = encoded_len(coder, bytes);
    let mut rest = bytes;
    if decode(coder, Context::Nested, &mut rest).is_ok() {
        prop_assert_eq!(len, Ok(bytes.len() - rest.len()));
    }
    Ok(())
}

#[test]
fn endless_lists_of_nothing_are_refused() {
    let coder = Coder::Iterable(boxed(Coder::GlobalWindow));
    let bytes = [0x7f, 0xff, 0xff, 0xff];
    assert_eq!(encoded_len(&coder, &bytes), Ok(4));
    assert!(decode_all(&coder, Context::Nested, &bytes).is_err());
}

#[test]
fn bottomless_coders_are_refused() {
    let mut coder = Coder::Bool;
    for _ in 0..1000 {
        coder = Coder::Nullable(boxed(coder));
    }
    let bytes = [1; 2000];
    assert_eq!(
        encoded_len(&coder, &bytes),
        Err(crate::coder::Error::TooDeep)
    );
    assert!(decode_all(&coder, Context::Nested, &bytes).is_err());
}

#[test]
fn rows_of_an_older_writer_have_nulls_at_their_end() {
    let int = |name: &str| Field {
        name: name.into(),
        field_type: FieldType {
            nullable: true,
            kind: FieldKind::Int64,
        },
    };
    let coder = Coder::Row(Schema::in_order(vec![int("a"), int("b")]));
    let row = decode_all(&coder, Context::Nested, &[1, 0, 7]);
    assert_eq!(row, Ok(Value::Row(vec![Value::Int(7), Value::Null])));
    assert_eq!(encoded_len(&coder, &[1, 0, 7]), Ok(3));
    assert!(encoded_len(&coder, &[3, 0, 7, 7, 7]).is_err());
}
