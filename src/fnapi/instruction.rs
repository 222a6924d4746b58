//! Instruction ids: what each says, so that an answer needs no table to be understood.

use std::fmt;

use crate::model::BundleId;

/// What an instruction asks of the harness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instruction {
    /// Run the bundle; data, timers and state requests carry this id too.
    Run(BundleId),
    /// Ask something about a bundle; the number makes the id unique.
    Ask(Question, u64, BundleId),
    /// Ask what short metric ids mean.
    MetricNames(u64),
    /// Ask for the metrics of the process.
    HarnessMetrics(u64),
}

/// What can be asked about a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    Progress,
    Split,
    Finalize,
}

impl fmt::Display for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run(bundle) => write!(f, "{bundle}"),
            Self::Ask(question, number, bundle) => {
                write!(f, "{}{number}-{bundle}", question.letter())
            }
            Self::MetricNames(number) => write!(f, "n{number}"),
            Self::HarnessMetrics(number) => write!(f, "h{number}"),
        }
    }
}

impl Instruction {
    /// Reads an id that [`Self::fmt`] has written; `None` for anything else.
    pub(crate) fn parse(id: &str) -> Option<Self> {
        let (letter, rest) = id.split_at_checked(1)?;
        match letter {
            "b" => Some(Self::Run(BundleId(number(rest)?))),
            "n" => Some(Self::MetricNames(number(rest)?)),
            "h" => Some(Self::HarnessMetrics(number(rest)?)),
            _ => {
                let question = match letter {
                    "p" => Question::Progress,
                    "s" => Question::Split,
                    "f" => Question::Finalize,
                    _ => return None,
                };
                let (count, bundle) = rest.split_once("-b")?;
                Some(Self::Ask(
                    question,
                    number(count)?,
                    BundleId(number(bundle)?),
                ))
            }
        }
    }

    /// Reads the id of a bundle, as data, timers and state requests carry it.
    pub(crate) fn parse_bundle(id: &str) -> Option<BundleId> {
        number(id.strip_prefix('b')?).map(BundleId)
    }
}

impl Question {
    const fn letter(self) -> char {
        match self {
            Self::Progress => 'p',
            Self::Split => 's',
            Self::Finalize => 'f',
        }
    }
}

/// A decimal number as `Display` writes it: no sign, no leading zero.
fn number(digits: &str) -> Option<u64> {
    let canonical = digits == "0" || digits.starts_with(|c: char| ('1'..='9').contains(&c));
    if canonical { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_round_trip() {
        for instruction in [
            Instruction::Run(BundleId(0)),
            Instruction::Run(BundleId(u64::MAX)),
            Instruction::Ask(Question::Progress, 3, BundleId(17)),
            Instruction::Ask(Question::Split, 4, BundleId(18)),
            Instruction::Ask(Question::Finalize, 0, BundleId(1)),
            Instruction::MetricNames(7),
            Instruction::HarnessMetrics(8),
        ] {
            assert_eq!(
                Instruction::parse(&instruction.to_string()),
                Some(instruction)
            );
        }
    }

    #[test]
    fn foreign_ids_are_refused() {
        for id in [
            "",
            "b",
            "b-1",
            "b+1",
            "b01",
            "b1x",
            "17",
            "p1",
            "p1-b",
            "p-b1",
            "x1-b1",
            "bé",
            "é",
            "b18446744073709551616",
            "s1-b2-b3",
        ] {
            assert_eq!(Instruction::parse(id), None, "{id}");
        }
    }
}
