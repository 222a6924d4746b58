//! The sole reader of the OS's random source: names that nobody can guess.

use std::fmt::Write;

/// A name of `bytes` random bytes, in hexadecimal.
pub fn hex(bytes: usize) -> String {
    let mut random = vec![0; bytes];
    getrandom::fill(&mut random).expect("the operating system has a random source");
    let mut name = String::with_capacity(bytes * 2);
    for byte in random {
        // Writing to a String cannot fail.
        let _ = write!(name, "{byte:02x}");
    }
    name
}
