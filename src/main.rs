//! The `tidemill` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    tidemill::cli::run()
}
