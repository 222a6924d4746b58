//! The overflow by itself: what it keeps, gives back, and says when it cannot.

use std::cell::Cell;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use proptest::prelude::*;

use super::*;

thread_local! {
    static HEAP: Cell<u64> = const { Cell::new(u64::MAX) };
}

/// Stands for a full disk.
const FULL: u64 = 42;

fn overflow(folder: &Path, budget_bytes: u64) -> Overflow {
    let folder = folder.to_owned();
    let settings = Settings {
        budget_bytes,
        folder,
    };
    Overflow::new(settings, || HEAP.get())
}

#[test]
fn memory_is_short_above_the_budget() {
    let folder = tempfile::tempdir().unwrap();
    let keeper = overflow(folder.path(), 1_000).keeper();
    for (heap, short) in [(0, false), (1_000, false), (1_001, true)] {
        HEAP.set(heap);
        assert_eq!(keeper.is_short(), short, "{heap}");
    }
    assert!(!Keeper::default().is_short());
}

#[test]
fn a_segment_is_gone_with_its_last_slice_and_never_seen() {
    let folder = tempfile::tempdir().unwrap();
    let mut keeper = overflow(folder.path(), 0).keeper();
    assert!(!keeper.is_used());
    let mut slices: Vec<Bytes> = (0..8)
        .map(|n| {
            let kept = keeper.keep(&Bytes::from(vec![n; 1 << 20]), Reading::Anywhere);
            kept.unwrap().slice(5..9)
        })
        .collect();
    let segment = Arc::downgrade(&keeper.open.lock()[1].as_ref().unwrap().segment);
    let blocks = segment.upgrade().unwrap().file.metadata().unwrap().blocks();
    assert_eq!((blocks * 512) >> 20, 8, "only what is written takes disk");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    *keeper.open.lock() = Default::default();
    slices.truncate(1);
    assert!(keeper.is_used());
    keeper.expect(&slices[0]);
    assert_eq!(slices[0], [0_u8; 4][..]);
    drop(slices);
    assert!(segment.upgrade().is_none());
    assert!(!keeper.is_used());
    keeper.expect(b"something else");
}

#[test]
fn payload_larger_than_a_segment_has_one_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let mut keeper = overflow(folder.path(), 0).keeper();
    let small = keeper
        .keep(&Bytes::from(vec![1; 5_000]), Reading::Anywhere)
        .unwrap();
    let large = Bytes::from(vec![2; SEGMENT_BYTES + 1]);
    assert_eq!(keeper.keep(&large, Reading::Anywhere).unwrap(), large);
    let after = keeper
        .keep(&Bytes::from(vec![3; 5_000]), Reading::Anywhere)
        .unwrap();
    assert_eq!((small[4_999], after[4_999]), (1, 3));
}

#[test]
fn what_does_not_fit_is_an_error_that_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a file");
    std::fs::write(&path, "in the way").unwrap();
    let mut keeper = overflow(&path, 0).keeper();
    let bytes = Bytes::from(vec![7; 10_000]);
    let error = keeper
        .keep(&bytes, Reading::Anywhere)
        .unwrap_err()
        .to_string();
    for words in [path.to_str().unwrap(), "--data-dir", "--memory-budget"] {
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn a_full_disk_is_an_error_and_what_was_kept_stays() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings {
        budget_bytes: 0,
        folder: folder.path().to_owned(),
    };
    let overflow = Overflow(Some(Arc::new(Shared {
        settings,
        heap_bytes: || u64::MAX,
        write: |file, bytes, offset| match HEAP.get() {
            FULL => Err(ErrorKind::StorageFull.into()),
            _ => file.write_all_at(bytes, offset),
        },
        mapped: Arc::default(),
    })));
    let mut keeper = overflow.keeper();
    assert_eq!(keeper.check(), Ok(()));
    let kept = keeper
        .keep(&Bytes::from(vec![1; 10_000]), Reading::Anywhere)
        .unwrap();
    HEAP.set(FULL);
    let more = Bytes::from(vec![2; 10_000]);
    let error = keeper.keep(&more, Reading::Anywhere).unwrap_err();
    assert!(error.to_string().contains("larger disk"), "{error}");
    assert_eq!(keeper.check(), Err(error));
    HEAP.set(0);
    assert_eq!(keeper.check(), Ok(()));
    let more = keeper.keep(&more, Reading::Anywhere).unwrap();
    assert_eq!(
        (kept, more),
        (vec![1; 10_000].into(), vec![2; 10_000].into())
    );
}

proptest! {
    #[test]
    fn what_is_kept_comes_back(sizes in prop::collection::vec(0_usize..300_000, 1..40), freed in any::<u64>()) {
        let folder = tempfile::tempdir().unwrap();
        let mut keeper = overflow(folder.path(), 0).keeper();
        let mut kept = Vec::new();
        for (n, size) in sizes.into_iter().enumerate() {
            let bytes = Bytes::from((0..size).map(|i| (i * 31 + n) as u8).collect::<Vec<u8>>());
            kept.push((keeper.keep(&bytes, Reading::Anywhere).unwrap(), bytes));
            if freed >> (n % 64) & 1 == 1 {
                kept.remove(n * 7 % kept.len());
            }
        }
        for (kept, bytes) in kept {
            prop_assert_eq!(kept, bytes);
        }
    }
}
