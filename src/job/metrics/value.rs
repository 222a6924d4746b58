//! The value of a metric by its type: read from a payload, merged, written again.
//!
//! What cannot be read, or does not fit what was there, replaces it: the newest wins.

use std::collections::BTreeSet;

use bytes::Bytes;
use prost::Message;

use crate::coder::varint;
use crate::job::metrics::histogram;
use crate::job::metrics::numbers::{self, Distribution, Number};
use crate::job::metrics::trie::Trie;
use crate::proto::pipeline::{BoundedTrie, HistogramValue};
use crate::proto::urn::monitoring_info_type_urns as types;

/// A metric's value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    SumInt(i64),
    SumDouble(f64),
    DistributionInt(Distribution<i64>),
    DistributionDouble(Distribution<f64>),
    /// The whole payload beside the time in it.
    Latest {
        time: i64,
        payload: Bytes,
    },
    /// Extreme values, the most extreme first; as many are kept as the larger report had.
    TopInt(Vec<i64>),
    TopDouble(Vec<f64>),
    BottomInt(Vec<i64>),
    BottomDouble(Vec<f64>),
    /// Amounts of work, position by position.
    Progress(Vec<f64>),
    Strings(BTreeSet<String>),
    Trie(Trie),
    Histogram(HistogramValue),
    /// Of a type that we do not know, or unreadable.
    Opaque(Bytes),
}

/// Most bytes of text in a set of strings; SDKs have the same bound.
const STRINGS_BYTES_MAX: usize = 1_000_000;

impl Value {
    /// Reads a payload of the type with this URN.
    pub(super) fn read(kind: &str, payload: &Bytes) -> Self {
        Self::try_read(kind, payload).unwrap_or_else(|| Self::Opaque(payload.clone()))
    }

    fn try_read(kind: &str, payload: &Bytes) -> Option<Self> {
        let mut bytes: &[u8] = payload;
        let bytes = &mut bytes;
        Some(match kind {
            types::SUM_INT64_TYPE => Self::SumInt(i64::read(bytes)?),
            types::SUM_DOUBLE_TYPE => Self::SumDouble(f64::read(bytes)?),
            types::DISTRIBUTION_INT64_TYPE => Self::DistributionInt(Distribution::read(bytes)?),
            types::DISTRIBUTION_DOUBLE_TYPE => Self::DistributionDouble(Distribution::read(bytes)?),
            types::LATEST_INT64_TYPE | types::LATEST_DOUBLE_TYPE => Self::Latest {
                time: i64::read(bytes)?,
                payload: payload.clone(),
            },
            types::TOP_N_INT64_TYPE => Self::TopInt(numbers::read_all(bytes, i64::read)?),
            types::TOP_N_DOUBLE_TYPE => Self::TopDouble(numbers::read_all(bytes, f64::read)?),
            types::BOTTOM_N_INT64_TYPE => Self::BottomInt(numbers::read_all(bytes, i64::read)?),
            types::BOTTOM_N_DOUBLE_TYPE => Self::BottomDouble(numbers::read_all(bytes, f64::read)?),
            types::PROGRESS_TYPE => Self::Progress(numbers::read_all(bytes, f64::read)?),
            types::SET_STRING_TYPE => {
                Self::Strings(numbers::read_all(bytes, read_text)?.into_iter().collect())
            }
            types::BOUNDED_TRIE_TYPE => {
                Self::Trie(Trie::from(BoundedTrie::decode(payload.clone()).ok()?))
            }
            types::HISTOGRAM => Self::Histogram(HistogramValue::decode(payload.clone()).ok()?),
            _ => return None,
        })
    }

