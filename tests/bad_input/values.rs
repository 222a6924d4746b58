//! Values of every coder: what can be decoded is as long as the data path takes it to be, and can be
//! encoded and decoded again.

use std::sync::LazyLock;

use tidemill::coder::length;
use tidemill::coder::value::{Context, decode, encode};
use tidemill::model::Coder;
use tidemill::model::schema::{Field, FieldKind, FieldType, Schema};

/// The first byte chooses the coder, the rest is the value.
pub fn run(data: &[u8]) {
    let Some((choice, bytes)) = data.split_first() else {
        return;
    };
    let coder = &CODERS[usize::from(*choice) % CODERS.len()];
    for context in [Context::Nested, Context::Outer] {
        let mut rest = bytes;
        let decoded = decode(coder, context, &mut rest);
        if context == Context::Nested
            && let Ok(length) = length::encoded_len(coder, bytes)
        {
            assert!(length <= bytes.len());
            if decoded.is_ok() {
                assert_eq!(length, bytes.len() - rest.len(), "of {coder:?}");
            }
        }
        let Ok(value) = decoded else {
            continue;
        };
        let mut again = vec![];
        encode(coder, context, &value, &mut again).expect("what was decoded can be encoded");
        let mut rest = &again[..];
        let twice = decode(coder, context, &mut rest).expect("what was encoded can be decoded");
        assert_eq!(rest, b"");
        // Not by `==`: a double may be no number.
        assert_eq!(format!("{twice:?}"), format!("{value:?}"));
    }
}

/// Each coder, alone and inside of others.
static CODERS: LazyLock<Vec<Coder>> = LazyLock::new(|| {
    let of = |coder: &Coder| Box::new(coder.clone());
    let plain = [
        Coder::Bytes,
        Coder::StringUtf8,
        Coder::Bool,
        Coder::VarInt,
        Coder::Double,
        Coder::GlobalWindow,
        Coder::IntervalWindow,
        Coder::CustomWindow(of(&Coder::Bytes)),
        Coder::Row(schema()),
        Coder::LengthPrefix(Box::new(Coder::Opaque("beam:coder:unknown:v1".to_owned()))),
    ];
    let mut coders = plain.to_vec();
    for inner in &plain {
        coders.extend([
            Coder::Kv(of(inner), of(&Coder::VarInt)),
            Coder::Iterable(of(inner)),
            Coder::StateBackedIterable(of(inner)),
            Coder::LengthPrefix(of(inner)),
            Coder::Nullable(of(inner)),
            Coder::ShardedKey(of(inner)),
            Coder::Timer(of(inner), of(&Coder::IntervalWindow)),
            Coder::WindowedValue(of(inner), of(&Coder::IntervalWindow)),
        ]);
    }
    let nested = Coder::Iterable(of(&Coder::Kv(
        of(&Coder::Nullable(of(&Coder::StringUtf8))),
        of(&Coder::Iterable(of(&Coder::Row(schema())))),
    )));
    coders.extend([Coder::Opaque("beam:coder:unknown:v1".to_owned()), nested]);
    coders
});

/// A row with a field of every kind.
fn schema() -> Schema {
    let field_type = |kind| FieldType {
        nullable: true,
        kind,
    };
    let boxed = |kind| Box::new(field_type(kind));
    let logical = |urn: &str, kind| FieldKind::Logical {
        urn: urn.to_owned(),
        representation: boxed(kind),
    };
    let inner = Schema::in_order(vec![Field {
        name: "inner".to_owned(),
        field_type: field_type(FieldKind::Int64),
    }]);
    let kinds = [
        FieldKind::Byte,
        FieldKind::Int16,
        FieldKind::Int32,
        FieldKind::Int64,
        FieldKind::Float,
        FieldKind::Double,
        FieldKind::String,
        FieldKind::Boolean,
        FieldKind::Bytes,
        FieldKind::Array(boxed(FieldKind::Int32)),
        FieldKind::Iterable(boxed(FieldKind::String)),
        FieldKind::Map(boxed(FieldKind::String), boxed(FieldKind::Bytes)),
        FieldKind::Row(inner),
        logical("beam:logical_type:millis_instant:v1", FieldKind::Int64),
        logical("beam:logical_type:decimal:v1", FieldKind::Bytes),
        logical("beam:logical_type:other:v1", FieldKind::Int32),
    ];
    let fields = kinds.into_iter().enumerate().map(|(index, kind)| Field {
        name: format!("f{index}"),
        field_type: field_type(kind),
    });
    Schema::in_order(fields.collect())
}
