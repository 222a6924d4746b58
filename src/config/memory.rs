//! How much memory the server may take: sizes for people, and what the machine allows.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::Deserialize;

/// The size of the heap above which payload goes to disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum MemoryBudget {
    /// So many bytes.
    Bytes(u64),
    /// So many hundredths of the memory that the process may take.
    Percent(u64),
}

impl MemoryBudget {
    /// In bytes, on this machine and in this container.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => allowed_bytes() / 100 * percent,
        }
    }
}

impl Default for MemoryBudget {
    /// Half: the rest is for fragmentation, for what the kernel caches of the data on disk, and for harnesses.
    fn default() -> Self {
        Self::Percent(50)
    }
}

impl FromStr for MemoryBudget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let unit_at = text
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(unit_at);
        let shift = match unit.trim() {
            "%" => None,
            "B" => Some(0),
            "KiB" => Some(10),
            "MiB" => Some(20),
            "GiB" => Some(30),
            "TiB" => Some(40),
            _ => return Err(EXPECTED.to_owned()),
        };
        let number: u64 = number.parse().map_err(|_| EXPECTED.to_owned())?;
        match shift {
            None if number <= 100 => Ok(Self::Percent(number)),
            None => Err("a share is at most 100%".to_owned()),
            Some(shift) => number
                .checked_mul(1 << shift)
                .map(Self::Bytes)
                .ok_or_else(|| EXPECTED.to_owned()),
        }
    }
}

impl TryFrom<String> for MemoryBudget {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl fmt::Display for MemoryBudget {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(formatter, "{bytes}B"),
            Self::Percent(percent) => write!(formatter, "{percent}%"),
        }
    }
}

/// What a size must look like.
const EXPECTED: &str =
    "must be a size such as 512MiB or 8GiB, or a share of the memory such as 50%";

/// The memory of the machine, or less where a control group or a container is given less.
fn allowed_bytes() -> u64 {
    let machine = fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| machine_bytes(&text));
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = limit_files(&groups).into_iter().filter_map(|path| {
        let text = fs::read_to_string(path).ok()?;
        text.trim().parse().ok() // "max" is none
    });
    limits.chain(machine).min().unwrap_or(u64::MAX)
}

fn machine_bytes(meminfo: &str) -> Option<u64> {
    let total = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = total.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// Where limits of these control groups are: of both kernel interfaces, and of all groups around.
fn limit_files(groups: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let (root, file) = if controllers.is_empty() {
            ("/sys/fs/cgroup", "memory.max")
        } else if controllers.split(',').any(|name| name == "memory") {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        } else {
            continue;
        };
        // In a container the path may be the host's, and its own group is the root then.
        for group in Path::new(path.trim_start_matches('/')).ancestors() {
            files.push(Path::new(root).join(group).join(file));
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        for (text, expected) in [
            ("512MiB", Some(MemoryBudget::Bytes(512 << 20))),
            ("8 GiB", Some(MemoryBudget::Bytes(8 << 30))),
            ("0B", Some(MemoryBudget::Bytes(0))),
            ("35%", Some(MemoryBudget::Percent(35))),
            ("101%", None),
            ("512", None),
            ("1.5GiB", None),
            ("GiB", None),
            ("99999999999TiB", None),
            ("", None),
        ] {
            assert_eq!(text.parse().ok(), expected, "{text:?}");
        }
    }

    #[test]
    fn a_share_is_of_what_there_is() {
        let all = MemoryBudget::Percent(100).bytes();
        assert!(all > 1 << 26, "{all}");
        assert!(MemoryBudget::default().bytes() < all);
    }

    #[test]
    fn limits_of_all_groups_around_count() {
        let groups = "9:name=systemd:/\n4:memory:/jobs/one\n0::/user.slice\n";
        let files: Vec<String> = limit_files(groups)
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        assert_eq!(
            files,
            [
                "/sys/fs/cgroup/memory/jobs/one/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/jobs/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes",
                "/sys/fs/cgroup/user.slice/memory.max",
                "/sys/fs/cgroup/memory.max",
            ]
        );
        assert_eq!(
            machine_bytes("MemTotal:       16 kB\nMemFree: 1 kB\n"),
            Some(16 << 10)
        );
    }
}
