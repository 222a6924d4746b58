//! How much memory the process has taken from the heap: an allocator that counts.
//!
//! What a job holds is spread over indexes, slices and buffers of many kinds. Counting each of them would be work on
//! every path and never complete; counting where all memory comes from is exact and costs a nanosecond.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, Ordering};

/// The system's allocator, which [`live_bytes`] watches. A program opts in by `#[global_allocator]`.
#[derive(Clone, Copy, Debug, Default)]
pub struct CountingAllocator;

/// Bytes taken and not given back, to within a few KiB per thread; 0 where the allocator is another one.
pub fn live_bytes() -> u64 {
    u64::try_from(LIVE.load(Ordering::Relaxed)).unwrap_or(0)
}

static LIVE: AtomicI64 = AtomicI64::new(0);

thread_local! {
    /// What this thread has not added to [`LIVE`] yet.
    static UNTOLD: Cell<i64> = const { Cell::new(0) };
}

/// A thread adds up so much by itself: what it keeps when it ends is lost to the count.
const UNTOLD_MAX: i64 = 8 << 10;

#[inline]
fn count(bytes: i64) {
    let counted = UNTOLD.try_with(|untold| {
        let sum = untold.get() + bytes;
        if sum.abs() < UNTOLD_MAX {
            untold.set(sum);
        } else {
            untold.set(0);
            LIVE.fetch_add(sum, Ordering::Relaxed);
        }
    });
    if counted.is_err() {
        LIVE.fetch_add(bytes, Ordering::Relaxed);
    }
}

// Layouts are at most isize::MAX bytes.
fn size(layout: Layout) -> i64 {
    layout.size() as i64
}

#[expect(
    unsafe_code,
    reason = "an allocator is an unsafe trait. Each call is passed on unchanged to the system's allocator, whose \
              contract is the caller's; counting neither allocates nor panics"
)]
unsafe impl GlobalAlloc for CountingAllocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `alloc`.
        let memory = unsafe { System.alloc(layout) };
        if !memory.is_null() {
            count(size(layout));
        }
        memory
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        let memory = unsafe { System.alloc_zeroed(layout) };
        if !memory.is_null() {
            count(size(layout));
        }
        memory
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: `memory` came from `System` by the calls above, with this layout.
        unsafe { System.dealloc(memory, layout) };
        count(-size(layout));
    }

    #[inline]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: `memory` came from `System` by the calls above, with this layout.
        let moved = unsafe { System.realloc(memory, layout, new_size) };
        if !moved.is_null() {
            count(new_size as i64 - size(layout));
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(unsafe_code, reason = "calls the allocator as the language does")]
    fn what_is_taken_and_given_back_is_counted() {
        let layout = Layout::from_size_align(1 << 30, 8).unwrap();
        let before = live_bytes();
        // SAFETY: the layout has a size, and the memory is given back with the one it has by then.
        unsafe {
            let memory = CountingAllocator.alloc(layout);
            let taken = live_bytes() - before;
            let memory = CountingAllocator.realloc(memory, layout, 2 << 30);
            let grown = live_bytes() - before;
            let layout = Layout::from_size_align(2 << 30, 8).unwrap();
            CountingAllocator.dealloc(memory, layout);
            assert_eq!((taken, grown, live_bytes()), (1 << 30, 2 << 30, before));
        }
    }
}
