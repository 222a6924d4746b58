//! Finds an installed apache-beam package, which the tests of the wire format compare with.

use std::env;
use std::path::PathBuf;
use std::process::Command;

/// The Python to ask: `TIDEMILL_PYTHON`, or `python3`.
pub fn python() -> String {
    env::var("TIDEMILL_PYTHON").unwrap_or_else(|_| "python3".into())
}

/// The package's folder: `TIDEMILL_BEAM_PACKAGE`, or where Python finds it. Says so where there is
/// none.
pub fn folder() -> Option<PathBuf> {
    if let Ok(folder) = env::var("TIDEMILL_BEAM_PACKAGE") {
        return Some(folder.into());
    }
    let ask = "import importlib.util as u; s = u.find_spec('apache_beam'); \
               print(s.submodule_search_locations[0] if s else '')";
    let answer = Command::new(python()).args(["-c", ask]).output();
    let folder = answer.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    match folder {
        Ok(folder) if !folder.is_empty() => Some(folder.into()),
        _ => {
            println!(
                "skipped: {} has no apache-beam; set TIDEMILL_PYTHON or TIDEMILL_BEAM_PACKAGE",
                python()
            );
            None
        }
    }
}
