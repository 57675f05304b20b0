//! What the octets of a cell mean: the slot's text, compiled for the marker.

use std::collections::HashMap;

use bootbuf::abi::HIST_BUCKETS;
use bootbuf::reader::Cell;
use expr::{ActionKind, FieldType, Program, Shape, SlotText};
use markers::abi;
use markers::decode::{FieldInfo, Kind, SPAN_END, decode_fields};

use crate::expressions;
use crate::trace::marker::Marker;
use crate::trace::meta::Meta;

/// Why a cell cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// The meta stream does not have its slot.
    #[error("a cell of slot {0}, whose text is not known")]
    Slot(u16),
    /// The meta stream does not have its marker.
    #[error("a cell of the event id {0}, which no marker has")]
    Marker(u32),
    /// The text does not fit the marker, so the marker's program wrote no cells of it.
    #[error("a cell of {marker} and {text}, which do not fit each other")]
    Text {
        /// `provider:name`.
        marker: String,
        /// Of the slot.
        text: String,
    },
    /// Its values or its key are others than the text's.
    #[error("a cell with other values or another key than {text} has of {marker}")]
    Cell {
        /// `provider:name`.
        marker: String,
        /// Of the slot.
        text: String,
    },
}

/// An action, and where its values are in a cell.
#[derive(Clone, Copy, Debug)]
pub struct Action<'a> {
    /// As the text has it.
    pub text: &'a str,
    /// What it does.
    pub kind: ActionKind,
    /// Its values are floating-point numbers.
    pub float: bool,
    /// The unit of its values: [`abi::HINT_NSECS`], [`abi::HINT_SIZE`] or [`abi::HINT_NONE`].
    pub hint: u8,
    /// Its first value's number.
    pub first: usize,
}

impl Action<'_> {
    /// Values that it has in a cell.
    pub fn width(kind: ActionKind) -> usize {
        match kind {
            ActionKind::Count | ActionKind::Record => 0,
            ActionKind::Sum | ActionKind::Min | ActionKind::Max | ActionKind::Avg => 1,
            ActionKind::Hist => HIST_BUCKETS,
        }
    }
}

/// What the cells of one marker and slot hold.
#[derive(Clone, Debug)]
pub struct Layout<'a> {
    /// The slot's text.
    pub text: &'a str,
    /// The marker; of a span, that of its end.
    pub marker: &'a Marker,
    /// The actions.
    pub actions: Vec<Action<'a>>,
    /// The names behind `by`.
    pub keys: Vec<FieldInfo<'a>>,
    /// Values of a cell.
    pub nvalues: usize,
}

impl<'a> Layout<'a> {
    /// Compiles `text` for `marker`, which ends a span that `begin` begins. `None`: it does not fit.
    fn new(text: &'a str, marker: &'a Marker, begin: Option<&'a Marker>) -> Option<Self> {
        let payload: Vec<_> = begin.unwrap_or(marker).fields().collect();
        let end: Vec<_> = begin.map(|_| marker.fields().collect()).unwrap_or_default();
        let fields = expressions::fields(begin.unwrap_or(marker));
        let shape = Shape {
            fields: &fields,
            end: if begin.is_some() { &SPAN_END } else { &[] },
            dur: begin.is_some(),
            thread: true,
        };
        let program = Program::compile(SlotText::parse(text).ok()?, &shape).ok()?;
        let find = |name: &str| {
            let mut all = payload.iter().chain(&end);
            all.find(|field| field.name == name).copied()
        };
        let mut nvalues = 1;
        let mut actions = Vec::new();
        for action in program.actions() {
            let text = program.action_text(action);
            actions.push(Action {
                text,
                kind: action.kind,
                float: action.float,
                hint: hint(text, find),
                first: nvalues,
            });
            nvalues += Action::width(action.kind);
        }
        let keys = program.keys().iter().map(|key| {
            let name = program.key_name(key);
            find(name).unwrap_or(FieldInfo::new(name, context_type(key.ty)))
        });
        Some(Self {
            text,
            marker,
            keys: keys.collect(),
            actions,
            nvalues,
        })
    }

