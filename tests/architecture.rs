//! What the code's layout promises: layers, purity, sizes, names, and a reason for each dependency.
//!
//! Cargo keeps crates from importing in circles. Tidemill is one crate, so this test does it for
//! modules.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Each module of the crate and what it may import besides itself. `*` is everything.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("proto", &[]),
    ("telemetry", &[]),
    ("coder", &["model"]),
    ("plan", &["model", "coder", "proto"]),
    // docs/decisions/0001: the engine sees coders.
    ("engine", &["model", "coder"]),
    ("store", &["model", "engine"]),
    ("commit_log", &["model", "engine"]),
    ("fnapi", &["model", "coder", "proto", "telemetry"]),
    ("environment", &["model", "proto", "telemetry"]),
    ("artifact", &["model", "proto", "telemetry"]),
    ("source", &["model", "proto", "telemetry"]),
    // It shares nothing with `source`, so that a wrong idea of ours does not pass on both sides.
    ("pubsub_emulator", &["proto", "telemetry"]),
    ("job", BELOW_JOB),
    // docs/decisions/0003: the Job API sees artifacts.
    (
        "job_api",
        &["job", "artifact", "model", "proto", "telemetry"],
    ),
    ("web", &["job", "model", "telemetry"]),
    ("config", BELOW_CONFIG),
    ("simulation", BELOW_CONFIG),
    ("demo", &["*"]),
    ("cli", &["*"]),
    ("lib.rs", &[]),
    ("main.rs", &["*"]),
];

const BELOW_JOB: &[&str] = &[
    "model",
    "proto",
    "telemetry",
    "coder",
    "plan",
    "engine",
    "store",
    "commit_log",
    "fnapi",
    "environment",
    "artifact",
    "source",
];

const BELOW_CONFIG: &[&str] = &[
    "model",
    "proto",
    "telemetry",
    "coder",
    "plan",
    "engine",
    "store",
    "commit_log",
    "fnapi",
    "environment",
    "artifact",
    "source",
    "pubsub_emulator",
    "job",
    "job_api",
    "web",
];

/// Plain functions of their arguments: nothing here reads a clock, waits, or depends on chance.
const PURE: &[&str] = &[
    "src/model/",
    "src/coder/",
    "src/plan/",
    "src/engine/",
    "src/store/key_layout",
    "src/store/overlay",
    "src/commit_log/record",
    "src/commit_log/sequencer",
    "src/source/pubsub/ack",
    "src/store/memory/dedup",
    "src/source/pubsub/watermark",
];

const IMPURE: &[&str] = &[
    "std::time",
    "std::thread",
    "std::fs",
    "std::net",
    "std::env",
    "std::collections::HashMap",
    "std::collections::HashSet",
    "tokio",
    "tonic",
    "crossbeam",
    "rand::",
    "async fn",
];

/// Production lines of a file.
const FILE_LINES_MAX: usize = 800;

/// Coordinators grow unless they are stopped: they only dispatch.
const COORDINATORS: &[(&str, usize)] = &[("src/engine/mod.rs", 300), ("src/job/driver.rs", 300)];

/// Characters of a comment's line; rustfmt sees to the code. 100 is the aim: this number may only
/// shrink.
const COMMENT_WIDTH_MAX: usize = 130;

/// File names that say nothing of what is inside.
const EMPTY_NAMES: &[&str] = &[
    "util", "utils", "common", "helper", "helpers", "misc", "manager",
];

#[test]
fn modules_import_only_what_lies_below() {
    let may_import: BTreeMap<_, _> = MAY_IMPORT.iter().copied().collect();
    let mut wrong = vec![];
    for file in sources("src") {
        let Some(allowed) = may_import.get(file.module()) else {
            wrong.push(format!("{}: its module has no layer", file.path));
            continue;
        };
        for (number, line) in file.production_code() {
            for import in crate_paths(&line) {
                let fits =
                    import == file.module() || allowed.contains(&import) || *allowed == ["*"];
                if !fits {
                    wrong.push(format!("{}:{number}: imports {import}", file.path));
                }
            }
        }
    }
    assert_none(&wrong, "imports against the layers");
}

#[test]
fn pure_modules_are_pure() {
    let mut wrong = vec![];
    for file in sources("src") {
        if PURE.iter().any(|pure| file.path.starts_with(pure)) {
            for (number, line) in file.production_code() {
                for impure in IMPURE.iter().filter(|impure| line.contains(*impure)) {
                    wrong.push(format!("{}:{number}: {impure}", file.path));
                }
            }
        }
    }
    assert_none(&wrong, "impure things in pure modules");
}

