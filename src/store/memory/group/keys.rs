//! Cells by key, in the order of the key's hash and so of its shard.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::engine::tables::group::{GroupVisitor, KeyCells};

/// The cells of all keys of one stage.
#[derive(Debug, Default)]
pub(super) struct Keys {
    first: BTreeMap<u64, KeyCells>,
    /// Keys whose hash another key has as well.
    others: BTreeMap<(u64, Bytes), KeyCells>,
}

impl Keys {
    /// Lets `change` change the cells of a key, which is forgotten when none is left.
    pub(super) fn change<R>(
        &mut self,
        hash: u64,
        key: &[u8],
        change: impl FnOnce(&mut KeyCells) -> R,
    ) -> R {
        match self.first.get_mut(&hash) {
            Some(cells) if cells.key == key => {
                let result = change(cells);
                if cells.rows.is_empty() {
                    self.first.remove(&hash);
                }
                result
            }
            Some(_) => self.change_other(hash, key, change),
            // The key may be among the others still, after the one that came before it has gone.
            None if !self.others.is_empty() => self.change_other(hash, key, change),
            None => {
                let mut cells = new_cells(hash, key);
                let result = change(&mut cells);
                if !cells.rows.is_empty() {
                    self.first.insert(hash, cells);
                }
                result
            }
        }
    }

    pub(super) fn visit(&mut self, visitor: &mut impl GroupVisitor) {
        for cells in self.first.values_mut().chain(self.others.values_mut()) {
            visitor.key(cells);
        }
    }

    fn change_other<R>(
        &mut self,
        hash: u64,
        key: &[u8],
        change: impl FnOnce(&mut KeyCells) -> R,
    ) -> R {
        let place = (hash, Bytes::copy_from_slice(key));
        let mut cells = self
            .others
            .remove(&place)
            .unwrap_or_else(|| new_cells(hash, key));
        let result = change(&mut cells);
        if !cells.rows.is_empty() {
            self.others.insert(place, cells);
        }
        result
    }
}

fn new_cells(hash: u64, key: &[u8]) -> KeyCells {
    KeyCells {
        hash,
        key: Bytes::copy_from_slice(key),
        rows: Vec::new(),
    }
}
