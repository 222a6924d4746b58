//! The options of ours, as clients are told about them.

/// The type of a pipeline option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionKind {
    /// Text.
    Text,
    /// A flag that is false unless given.
    Flag,
    /// A whole number.
    Integer,
}

/// An option of ours, as clients are told about it.
#[derive(Clone, Copy, Debug)]
pub struct OptionSpec {
    /// The name without dashes.
    pub name: &'static str,
    /// Its type.
    pub kind: OptionKind,
    /// One sentence for `--help`.
    pub description: &'static str,
    /// What is used where it is not given, as text; empty where it depends.
    pub default: &'static str,
}

/// Every option of ours. [`Settings`](super::Settings) reads them.
pub const OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        name: "num_pubsub_keys",
        kind: OptionKind::Integer,
        description: "Into how many keys the messages of a Pub/Sub read are shuffled; rounded up \
                      to a power of two and fixed for the life of the job.",
        default: "",
    },
    OptionSpec {
        name: "streaming_mode_at_least_once",
        kind: OptionKind::Flag,
        description: "Let redelivered and repeated Pub/Sub messages through instead of removing \
                      duplicates.",
        default: "false",
    },
    OptionSpec {
        name: "max_bundle_retries",
        kind: OptionKind::Integer,
        description: "How often a bundle that failed is tried again before the job fails. Default: \
                      3 in batch jobs, without end in streaming ones.",
        default: "",
    },
    OptionSpec {
        name: "durability",
        kind: OptionKind::Text,
        description: "'full': a job survives a crash of the runner; 'none': it starts again from \
                      its input. Default: full for streaming jobs, none for batch ones.",
        default: "",
    },
    OptionSpec {
        name: "sdk_worker_parallelism",
        kind: OptionKind::Integer,
        description: "How many SDK harnesses are started for each environment; 0 lets the runner \
                      choose.",
        default: "1",
    },
];
