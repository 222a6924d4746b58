//! Input from outside that once broke something, and samples of what fuzzing starts from.
//!
//! Each module is one target: the crate in `fuzz/` runs it on inputs that it makes up, this test on the
//! files in `fuzz/seeds/<target>/`. An input that was found broken is added there.

mod fn_api;
mod lane;
mod merge_windows;
mod names;
mod plan;
mod pubsub_emulator;
mod pubsub_source;
mod timers;
mod values;
mod windowed_values;

use std::path::PathBuf;

fn replay(target: &str, run: fn(&[u8])) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/seeds")
        .join(target);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .expect("the folder of seeds")
        .map(|entry| entry.expect("a seed").path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no seeds in {}", folder.display());
    for file in files {
        println!("{}", file.display());
        run(&std::fs::read(&file).expect("a seed"));
    }
}

macro_rules! replay {
    ($($target:ident)*) => {
        $(
            #[test]
            fn $target() {
                replay(stringify!($target), $target::run);
            }
        )*
    };
}

replay!(fn_api lane merge_windows names plan pubsub_emulator pubsub_source timers values windowed_values);
