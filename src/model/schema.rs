//! Schemas of rows, as far as their encoding goes.

/// The fields of a row, in the order in which people declared them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Schema {
    pub fields: Vec<Field>,
    /// Indexes of the fields in the order of their encoding, each once.
    pub encoding_order: Vec<usize>,
}

impl Schema {
    /// A schema whose fields are encoded in the order given.
    pub fn in_order(fields: Vec<Field>) -> Self {
        let encoding_order = (0..fields.len()).collect();
        Self {
            fields,
            encoding_order,
        }
    }
}

/// One field of a row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Field {
    pub name: String,
    pub field_type: FieldType,
}

/// What a field, an element of an array or an entry of a map may be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldType {
    pub nullable: bool,
    pub kind: FieldKind,
}

/// A field's type when there is a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FieldKind {
    /// One byte.
    Byte,
    /// Two bytes, big endian.
    Int16,
    /// A varint.
    Int32,
    /// A varint.
    Int64,
    /// Four bytes, big endian.
    Float,
    /// Eight bytes, big endian.
    Double,
    String,
    Boolean,
    Bytes,
    Array(Box<FieldType>),
    Iterable(Box<FieldType>),
    Map(Box<FieldType>, Box<FieldType>),
    Row(Schema),
    /// A type by URN, encoded as its representation but for the few that have a coder of their own.
    Logical {
        urn: String,
        representation: Box<FieldType>,
    },
}
