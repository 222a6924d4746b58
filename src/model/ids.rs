//! Small ids: indexes into the plan, and names of things that run.

use std::fmt;

macro_rules! index {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// As an index into the plan's list.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

index!(
    /// A PCollection of the plan.
    PCollectionId, "p"
);
index!(
    /// A stage of the plan.
    StageId, "s"
);
index!(
    /// An SDK environment of the plan.
    EnvironmentId, "env"
);
index!(
    /// One running SDK harness process of a job.
    WorkerId, "w"
);
index!(
    /// One engine thread of a job.
    LaneId, "lane"
);

/// One of [`Shard::COUNT`] hash slots of a job's keys, fixed for the life of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard(pub u16);

impl Shard {
    /// The number of shards of a job.
    pub const COUNT: u16 = 256;
    /// The shard of what belongs to the whole job rather than to a key.
    pub const GLOBAL: Self = Self(0x0100);

    /// The shard of a key with this hash.
    pub const fn of_hash(hash: u64) -> Self {
        Self((hash >> 56) as u16)
    }
}

/// One attempt at running a bundle; unique within the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BundleId(pub u64);

impl fmt::Display for BundleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b{}", self.0)
    }
}
