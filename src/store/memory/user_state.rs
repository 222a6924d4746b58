//! User state in memory.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;

use crate::engine::tables::{StateAddress, StateEntry, UserStateTable};
use crate::model::ids::StageId;

/// Cells by address.
#[derive(Debug, Default)]
pub struct MemoryUserState {
    cells: BTreeMap<StateAddress, BTreeMap<StateEntry, Vec<Bytes>>>,
}

impl UserStateTable for MemoryUserState {
    fn values(&self, address: &StateAddress, entry: &StateEntry) -> &[Bytes] {
        self.cells
            .get(address)
            .and_then(|cell| cell.get(entry))
            .map_or(&[], Vec::as_slice)
    }

    fn entries(
        &self,
        address: &StateAddress,
        from: Bound<&StateEntry>,
    ) -> impl Iterator<Item = &StateEntry> {
        let cell = self.cells.get(address).into_iter();
        let entries = cell.flat_map(move |cell| cell.range((from, Bound::Unbounded)));
        entries.map(|(entry, _)| entry)
    }

    fn append(&mut self, address: &StateAddress, entry: StateEntry, values: Vec<Bytes>) {
        let cell = match self.cells.get_mut(address) {
            Some(cell) => cell,
            None => self.cells.entry(address.clone()).or_default(),
        };
        cell.entry(entry).or_default().extend(values);
    }

    fn remove(&mut self, address: &StateAddress, entry: &StateEntry) {
        if let Some(cell) = self.cells.get_mut(address) {
            cell.remove(entry);
            if cell.is_empty() {
                self.cells.remove(address);
            }
        }
    }

    fn clear(&mut self, address: &StateAddress) {
        self.cells.remove(address);
    }

    fn expire(&mut self, stage: StageId, window: &Bytes) {
        let first = StateAddress {
            stage,
            window: window.clone(),
            key: Bytes::new(),
            transform: String::new(),
            name: String::new(),
        };
        // Addresses of a stage and window stand together.
        let expired: Vec<StateAddress> = self
            .cells
            .range(first..)
            .take_while(|(address, _)| address.stage == stage && address.window == *window)
            .map(|(address, _)| address.clone())
            .collect();
        for address in expired {
            self.cells.remove(&address);
        }
    }
}
