//! `bootmark view --where`: the language of filters over events that were recorded.

use std::collections::{BTreeMap, HashMap};

use bootbuf::abi::STREAM_CPU;
use expr::{Program, Shape, Values};
use markers::decode::Kind;

use super::span_begin;
use crate::expressions::{self, Misfit};
use crate::trace::layout;
use crate::trace::meta::Meta;
use crate::trace::open::{OpenSpans, Place};
use crate::trace::reader::Event;

/// Reads a condition; whether it fits is known only when the markers are.
///
/// # Errors
/// When it is malformed, with a caret under the place.
pub fn parse(text: &str) -> Result<String, String> {
    match Program::check_condition(text) {
        Ok(()) => Ok(text.to_owned()),
        Err(error) => Err(Misfit::new(&error, None).with_caret(text)),
    }
}

/// A condition over the events of a trace.
#[derive(Debug)]
pub struct Condition<'a> {
    text: &'a str,
    meta: &'a Meta,
    /// By the marker's id and, of an end, that of its begin when this was seen.
    programs: HashMap<(u32, Option<u32>), Result<Program<'a>, Misfit>>,
    /// Marker and payload of the begins that may be needed at the end.
    open: OpenSpans<(u32, Vec<u8>)>,
    names: HashMap<&'a str, usize>,
    /// Events that were left out, by the reason.
    misfits: BTreeMap<String, (u64, String)>,
}

impl<'a> Condition<'a> {
    /// Makes it ready for a trace.
    pub fn new(text: &'a str, meta: &'a Meta) -> Self {
        let mut names = HashMap::new();
        for marker in meta.markers.values() {
            let number = names.len();
            names.entry(marker.full_name.as_str()).or_insert(number);
        }
        Self {
            text,
            meta,
            programs: HashMap::new(),
            open: OpenSpans::default(),
            names,
            misfits: BTreeMap::new(),
        }
    }

    /// Remembers a begin for its end; of all events, in order, whether or not they are shown.
    pub fn sees(&mut self, event: &Event<'_>) {
        if event.marker.kind() == Kind::SpanBegin
            && let Some(&name) = self.names.get(event.marker.full_name.as_str())
        {
            let value = (event.marker.id, event.payload.to_vec());
            self.open
                .begin(Place::of(event), event.timestamp, name, value);
        }
    }

    /// Whether it holds for an event. The end of a span is judged by the fields of its begin too.
    pub fn holds(&mut self, event: &Event<'_>) -> bool {
        let begin = span_begin(event);
        let opened = begin.and_then(|reading| {
            let name = *self.names.get(event.marker.full_name.as_str())?;
            self.open.end(Place::of(event), reading, name)
        });
        let user = event.header.stream_id != STREAM_CPU;
        let key = (event.marker.id, opened.as_ref().map(|(id, _)| *id));
        let (text, meta) = (self.text, self.meta);
        let program = self.programs.entry(key).or_insert_with(|| {
            let own = expressions::fields(event.marker);
            let first = key.1.and_then(|id| meta.markers.get(&id));
            let first = first.map(|marker| expressions::fields(marker));
            let shape = Shape {
                fields: first.as_deref().unwrap_or(&own),
                end: if first.is_some() { &own } else { &[] },
                dur: event.marker.kind() == Kind::SpanEnd,
                thread: user,
            };
            Program::condition(text, &shape).map_err(|error| Misfit::new(&error, Some(&shape)))
        });
        let program = match program {
            Ok(program) => program,
            Err(misfit) => {
                let name = &event.marker.full_name;
                let first = || (0, format!("{name}: {}", misfit.with_caret(text)));
                let entry = self.misfits.entry(misfit.reason.clone());
                entry.or_insert_with(first).0 += 1;
                return false;
            }
        };
        let clock = &meta.clock;
        let comm = layout::comm(&event.header.comm);
        let context = expr::Context {
            pid: event.header.pid,
            tid: event.header.tid,
            uid: event.header.uid,
            comm: comm.as_bytes(),
            dur_ns: begin.map_or(0, |begin| clock.span_ns(begin, event.timestamp)),
        };
        let (payload, end) = match &opened {
            Some((_, payload)) => (payload.as_slice(), event.payload),
            None => (event.payload, [].as_slice()),
        };
        program.eval_filter(&Values {
            payload,
            end,
            context,
        })
    }

    /// What to say about events that it does not fit: how many, and why the first of them; nothing
    /// when it fits all.
    pub fn note(&self) -> Option<String> {
        let events: u64 = self.misfits.values().map(|(events, _)| events).sum();
        let (_, why) = self.misfits.values().max_by_key(|(events, _)| *events)?;
        let more = match self.misfits.len() - 1 {
            0 => String::new(),
            1 => "\n  and for one other reason".into(),
            others => format!("\n  and for {others} other reasons"),
        };
        let plural = if events == 1 { "" } else { "s" };
        Some(format!(
            "{events} event{plural} left out, since the condition does not fit them: {why}{more}"
        ))
    }
}
