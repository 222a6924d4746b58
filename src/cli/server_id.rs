//! The name by which a server finds again what it left behind outside, such as subscriptions.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::Path;

use crate::telemetry::entropy;

/// A server's name.
#[derive(Debug)]
pub struct ServerId {
    pub name: String,
    /// Whether the name is this process's alone, for as long as this value lives.
    pub is_sole: bool,
    /// Locked as long as it is open.
    _file: Option<File>,
}

impl ServerId {
    /// The name kept in `data_dir`, made at the first start. A second server on the same folder, or one
    /// that cannot write there, gets a name for this once.
    pub fn claim(data_dir: &Path) -> Self {
        match kept(&data_dir.join(FILE)) {
            Ok((name, file)) => Self {
                name,
                is_sole: true,
                _file: Some(file),
            },
            Err(error) => {
                tracing::info!(%error, "this server has no lasting name: what it leaves behind is not swept");
                Self {
                    name: entropy::hex(BYTES),
                    is_sole: false,
                    _file: None,
                }
            }
        }
    }
}

fn kept(path: &Path) -> io::Result<(String, File)> {
    let mut file = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?;
    file.try_lock()?;
    let mut name = String::new();
    file.read_to_string(&mut name)?;
    let name = name.trim();
    if name.len() == 2 * BYTES && name.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok((name.to_owned(), file));
    }
    let name = entropy::hex(BYTES);
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{name}")?;
    file.sync_all()?;
    Ok((name, file))
}

const FILE: &str = "server-id";
const BYTES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lasts_and_is_given_once_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let first = ServerId::claim(folder.path());
        let beside = ServerId::claim(folder.path());
        assert!(first.is_sole && !beside.is_sole);
        assert_ne!(first.name, beside.name);
        let name = first.name.clone();
        drop(first);
        let again = ServerId::claim(folder.path());
        assert_eq!((again.name, again.is_sole), (name, true));
        let nowhere = ServerId::claim(&folder.path().join("missing"));
        assert!(!nowhere.is_sole);
    }
}
