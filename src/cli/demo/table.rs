//! The demo's live table and its summary.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{IsTerminal, Write};

use crate::cli::demo::orders::Ledger;
use crate::cli::demo::results::Received;
use crate::telemetry::clock;

/// Results by window and shop, against what was published.
pub struct Table {
    window: i64,
    /// Units counted, by end of window and shop.
    counted: BTreeMap<(i64, String), u64>,
    seen: BTreeSet<String>,
    /// From the end of a window to its results, in milliseconds.
    latencies: Vec<i64>,
    live: bool,
}

/// How the demo went.
#[derive(Clone, Debug)]
pub struct Summary {
    pub orders: u64,
    pub repeated: u64,
    pub published: u64,
    pub counted: u64,
    pub lost: u64,
    pub doubled: u64,
    pub p50: i64,
    pub p99: i64,
}

impl Table {
    /// An empty table for windows of this length.
    pub fn new(window: i64) -> Self {
        Self {
            window,
            counted: BTreeMap::new(),
            seen: BTreeSet::new(),
            latencies: Vec::new(),
            live: std::io::stdout().is_terminal(),
        }
    }

    /// Takes a result and prints its row.
    pub fn add(&mut self, received: Received, ledger: &Ledger) {
        if !self.seen.insert(received.message_id) {
            return;
        }
        let total = received.total;
        let latency = received.at - total.window_end;
        if self.counted.is_empty() {
            println!(
                "{:<21} {:<8} {:>7} {:>9}  {:>8}",
                "window", "shop", "sum", "expected", "latency"
            );
        }
        let counted = self
            .counted
            .entry((total.window_end, total.shop.clone()))
            .or_default();
        *counted += total.units;
        self.latencies.push(latency);
        let expected = expected(ledger, total.window_end, &total.shop);
        let mark = if expected == Some(*counted) {
            ""
        } else {
            "  WRONG"
        };
        let expected = expected.map_or_else(|| "none".to_owned(), |units| units.to_string());
        self.clear_line();
        println!(
            "{:<21} {:<8} {:>7} {:>9}  {:>6} ms{mark}",
            span(total.window_end, self.window),
            total.shop,
            total.units,
            expected,
            latency,
        );
    }

    /// Shows, on a terminal, what is going on between results.
    pub fn draw(&self, ledger: &Ledger) {
        if self.live {
            let left = self.window - clock::unix_millis().rem_euclid(self.window);
            print!(
                "\r{} orders published, {} of them twice; this window ends in {:.1} s ",
                ledger.orders,
                ledger.repeated,
                left as f64 / 1000.0
            );
            let _ = std::io::stdout().flush();
        }
    }

    fn clear_line(&self) {
        if self.live {
            print!("\r\x1b[K");
        }
    }

    /// Whether every window that got orders has a result for every shop.
    pub fn is_complete(&self, ledger: &Ledger) -> bool {
        ledger
            .expected
            .keys()
            .all(|(end, shop)| self.counted.contains_key(&(*end, (*shop).to_owned())))
    }

    /// Judges everything that came.
    pub fn summary(&self, ledger: &Ledger) -> Summary {
        self.clear_line();
        let mut summary = Summary {
            orders: ledger.orders,
            repeated: ledger.repeated,
            published: ledger.expected.values().sum(),
            counted: self.counted.values().sum(),
            lost: 0,
            doubled: 0,
            p50: quantile(&self.latencies, 0.5),
            p99: quantile(&self.latencies, 0.99),
        };
        for ((end, shop), units) in &ledger.expected {
            let counted = self
                .counted
                .get(&(*end, (*shop).to_owned()))
                .copied()
                .unwrap_or(0);
            summary.lost += units.saturating_sub(counted);
            summary.doubled += counted.saturating_sub(*units);
        }
        // What was never ordered was made up, which is as bad as counting twice.
        for ((end, shop), counted) in &self.counted {
            if expected(ledger, *end, shop).is_none() {
                summary.doubled += counted;
            }
        }
        summary
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f)?;
        writeln!(f, "orders published       {:>9}", self.orders)?;
        writeln!(f, "  published twice      {:>9}", self.repeated)?;
        writeln!(f, "units published        {:>9}", self.published)?;
        writeln!(f, "units counted          {:>9}", self.counted)?;
        writeln!(f, "  lost                 {:>9}", self.lost)?;
        writeln!(f, "  doubled              {:>9}", self.doubled)?;
        write!(
            f,
            "window end to result   {:>6} ms (p50), {} ms (p99)",
            self.p50, self.p99
        )
    }
}

fn expected(ledger: &Ledger, end: i64, shop: &str) -> Option<u64> {
    let mut entries = ledger
        .expected
        .range((end, "")..)
        .take_while(|((at, _), _)| *at == end);
    entries
        .find(|((_, name), _)| *name == shop)
        .map(|(_, units)| *units)
}

/// `12:34:50–12:35:00`, in UTC.
fn span(end: i64, window: i64) -> String {
    format!("{}–{} UTC", time_of_day(end - window), time_of_day(end))
}

fn time_of_day(millis: i64) -> String {
    let seconds = millis.div_euclid(1000).rem_euclid(86_400);
    format!(
        "{:02}:{:02}:{:02}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

/// The value below which this share of `values` lies; 0 of none.
fn quantile(values: &[i64], share: f64) -> i64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let index = ((sorted.len() as f64 * share).ceil() as usize).saturating_sub(1);
    sorted.get(index).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::cli::demo::results::Total;

    fn received(id: &str, shop: &str, units: u64) -> Received {
        let total = Total {
            window_end: 20_000,
            shop: shop.to_owned(),
            units,
        };
        Received {
            message_id: id.to_owned(),
            total,
            at: 21_000,
        }
    }

    #[test]
    fn lost_and_doubled_units_do_not_make_up_for_each_other() {
        let ledger = Ledger {
            expected: BTreeMap::from([((20_000, "Aachen"), 10), ((20_000, "Delft"), 10)]),
            ..Ledger::default()
        };
        let mut table = Table::new(10_000);
        table.add(received("1", "Aachen", 12), &ledger);
        assert!(!table.is_complete(&ledger));
        table.add(received("2", "Delft", 8), &ledger);
        assert!(table.is_complete(&ledger));
        let summary = table.summary(&ledger);
        assert_eq!((summary.lost, summary.doubled, summary.p50), (2, 2, 1000));
    }

    #[test]
    fn a_second_delivery_of_a_result_is_no_second_result() {
        let ledger = Ledger {
            expected: BTreeMap::from([((20_000, "Aachen"), 10)]),
            ..Ledger::default()
        };
        let mut table = Table::new(10_000);
        table.add(received("1", "Aachen", 10), &ledger);
        table.add(received("1", "Aachen", 10), &ledger);
        let summary = table.summary(&ledger);
        assert_eq!((summary.lost, summary.doubled), (0, 0));
    }
}
