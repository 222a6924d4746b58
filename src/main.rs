//! The `tidemill` command.

use std::process::ExitCode;

use tidemill::telemetry::heap::CountingAllocator;

/// Payload goes to disk once the heap is as large as the memory budget says.
#[global_allocator]
static HEAP: CountingAllocator = CountingAllocator;

fn main() -> ExitCode {
    tidemill::cli::run()
}
