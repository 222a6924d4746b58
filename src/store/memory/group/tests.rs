//! The table by itself: grouping, collisions, reading in parts.

use std::ops::ControlFlow;

use crate::engine::tables::PayloadTable;
use crate::engine::tables::group::{BackedValues, FiredPane, KeyCells};
use crate::engine::tables::group::{
    CellRow, Drained, GroupHead, GroupSink, GroupTable, GroupVisitor, KeyedBatch, WindowContents,
};
use crate::model::coder::Coder;
use crate::model::ids::StageId;
use crate::model::time::Timestamp;
use crate::model::window::{Window, WindowFn};
use crate::model::windowing::{AccumulationMode, OutputTime, Trigger, WindowingStrategy};
use crate::store::memory::MemoryGroupTable;
use crate::store::overflow::{self, Keeper, Overflow};

const STAGE: StageId = StageId(3);

fn strategy() -> WindowingStrategy {
    WindowingStrategy {
        window_fn: WindowFn::Global,
        needs_merge: false,
        window_coder: Coder::GlobalWindow,
        trigger: Trigger::Default,
        accumulation: AccumulationMode::Discarding,
        output_time: OutputTime::Earliest,
        closing_always: false,
        on_time_always: true,
        last_by_trigger_only: false,
        allowed_lateness: 0,
        environment: None,
    }
}

/// Collects `key ×count lowest..highest: values`, some at a time.
#[derive(Default)]
struct Collector {
    groups: Vec<String>,
    left: usize,
}

impl GroupSink for Collector {
    fn backs(&self, _: &GroupHead<'_>) -> bool {
        false
    }

    fn back(&mut self, _: GroupHead<'_>, _: BackedValues) -> ControlFlow<()> {
        ControlFlow::Break(())
    }

    fn begin(&mut self, head: GroupHead<'_>) {
        let times = head
            .timestamps
            .map(|(lowest, highest)| format!(" {lowest}..{highest}"));
        let key = String::from_utf8_lossy(head.key);
        self.groups.push(format!(
            "{key} ×{}{}: ",
            head.count,
            times.unwrap_or_default()
        ));
        assert!(head.value_bytes >= head.count);
    }

    fn values(&mut self, values: &[u8]) {
        let group = self.groups.last_mut().expect("a group");
        *group += &String::from_utf8_lossy(values);
    }