#[test]
fn files_stay_small() {
    let mut wrong = vec![];
    let mut all = sources("src");
    all.extend(sources("tests"));
    all.extend(sources("benches"));
    for file in all {
        let lines = file.production_lines();
        let coordinator = COORDINATORS.iter().find(|(path, _)| *path == file.path);
        let max = coordinator.map_or(FILE_LINES_MAX, |(_, max)| *max);
        if lines > max {
            wrong.push(format!("{}: {lines} lines, {max} are allowed", file.path));
        }
        for (number, line) in file.numbered() {
            let width = line.chars().count();
            if line.trim_start().starts_with("//") && width > COMMENT_WIDTH_MAX {
                wrong.push(format!(
                    "{}:{number}: comment of {width} characters",
                    file.path
                ));
            }
        }
    }
    assert_none(&wrong, "giants");
}

#[test]
fn files_say_what_they_own() {
    let mut wrong = vec![];
    for folder in ["src", "tests", "benches", "beam-protos/src"] {
        for file in sources(folder) {
            if !file.text.starts_with("//! ") {
                wrong.push(format!("{}: does not open with //!", file.path));
            }
            let names = file.path.trim_end_matches(".rs").split('/');
            if names.into_iter().any(|name| EMPTY_NAMES.contains(&name)) {
                wrong.push(format!("{}: the name says nothing", file.path));
            }
        }
    }
    assert_none(&wrong, "files that do not say what they own");
}

#[test]
fn protos_say_what_messages_are_for() {
    let mut wrong = vec![];
    for path in files_below("beam-protos/proto", &["proto"]) {
        let text = read(&path);
        let mut before = "";
        for line in text.lines() {
            let item = line.trim_start();
            let is_item = item.starts_with("message ") || item.starts_with("service ");
            if is_item && !before.trim_start().starts_with("// ") {
                wrong.push(format!("{path}: {item}"));
            }
            before = line;
        }
    }
    assert_none(&wrong, "messages and services without a comment");
}

#[test]
fn dependencies_have_a_reason() {
    let record = read("docs/decisions/0002-dependencies.md");
    let mut wrong = vec![];
    for manifest in ["Cargo.toml", "beam-protos/Cargo.toml", "fuzz/Cargo.toml"] {
        for name in dependencies(&read(manifest)) {
            if !["beam-protos", "tidemill"].contains(&name)
                && !record.contains(&format!("`{name}`"))
            {
                wrong.push(format!("{manifest}: {name}"));
            }
        }
    }
    assert_none(&wrong, "dependencies without a row in docs/decisions/0002");
}

/// How this was made is no part of it.
#[test]
fn nothing_points_to_the_workplace() {
    let words = [
        concat!("/", "work/"),
        concat!("/", "root/"),
        concat!("HELPERS", ".md"),
        concat!("beam-", "facts"),
        concat!("pubsub-", "facts"),
        concat!("storage-", "facts"),
        concat!("known-", "failures"),
        concat!("test-", "servers.md"),
        concat!("issues ", "show"),
    ];
    let mut wrong = vec![];
    let kinds = [
        "rs", "proto", "py", "go", "java", "xml", "toml", "md", "yml", "yaml", "sh", "ini",
    ];
    for folder in [
        "src",
        "tests",
        "benches",
        "beam-protos",
        "integration",
        "docs",
        "fuzz/fuzz_targets",
        ".ci",
    ] {
        for path in files_below(folder, &kinds) {
            let text = read(&path);
            let found = words.iter().filter(|word| text.contains(*word));
            wrong.extend(found.map(|word| format!("{path}: {word}")));
        }
    }
    assert_none(&wrong, "words of the workplace");
}

/// A Rust file of ours.
struct Source {
    /// From the repository's root, with slashes.
    path: String,
    text: String,
    /// Compiled for tests only.
    is_test: bool,
}

impl Source {
    /// The crate's module that the file is in; for `lib.rs` and `main.rs` the file.
    fn module(&self) -> &str {
        self.path.split('/').nth(1).unwrap_or_default()
    }

    fn numbered(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text
            .lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line))
    }

    /// Lines before the tests at the end of the file.
    fn production_lines(&self) -> usize {
        if self.is_test {
            return 0;
        }
        let mut lines = self.numbered().map(|(number, line)| (number, line.trim()));
        let mut gate = 0;
        let tests = lines.find(|(number, line)| {
            if line.starts_with("#[cfg(test)]") {
                gate = *number;
            }
            gate + 1 == *number && gate > 0 && line.starts_with("mod ") && line.ends_with('{')
        });
        tests.map_or(self.text.lines().count(), |(number, _)| number - 2)
    }

    /// Lines of production code without their comments.
    fn production_code(&self) -> impl Iterator<Item = (usize, String)> {
        let production = self.production_lines();
        self.numbered().take(production).map(|(number, line)| {
            let code = line.split("//").next().unwrap_or_default();
            (number, code.to_owned())
        })
    }
}

