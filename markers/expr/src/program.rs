//! What a text becomes.

use heapless::Vec;

use crate::operators::Op;
use crate::shape::{FieldType, MAX_FIELDS, Part, Source};
use crate::{MAX_ACTIONS, MAX_KEYS, MAX_LABEL_SETS, MAX_OPS};

/// A compiled text. About 2 KiB; refers to the text for its strings.
#[derive(Clone, Debug, PartialEq)]
pub struct Program<'t> {
    pub(crate) text: &'t str,
    pub(crate) ops: Vec<Op, MAX_OPS>,
    pub(crate) filter: Option<Span>,
    pub(crate) actions: Vec<Action, MAX_ACTIONS>,
    pub(crate) keys: Vec<Key, MAX_KEYS>,
    /// Bit `n` of a set stands for the label of value `n`.
    pub(crate) sets: Vec<u128, MAX_LABEL_SETS>,
    /// The types of the fields up to the last one that is used: of the payload, and of the end.
    pub(crate) walks: [Vec<FieldType, MAX_FIELDS>; 2],
    pub(crate) needs_thread: bool,
    pub(crate) needs_end: bool,
}

/// From the first operation up to the one behind the last.
pub(crate) type Span = (u8, u8);

/// From the first octet of the text up to the one behind the last.
pub(crate) type Place = (u16, u16);

/// What an aggregation keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActionKind {
    /// How many events.
    Count,
    /// The sum of the values.
    Sum,
    /// The smallest value.
    Min,
    /// The largest value.
    Max,
    /// The mean of the values.
    Avg,
    /// A histogram of the values by powers of two.
    Hist,
    /// A record of each event.
    Record,
}

/// One action of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action {
    /// What it does.
    pub kind: ActionKind,
    /// Its value is a floating-point number; else it is an integer, or there is none.
    pub float: bool,
    pub(crate) value: Option<Span>,
    pub(crate) text: Place,
}

/// A name behind `by`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    pub(crate) source: Source,
    /// How its value is encoded: as in a payload.
    pub ty: FieldType,
    pub(crate) name: Place,
}

impl<'t> Program<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self {
            text,
            ops: Vec::new(),
            filter: None,
            actions: Vec::new(),
            keys: Vec::new(),
            sets: Vec::new(),
            walks: [Vec::new(), Vec::new()],
            needs_thread: false,
            needs_end: false,
        }
    }

    /// The text it was made from.
    pub fn text(&self) -> &'t str {
        self.text
    }

    /// Whether there is a condition; without one, all events pass.
    pub fn has_filter(&self) -> bool {
        self.filter.is_some()
    }

    /// The actions, in the order of the text; none when it has no braces, which means to record.
    pub fn actions(&self) -> &[Action] {
        &self.actions
    }

    /// The names behind `by`.
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// An action as the text has it, `sum(size)`.
    pub fn action_text(&self, action: &Action) -> &'t str {
        self.at(action.text)
    }

    /// The name of a key.
    pub fn key_name(&self, key: &Key) -> &'t str {
        self.at(key.name)
    }

    fn at(&self, (from, to): Place) -> &'t str {
        self.text
            .get(usize::from(from)..usize::from(to))
            .unwrap_or_default()
    }

    /// Whether an event that passes is recorded.
    pub fn records(&self) -> bool {
        self.actions.is_empty()
            || self
                .actions
                .iter()
                .any(|action| action.kind == ActionKind::Record)
    }

    /// Whether something is kept besides records.
    pub fn aggregates(&self) -> bool {
        self.actions
            .iter()
            .any(|action| action.kind != ActionKind::Record)
    }

    /// Whether it looks at `pid`, `tid`, `uid` or `comm`.
    pub fn needs_thread(&self) -> bool {
        self.needs_thread
    }

    /// Whether it looks at fields of a span's end or at `dur`.
    pub fn needs_end(&self) -> bool {
        self.needs_end
    }

    /// Notes that a value is looked at.
    pub(crate) fn uses(&mut self, source: Source, types: impl Iterator<Item = FieldType>) {
        match source {
            Source::Field(part, index) => {
                self.needs_end |= part == Part::End;
                let walk = &mut self.walks[part as usize];
                let wanted = usize::from(index) + 1;
                for ty in types.take(wanted).skip(walk.len()) {
                    // Never full: no index is as large as MAX_FIELDS.
                    let _ = walk.push(ty);
                }
            }
            Source::Dur => self.needs_end = true,
            Source::Pid | Source::Tid | Source::Uid | Source::Comm => self.needs_thread = true,
        }
    }
}
