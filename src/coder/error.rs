//! What can be wrong with encoded bytes, or with asking for their boundaries.

/// Why bytes cannot be read with a coder.
///
/// Bytes come from harnesses and clients: an error here means that the other side, or the coder it
/// declared, is wrong. [`Error::Opaque`] and [`Error::NotAWindowCoder`] point at the plan instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("encoding ends too early")]
    Truncated,
    #[error("varint does not fit 64 bits")]
    VarIntOverflow,
    #[error("{what} cannot be {value}")]
    Invalid { what: &'static str, value: i64 },
    #[error("text is not UTF-8")]
    NotUtf8,
    #[error("boundaries of coder {0} are not known: it must be length-prefixed")]
    Opaque(Box<str>),
    #[error("coder is not a window coder: {0}")]
    NotAWindowCoder(Box<str>),
    #[error("coder is not a {0} coder")]
    WrongCoder(&'static str),
    #[error("value does not fit coder {0}")]
    WrongValue(Box<str>),
    #[error("coder nests deeper than {} levels", crate::coder::length::DEPTH_MAX)]
    TooDeep,
    #[error("{0} bytes are left over after the value")]
    LeftOver(usize),
}