/// The crate's modules that a line of code names after `crate::`.
fn crate_paths(line: &str) -> Vec<&str> {
    let paths = line.match_indices("crate::").filter(|(at, _)| {
        let before = line[..*at].chars().next_back();
        !before.is_some_and(|before| before.is_alphanumeric() || before == '_' || before == '$')
    });
    paths
        .map(|(at, found)| {
            let rest = &line[at + found.len()..];
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
            match end {
                Some(0) => "a group of modules",
                Some(end) => &rest[..end],
                None => rest,
            }
        })
        .collect()
}

/// The Rust files below a folder of the repository.
fn sources(folder: &str) -> Vec<Source> {
    let paths = files_below(folder, &["rs"]);
    let texts: Vec<_> = paths.into_iter().map(|path| (read(&path), path)).collect();
    let mut test_only = BTreeSet::new();
    for (text, path) in &texts {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for name in test_modules(text) {
            test_only.insert(format!("{folder}/{name}.rs"));
            test_only.insert(format!("{folder}/{name}/"));
        }
    }
    let is_test = |path: &str| {
        test_only.contains(path)
            || path
                .match_indices('/')
                .any(|(at, _)| test_only.contains(&path[..=at]))
    };
    texts
        .into_iter()
        .map(|(text, path)| Source {
            is_test: is_test(&path),
            path,
            text,
        })
        .collect()
}

/// Names of the modules in other files that a file declares for tests only.
fn test_modules(text: &str) -> impl Iterator<Item = &str> {
    text.split("#[cfg(test)]").skip(1).filter_map(|rest| {
        let line = rest.trim_start().lines().next()?;
        line.rsplit_once("mod ")?.1.strip_suffix(';')
    })
}

/// The crates that a manifest names in its dependency tables.
fn dependencies(manifest: &str) -> Vec<&str> {
    let mut names = vec![];
    let mut inside = false;
    for line in manifest.lines() {
        if let Some(table) = line.strip_prefix('[') {
            inside = table.contains("dependencies]");
        } else if inside && let Some((name, _)) = line.split_once([' ', '=', '.']) {
            names.push(name.trim_start_matches('#'));
        }
    }
    names
}

/// Paths of files below a folder, from the root and with slashes; none where there is no such
/// folder.
fn files_below(folder: &str, kinds: &[&str]) -> Vec<String> {
    let mut found = vec![];
    let mut folders = vec![PathBuf::from(folder)];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(root().join(&folder)) else {
            continue;
        };
        for entry in entries {
            let entry = entry.expect("an entry of a folder");
            let path = folder.join(entry.file_name());
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.path().is_dir() {
                if !matches!(
                    name.as_str(),
                    "target" | "__pycache__" | "node_modules" | ".venv"
                ) {
                    folders.push(path);
                }
            } else if path
                .extension()
                .is_some_and(|kind| kinds.contains(&&*kind.to_string_lossy()))
            {
                found.push(path.to_string_lossy().replace('\\', "/"));
            }
        }
    }
    found.sort();
    found
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn assert_none(wrong: &[String], what: &str) {
    assert!(wrong.is_empty(), "{what}:\n  {}", wrong.join("\n  "));
}

#[test]
fn imports_are_found() {
    assert_eq!(crate_paths("use crate::model::Coder;"), ["model"]);
    assert_eq!(
        crate_paths("use crate::{model, coder};"),
        ["a group of modules"]
    );
    assert_eq!(
        crate_paths("pub(crate) fn f() -> crate::engine::X"),
        ["engine"]
    );
    assert_eq!(crate_paths("use some_crate::model;"), [""; 0]);
}

#[test]
fn tests_are_not_production() {
    let source = |text: &str| Source {
        path: "src/x.rs".into(),
        text: text.into(),
        is_test: false,
    };
    let text = "//! X\nmod a;\n#[cfg(test)]\nmod tests;\nfn f() {}\n";
    assert_eq!(source(text).production_lines(), 5);
    assert_eq!(test_modules(text).collect::<Vec<_>>(), ["tests"]);
    let text = "//! X\nfn f() {}\n\n#[cfg(test)]\nmod tests {\n}\n";
    assert_eq!(source(text).production_lines(), 3);
}