    /// Merges a later report in.
    pub(super) fn merge(&mut self, other: Self) {
        match (self, other) {
            (Self::SumInt(sum), Self::SumInt(more)) => *sum = sum.plus(more),
            (Self::SumDouble(sum), Self::SumDouble(more)) => *sum = sum.plus(more),
            (Self::DistributionInt(all), Self::DistributionInt(more)) => all.merge(&more),
            (Self::DistributionDouble(all), Self::DistributionDouble(more)) => all.merge(&more),
            (this @ Self::Latest { .. }, new @ Self::Latest { .. }) => {
                if new.latest_time() >= this.latest_time() {
                    *this = new;
                }
            }
            (Self::TopInt(all), Self::TopInt(more)) => {
                numbers::keep_first(all, more, |a, b| b.cmp(a));
            }
            (Self::TopDouble(all), Self::TopDouble(more)) => {
                numbers::keep_first(all, more, |a, b| b.total_cmp(a));
            }
            (Self::BottomInt(all), Self::BottomInt(more)) => {
                numbers::keep_first(all, more, i64::cmp);
            }
            (Self::BottomDouble(all), Self::BottomDouble(more)) => {
                numbers::keep_first(all, more, f64::total_cmp);
            }
            (Self::Progress(all), Self::Progress(more)) => numbers::add_each(all, &more),
            (Self::Strings(all), Self::Strings(more)) => add_strings(all, more),
            (Self::Trie(all), Self::Trie(more)) => all.merge(more),
            (Self::Histogram(all), Self::Histogram(more)) => histogram::merge(all, more),
            (this, new) => *this = new,
        }
    }

    fn latest_time(&self) -> Option<i64> {
        match self {
            Self::Latest { time, .. } => Some(*time),
            _ => None,
        }
    }

    /// As a payload.
    pub(super) fn write(&self) -> Bytes {
        let mut out = Vec::new();
        match self {
            Self::SumInt(sum) => sum.write(&mut out),
            Self::SumDouble(sum) => sum.write(&mut out),
            Self::DistributionInt(all) => all.write(&mut out),
            Self::DistributionDouble(all) => all.write(&mut out),
            Self::TopInt(all) | Self::BottomInt(all) => {
                numbers::write_all(all, |value, out| value.write(out), &mut out);
            }
            Self::TopDouble(all) | Self::BottomDouble(all) | Self::Progress(all) => {
                numbers::write_all(all, |value, out| value.write(out), &mut out);
            }
            Self::Strings(all) => {
                numbers::write_all(all, |text, out| write_text(text, out), &mut out)
            }
            Self::Trie(all) => return BoundedTrie::from(all).encode_to_vec().into(),
            Self::Histogram(all) => return all.encode_to_vec().into(),
            Self::Latest { payload, .. } | Self::Opaque(payload) => return payload.clone(),
        }
        out.into()
    }
}

fn add_strings(all: &mut BTreeSet<String>, more: BTreeSet<String>) {
    let mut bytes: usize = all.iter().map(String::len).sum();
    for text in more {
        if bytes + text.len() > STRINGS_BYTES_MAX {
            break;
        }
        let len = text.len();
        if all.insert(text) {
            bytes += len;
        }
    }
}

