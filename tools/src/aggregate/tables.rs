//! Cells added up: over chunks, threads and processes, one row a key.

use std::collections::{BTreeMap, BTreeSet};

use bootbuf::abi::{HIST_BUCKETS, PacketHeader};
use bootbuf::reader::Cell;
use expr::ActionKind;

use super::layout::Layout;
use crate::trace::clock::Clock;
use crate::units::total;

/// The aggregations of a trace.
#[derive(Debug, Default)]
pub struct Tables<'a> {
    /// By text, marker's name, and where names or values are others, those.
    tables: BTreeMap<Id, Table<'a>>,
}

type Id = (String, String, Vec<(String, u8)>, usize);

/// What one text kept of one marker.
#[derive(Debug)]
pub struct Table<'a> {
    /// Text, marker, actions and keys.
    pub layout: Layout<'a>,
    /// The slot.
    pub slot: u16,
    /// By key.
    rows: BTreeMap<Vec<u8>, Row>,
    /// Processes that counted.
    pub pids: BTreeSet<u32>,
}

/// What one key saw.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Number of events.
    pub count: u64,
    /// For each action that has values.
    pub values: Vec<Total>,
    /// Nanoseconds since boot at the first event.
    pub first_ns: i64,
}

/// The values of one action, added up.
#[derive(Clone, Debug, PartialEq)]
pub enum Total {
    /// Of `sum` and `avg`, `min`, `max`.
    Int(i128),
    /// Of the same with floating-point numbers.
    Float(f64),
    /// Counts of the buckets.
    Hist(Box<[u64; HIST_BUCKETS]>),
}

impl<'a> Tables<'a> {
    /// Adds a cell.
    pub fn add(
        &mut self,
        layout: &Layout<'a>,
        cell: &Cell<'_>,
        header: &PacketHeader,
        first_ns: i64,
    ) {
        let keys = layout.keys.iter();
        let id = (
            layout.text.to_owned(),
            layout.marker.full_name.clone(),
            keys.map(|key| (key.name.to_owned(), key.ty)).collect(),
            layout.nvalues,
        );
        let table = self.tables.entry(id).or_insert_with(|| Table {
            layout: layout.clone(),
            slot: cell.slot,
            rows: BTreeMap::new(),
            pids: BTreeSet::new(),
        });
        table.pids.insert(header.pid);
        let row = Row::new(&table.layout, cell, first_ns);
        match table.rows.get_mut(cell.key) {
            Some(old) => old.merge(&row, &table.layout),
            None => {
                table.rows.insert(cell.key.to_vec(), row);
            }
        }
    }

    /// The tables, by text and marker.
    pub fn iter(&self) -> impl Iterator<Item = &Table<'a>> {
        self.tables.values()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }
}

impl Table<'_> {
    /// Its rows with their keys' octets, the most frequent first.
    pub fn rows(&self) -> Vec<(&[u8], &Row)> {
        let rows = self.rows.iter();
        let mut rows: Vec<_> = rows.map(|(key, row)| (&key[..], row)).collect();
        // Stable: rows of the same count stay in the order of their keys.
        rows.sort_by_key(|(_, row)| std::cmp::Reverse(row.count));
        rows
    }

    /// Events of all rows.
    pub fn count(&self) -> u64 {
        total(self.rows.values().map(|row| row.count))
    }
}

impl Row {
    fn new(layout: &Layout<'_>, cell: &Cell<'_>, first_ns: i64) -> Self {
        let values: Vec<u64> = cell.values().collect();
        let totals = layout.actions.iter().filter_map(|action| {
            let value = values.get(action.first).copied();
            Some(match action.kind {
                ActionKind::Count | ActionKind::Record => return None,
                ActionKind::Hist => {
                    let buckets = values.get(action.first..action.first + HIST_BUCKETS)?;
                    Total::Hist(Box::new(buckets.try_into().ok()?))
                }
                _ if action.float => Total::Float(f64::from_bits(value?)),
                _ => Total::Int((value? as i64).into()),
            })
        });
        Self {
            count: cell.count(),
            values: totals.collect(),
            first_ns,
        }
    }

    fn merge(&mut self, other: &Self, layout: &Layout<'_>) {
        self.count = self.count.saturating_add(other.count);
        self.first_ns = self.first_ns.min(other.first_ns);
        let kinds = layout.valued().map(|action| action.kind);
        for ((mine, theirs), kind) in self.values.iter_mut().zip(&other.values).zip(kinds) {
            match (mine, theirs) {
                (Total::Int(mine), Total::Int(theirs)) => {
                    *mine = match kind {
                        ActionKind::Min => (*mine).min(*theirs),
                        ActionKind::Max => (*mine).max(*theirs),
                        _ => mine.saturating_add(*theirs),
                    }
                }
                (Total::Float(mine), Total::Float(theirs)) => {
                    *mine = match kind {
                        ActionKind::Min => mine.min(*theirs),
                        ActionKind::Max => mine.max(*theirs),
                        _ => *mine + theirs,
                    }
                }
                (Total::Hist(mine), Total::Hist(theirs)) => {
                    for (mine, theirs) in mine.iter_mut().zip(theirs.iter()) {
                        *mine = mine.saturating_add(*theirs);
                    }
                }
                _ => {}
            }
        }
    }
}

impl Total {
    /// The mean of the events' values, of what was added up.
    pub fn mean(&self, count: u64) -> f64 {
        match self {
            Self::Int(sum) => *sum as f64 / count as f64,
            Self::Float(sum) => sum / count as f64,
            Self::Hist(_) => f64::NAN,
        }
    }
}

/// The first and the last value of a bucket that counted; the first of bucket 0 has none before it.
pub fn bucket_range(bucket: usize) -> (i64, i64) {
    match bucket {
        0 => (i64::MIN, 0),
        63.. => (1 << 62, i64::MAX),
        _ => (1 << (bucket - 1), (1 << bucket) - 1),
    }
}

/// Adds up a trace; `shows` says which cells.
pub fn collect<'a>(
    trace: &'a crate::trace::reader::Trace,
    shows: impl Fn(&Layout<'a>, &PacketHeader) -> bool,
) -> (Tables<'a>, super::cells::Found) {
    let clock: &Clock = &trace.meta.clock;
    let mut tables = Tables::default();
    let found = super::cells::read(trace, |layout, cell, header, timestamp| {
        if shows(layout, header) {
            tables.add(layout, cell, header, clock.ns(timestamp));
        }
    });
    (tables, found)
}