    fn end(&mut self) -> ControlFlow<()> {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

/// Pushes `key value time` elements, all with the same hash, and appends them.
fn append(table: &mut MemoryGroupTable, hash: u64, elements: &[(&str, &str, i64)], floor: i64) {
    let mut batch = KeyedBatch::new(&strategy());
    for (key, value, time) in elements {
        let timestamp = Timestamp::from_millis(*time);
        batch.push(
            &[Window::Global],
            timestamp,
            hash,
            key.as_bytes(),
            value.as_bytes(),
        );
    }
    for run in batch.into_windows() {
        table.append(STAGE, run, Timestamp::from_millis(floor));
    }
}

fn drain(table: &mut MemoryGroupTable, groups: usize) -> (Vec<String>, Drained) {
    let mut collector = Collector {
        left: groups,
        ..Collector::default()
    };
    let drained = table.drain(STAGE, &Window::Global, &mut collector);
    (collector.groups, drained)
}

struct Contents(Option<WindowContents>);

impl GroupVisitor for Contents {
    fn window(&mut self, _: &Window, contents: WindowContents) {
        self.0 = Some(contents);
    }

    fn key(&mut self, _: &mut KeyCells) {}

    fn pane(&mut self, _: &FiredPane) {}
}

fn contents(table: &mut MemoryGroupTable) -> Option<WindowContents> {
    let mut contents = Contents(None);
    table.visit(STAGE, &mut contents);
    contents.0
}

#[test]
fn keys_with_the_same_hash_stay_apart() {
    let mut table = MemoryGroupTable::default();
    append(
        &mut table,
        5,
        &[("a", "1", 1), ("b", "2", 2), ("a", "3", 3)],
        0,
    );
    append(
        &mut table,
        5,
        &[("c", "4", 4), ("a", "5", 5), ("b", "6", 6)],
        0,
    );
    assert_eq!(
        drain(&mut table, 9),
        (
            vec![
                "a ×3 1..5: 135".into(),
                "b ×2 2..6: 26".into(),
                "c ×1 4..4: 4".into()
            ],
            Drained::Whole
        )
    );
    assert_eq!(contents(&mut table), None);
}

#[test]
fn groups_come_in_the_order_of_hashes_and_in_parts() {
    let mut table = MemoryGroupTable::default();
    let large = "x".repeat(2_000);
    for (n, key) in ["a", "b", "c", "d", "e"].into_iter().enumerate() {
        let hash = (5 - n as u64) << 60;
        append(&mut table, hash, &[(key, "1", 7), (key, &large, 8)], 8);
    }
    let mut keys = Vec::new();
    let mut count = 10;
    loop {
        let found = contents(&mut table).expect("a window");
        assert_eq!(found.count, count);
        assert_eq!(
            found.min_timestamp,
            (count > 0).then_some(Timestamp::from_millis(8))
        );
        let (groups, drained) = drain(&mut table, 1);
        keys.extend(
            groups
                .iter()
                .map(|group| group[..group.find(':').expect("a colon")].to_owned()),
        );
        if drained == Drained::Whole {
            break;
        }
        count -= 2;
    }
    assert_eq!(
        keys,
        ["e", "d", "c", "b", "a"].map(|key| format!("{key} ×2 8..8"))
    );
}

#[test]
fn what_comes_while_reading_is_read_too() {
    let mut table = MemoryGroupTable::default();
    append(&mut table, 1, &[("a", "1", 1)], 0);
    append(&mut table, 2 << 60, &[("b", "2", 1)], 0);
    assert_eq!(drain(&mut table, 1).0, ["a ×1 1..1: 1"]);
    append(&mut table, 1, &[("a", "3", 1)], 0);
    let (groups, drained) = drain(&mut table, 9);
    assert_eq!(groups, ["b ×1 1..1: 2", "a ×1 1..1: 3"]);
    assert_eq!(drained, Drained::Whole);
}

#[test]
fn cells_of_keys_with_the_same_hash_stay_apart() {
    let mut table = MemoryGroupTable::default();
    let mut change = |key: &str, add: bool| {
        table.with_key(STAGE, 9, key.as_bytes(), |cells| {
            assert_eq!(cells.key, key.as_bytes());
            let before = cells.rows.len();
            if add {
                cells.rows.push(CellRow::new(Window::Global));
            } else {
                cells.rows.clear();
            }
            before
        })
    };
    assert_eq!(change("a", true), 0);
    assert_eq!(change("b", true), 0);
    assert_eq!(change("a", true), 1);
    assert_eq!(change("b", true), 1);
    assert_eq!(change("a", false), 2);
    assert_eq!(change("b", true), 2);
    assert_eq!(change("a", true), 0);
    assert_eq!(change("b", false), 3);
    assert_eq!(change("b", false), 0);
    assert_eq!(change("a", false), 1);
}

/// A keeper for a process whose memory is always short.
fn short(folder: &tempfile::TempDir) -> Keeper {
    let settings = overflow::Settings {
        budget_bytes: 0,
        folder: folder.path().to_owned(),
    };
    Overflow::new(settings, || u64::MAX).keeper()
}

/// Appends batches of elements that are different everywhere.
fn fill(table: &mut MemoryGroupTable, payload: &mut Keeper, batches: usize, value_bytes: usize) {
    for batch_number in 0..batches {
        let mut batch = KeyedBatch::new(&strategy());
        for n in 0..2_000_u32 {
            let key = format!("key{}", (u64::from(n) * 31 + batch_number as u64) % 1_500);
            let hash = (u64::from(n) * 31 + batch_number as u64) % 1_500;
            let hash = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let value = format!("{batch_number}/{n}").repeat(value_bytes / 8);
            let time = Timestamp::from_millis(i64::from(n));
            let key = key.as_bytes();
            batch.push(&[Window::Global], time, hash, key, value.as_bytes());
        }
        if payload.is_short() {
            batch.keep(payload).unwrap();
        }
        for run in batch.into_windows() {
            table.append(STAGE, run, Timestamp::from_millis(1_000));
        }
    }
}

#[test]
fn off_the_heap_groups_are_the_same() {
    let folder = tempfile::tempdir().unwrap();
    // Small elements, some that make the table large, and such that are kept as they come.
    for (batches, value_bytes) in [(3, 240), (12, 1_000), (2, 8_000), (1, 12_000)] {
        let mut expected = MemoryGroupTable::default();
        fill(&mut expected, &mut Keeper::default(), batches, value_bytes);
        let mut payload = short(&folder);
        let mut table = MemoryGroupTable::new(payload.clone());
        fill(&mut table, &mut payload, batches, value_bytes);
        assert!(payload.is_used());
        assert_eq!(contents(&mut table), contents(&mut expected));
        loop {
            let part = drain(&mut table, 100);
            assert_eq!(part, drain(&mut expected, 100));
            if part.1 == Drained::Whole {
                break;
            }
        }
        drop((table, payload.clone()));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

#[test]
fn values_of_cells_go_off_the_heap() {
    let folder = tempfile::tempdir().unwrap();
    let payload = short(&folder);
    let mut table = MemoryGroupTable::new(payload.clone());
    let mut expected = Vec::new();
    for n in 0..3_000_u32 {
        table.with_key(STAGE, 9, b"key", |cells| {
            if cells.rows.is_empty() {
                cells.rows.push(CellRow::new(Window::Global));
            }
            let value = n.to_be_bytes().repeat(n as usize % 9);
            cells.rows[0].cell.values.append(&value);
            expected.extend_from_slice(&value);
        });
    }
    assert!(payload.is_used());
    table.with_key(STAGE, 9, b"key", |cells| {
        let mut found = Vec::new();
        cells.rows[0].cell.values.write_to(&mut found);
        assert_eq!(found, expected);
    });
}