fn read_text(bytes: &mut &[u8]) -> Option<String> {
    let len = usize::try_from(varint::read(bytes).ok()?).ok()?;
    let (text, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    String::from_utf8(text.to_vec()).ok()
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    varint::write(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [&str; 14] = [
        types::SUM_INT64_TYPE,
        types::SUM_DOUBLE_TYPE,
        types::DISTRIBUTION_INT64_TYPE,
        types::DISTRIBUTION_DOUBLE_TYPE,
        types::LATEST_INT64_TYPE,
        types::LATEST_DOUBLE_TYPE,
        types::TOP_N_INT64_TYPE,
        types::TOP_N_DOUBLE_TYPE,
        types::BOTTOM_N_INT64_TYPE,
        types::BOTTOM_N_DOUBLE_TYPE,
        types::PROGRESS_TYPE,
        types::SET_STRING_TYPE,
        types::BOUNDED_TRIE_TYPE,
        types::HISTOGRAM,
    ];

    fn merged(kind: &str, mut first: Value, second: Value) -> Value {
        for value in [&first, &second] {
            assert_eq!(&Value::read(kind, &value.write()), value, "{kind}");
        }
        first.merge(second);
        assert_eq!(Value::read(kind, &first.write()), first, "{kind}");
        first
    }

    #[test]
    fn sums_and_distributions_add_up() {
        let sum = merged(types::SUM_INT64_TYPE, Value::SumInt(5), Value::SumInt(-7));
        assert_eq!(sum, Value::SumInt(-2));
        let sum = merged(
            types::SUM_DOUBLE_TYPE,
            Value::SumDouble(0.5),
            Value::SumDouble(1.25),
        );
        assert_eq!(sum, Value::SumDouble(1.75));
        let distribution = |count, sum, min, max| {
            Value::DistributionInt(Distribution {
                count,
                sum,
                min,
                max,
            })
        };
        assert_eq!(
            merged(
                types::DISTRIBUTION_INT64_TYPE,
                distribution(2, 5, 1, 4),
                distribution(1, -3, -3, -3)
            ),
            distribution(3, 2, -3, 4)
        );
        assert_eq!(
            merged(
                types::DISTRIBUTION_INT64_TYPE,
                distribution(0, 0, 0, 0),
                distribution(1, 9, 9, 9)
            ),
            distribution(1, 9, 9, 9),
            "an empty one has no minimum"
        );
    }

    #[test]
    fn an_empty_distribution_may_be_a_lone_count() {
        let read = Value::read(types::DISTRIBUTION_DOUBLE_TYPE, &Bytes::from_static(&[0]));
        assert_eq!(
            read,
            Value::DistributionDouble(Distribution {
                count: 0,
                sum: 0.0,
                min: 0.0,
                max: 0.0
            })
        );
    }

    #[test]
    fn the_latest_is_the_one_with_the_latest_time() {
        let latest = |time: i64, value: i64| {
            let mut payload = Vec::new();
            time.write(&mut payload);
            value.write(&mut payload);
            Value::read(types::LATEST_INT64_TYPE, &payload.into())
        };
        for (first, second, kept) in [((1, 7), (2, 8), (2, 8)), ((2, 8), (1, 7), (2, 8))] {
            let kept = latest(kept.0, kept.1);
            let first = latest(first.0, first.1);
            let second = latest(second.0, second.1);
            assert_eq!(merged(types::LATEST_INT64_TYPE, first, second), kept);
        }
    }

    #[test]
    fn extremes_keep_as_many_as_the_larger_report() {
        assert_eq!(
            merged(
                types::TOP_N_INT64_TYPE,
                Value::TopInt(vec![9, 3]),
                Value::TopInt(vec![5, 4, 1])
            ),
            Value::TopInt(vec![9, 5, 4])
        );
        assert_eq!(
            merged(
                types::BOTTOM_N_DOUBLE_TYPE,
                Value::BottomDouble(vec![1.0]),
                Value::BottomDouble(vec![-1.0, 2.0])
            ),
            Value::BottomDouble(vec![-1.0, 1.0])
        );
    }

    #[test]
    fn progress_adds_position_by_position_and_sets_unite() {
        assert_eq!(
            merged(
                types::PROGRESS_TYPE,
                Value::Progress(vec![1.0]),
                Value::Progress(vec![2.0, 3.0])
            ),
            Value::Progress(vec![3.0, 3.0])
        );
        let set = |texts: &[&str]| Value::Strings(texts.iter().map(|t| (*t).to_owned()).collect());
        assert_eq!(
            merged(types::SET_STRING_TYPE, set(&["a", "ü"]), set(&["", "a"])),
            set(&["", "a", "ü"])
        );
    }

    #[test]
    fn garbage_is_kept_as_it_is_and_replaced_by_the_next() {
        let garbage = [
            &b""[..],
            b"\xff",
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\x7f\xff\xff\xff\x01",
            b"\xff\xff\xff\xff\x02\x01",
        ];
        for kind in ALL.into_iter().chain(["beam:metrics:unheard_of:v1"]) {
            for bytes in garbage {
                let payload = Bytes::from_static(bytes);
                let mut value = Value::read(kind, &payload);
                let _ = value.write();
                value.merge(Value::Opaque(payload.clone()));
                assert_eq!(value, Value::Opaque(payload));
                value.merge(Value::SumInt(3));
                assert_eq!(value, Value::SumInt(3));
            }
        }
    }
}