    /// Whether a cell has these values and this key.
    fn fits(&self, cell: &Cell<'_>) -> bool {
        cell.values().len() == self.nvalues
            && decode_fields(self.keys.iter().copied(), cell.key).all(|value| value.is_ok())
    }

    /// The actions that have values.
    pub fn valued(&self) -> impl Iterator<Item = &Action<'a>> {
        let actions = self.actions.iter();
        actions.filter(|action| Action::width(action.kind) != 0)
    }

    /// Whether it aggregates at all.
    fn has_cells(&self) -> bool {
        let mut kinds = self.actions.iter().map(|action| action.kind);
        kinds.any(|kind| kind != ActionKind::Record)
    }
}

/// The unit of an action whose expression is a field, or `dur`.
fn hint<'a>(text: &str, find: impl Fn(&str) -> Option<FieldInfo<'a>>) -> u8 {
    let inner = text
        .split_once('(')
        .and_then(|(_, rest)| rest.rsplit_once(')'))
        .map_or("", |(inner, _)| inner.trim());
    match find(inner) {
        Some(field) if [abi::HINT_NSECS, abi::HINT_SIZE].contains(&field.hint) => field.hint,
        None if inner == "dur" => abi::HINT_NSECS,
        _ => abi::HINT_NONE,
    }
}

/// The type of a key that is none of the marker's fields.
fn context_type(ty: FieldType) -> u8 {
    match ty {
        FieldType::Str => abi::TYPE_STR,
        FieldType::U64 => abi::TYPE_U64,
        _ => abi::TYPE_U32,
    }
}

/// Layouts of a trace, each made once.
#[derive(Debug)]
pub struct Layouts<'a> {
    meta: &'a Meta,
    /// By event id and slot; of a span whose name several begins have, one for each.
    made: HashMap<(u32, u16), Vec<Layout<'a>>>,
}

impl<'a> Layouts<'a> {
    /// Those of the markers and slots in the meta stream.
    pub fn new(meta: &'a Meta) -> Self {
        Self {
            meta,
            made: HashMap::new(),
        }
    }

    /// The layout that a cell has.
    ///
    /// # Errors
    /// When it has none: it is damaged, or its program wrote nonsense.
    pub fn of(&mut self, cell: &Cell<'_>) -> Result<&Layout<'a>, Misfit> {
        let key = (cell.event_id, cell.slot);
        if !self.made.contains_key(&key) {
            let layouts = self.make(cell)?;
            self.made.insert(key, layouts);
        }
        let layouts = &self.made[&key];
        let misfit = || {
            let marker = &self.meta.markers[&cell.event_id];
            Misfit::Cell {
                marker: marker.full_name.clone(),
                text: self.meta.slots[&cell.slot.into()].clone(),
            }
        };
        let mut all = layouts.iter();
        all.find(|layout| layout.fits(cell)).ok_or_else(misfit)
    }

    fn make(&self, cell: &Cell<'_>) -> Result<Vec<Layout<'a>>, Misfit> {
        let meta = self.meta;
        let text = meta.slots.get(&cell.slot.into());
        let text = text.ok_or(Misfit::Slot(cell.slot))?;
        let marker = meta.markers.get(&cell.event_id);
        let marker = marker.ok_or(Misfit::Marker(cell.event_id))?;
        let mut layouts: Vec<_> = match marker.kind() {
            Kind::Instant | Kind::Counter => Layout::new(text, marker, None).into_iter().collect(),
            // Cells have the ends' ids.
            Kind::SpanBegin => Vec::new(),
            Kind::SpanEnd => meta
                .begins(marker)
                .into_iter()
                .filter_map(|begin| Layout::new(text, marker, Some(begin)))
                .collect(),
        };
        layouts.retain(Layout::has_cells);
        if layouts.is_empty() {
            return Err(Misfit::Text {
                marker: marker.full_name.clone(),
                text: text.clone(),
            });
        }
        Ok(layouts)
    }
}
