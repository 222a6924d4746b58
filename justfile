# Lints and formatting, as a change must pass them.
check:
    cargo fmt --all --check && cargo clippy --workspace --all-targets --locked -- -D warnings

# The tests that need nothing but cargo.
test *arguments:
    cargo test --workspace --locked {{ arguments }}

# The real SDKs against the binary: all default suites, or those named.
integration *suites:
    integration/test {{ suites }}

# Every suite, the long ones too.
nightly:
    integration/test --all

# Speed beside Prism and Beam's Python runner.
bench *arguments:
    integration/bench {{ arguments }}

docs:
    cargo doc --workspace --no-deps --document-private-items

run *arguments:
    cargo run -- serve {{ arguments }}

release:
    cargo build --release --locked
