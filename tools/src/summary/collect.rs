//! One pass over the events of a trace.

use std::collections::{BTreeMap, HashMap, VecDeque};

use bootbuf::abi::{
    LOST_MEMORY, LOST_POOL, LOST_PROCESS, LOST_USER, MetaLost, PacketHeader, STREAM_CPU,
};
use markers::decode::Kind;

use super::processes::{self, Processes};
use super::spans::{self, Slowest, Span, Stage};
use super::{Aggregation, End, Pid1, Stream, Summary};
use crate::aggregate::tables;
use crate::extract::check::LeftOut;
use crate::styles::Styles;
use crate::trace::layout;
use crate::trace::meta::Meta;
use crate::trace::open::{OpenSpans, Place};
use crate::trace::reader::{Event, Trace};
use crate::trace::tsdl;
use crate::units::total;
use crate::view::{span_begin, text};

const INITCALL: &str = "kernel:initcall";

/// Spans of PID 1 that are kept at most: more is no summary.
const MAX_STAGES: usize = 10_000;

/// Reads a trace, and keeps the `top` slowest of each kind.
pub fn collect(trace: &Trace, top: usize) -> Summary {
    let mut pass = Pass::new(&trace.meta, top);
    let mut events = trace.events();
    let mut counts: Vec<u64> = Vec::new();
    let mut last = VecDeque::new();
    while let Some(event) = events.next_event() {
        if counts.len() <= event.stream {
            counts.resize(event.stream + 1, 0);
        }
        counts[event.stream] += 1;
        pass.event(&event);
        // How a boot came to die is what one wants to know first of it.
        if trace.meta.previous && top != 0 {
            if last.len() == top {
                last.pop_front();
            }
            last.push_back(line(&event, &trace.meta));
        }
    }
    let mut summary = pass.finish();
    summary.boot_id = tsdl::uuid(&trace.meta.boot_id.unwrap_or_default());
    summary.machine = trace.notes.machine.clone();
    summary.previous = trace.meta.previous;
    summary.end = trace.meta.end.as_ref().map(|end| End {
        how: if end.panic { "panic" } else { "shutdown" },
        text: end.text.clone(),
        ns: trace.meta.clock.ns(end.reading),
    });
    summary.last_events = last.into();
    for packets in trace.notes.left_out.values() {
        packets
            .values()
            .for_each(|packet: &LeftOut| summary.left_out.add(packet));
    }
    let mut books = Books {
        trace,
        told: trace.meta.lost.clone(),
        streams: Vec::new(),
    };
    for (index, stream) in events.streams.iter().enumerate() {
        let file = stream.file.file_name().unwrap_or_default();
        let file = file.to_string_lossy().into_owned();
        let events = counts.get(index).copied().unwrap_or(0);
        books.add(file, &stream.last, events);
    }
    let (tables, found) = tables::collect(trace, |_, _| true);
    summary.aggregations = tables
        .iter()
        .map(|table| Aggregation {
            event: table.layout.marker.full_name.clone(),
            aggregation: table.layout.text.to_owned(),
            events: table.count(),
            rows: table.rows().len(),
        })
        .collect();
    for (file, last) in found.streams {
        books.add(file, &last, 0);
    }
    summary.streams = books.finish();
    summary.events = total(summary.streams.iter().map(|stream| stream.events));
    summary.lost = total(summary.streams.iter().map(|stream| stream.lost));
    summary.overwritten = total(summary.streams.iter().map(|stream| stream.overwritten));
    summary.meta_lost = trace.meta.left_out;
    summary.damage = trace
        .damage
        .iter()
        .chain(&events.damage)
        .chain(&found.damage)
        .map(ToString::to_string)
        .collect();
    summary
}

/// What became of the events of each stream.
struct Books<'a> {
    trace: &'a Trace,
    /// What the meta stream tells and was not asked for yet.
    told: BTreeMap<u64, MetaLost>,
    streams: Vec<Stream>,
}

impl Books<'_> {
    /// A stream with packets.
    fn add(&mut self, file: String, last: &PacketHeader, events: u64) {
        let instance = last.stream_instance;
        let told = self.told.remove(&instance);
        let left_out = self.trace.notes.lost_of(instance);
        self.streams.push(Stream {
            file: Some(file),
            pid: last.pid,
            tid: last.tid,
            comm: layout::comm(&last.comm),
            threads: 1,
            events,
            lost: self.trace.meta.lost_of(instance, last.discarded, left_out),
            overwritten: told.map_or(0, |told| told.overwritten),
            why: told.and_then(|told| why(told.why)),
        });
    }

    /// All of them, with those that lost everything.
    fn finish(mut self) -> Vec<Stream> {
        let told = self.told.into_values().filter(|told| told.lost != 0);
        self.streams.extend(told.map(|told| Stream {
            file: None,
            pid: told.pid,
            tid: told.tid,
            comm: layout::comm(&told.comm),
            threads: told.threads,
            events: 0,
            lost: told.lost,
            overwritten: told.overwritten,
            why: why(told.why),
        }));
        self.streams
    }
}

fn why(why: u32) -> Option<&'static str> {
    match why {
        LOST_PROCESS => Some("its process had its share of the buffers"),
        LOST_USER => Some("its user had its share of the buffers"),
        LOST_POOL => Some("the buffers were full"),
        LOST_MEMORY => Some("it had no memory or address space left"),
        _ => None,
    }
}

fn line(event: &Event<'_>, meta: &Meta) -> String {
    let mut line = Vec::new();
    // Writing to memory does not fail.
    let _ = text::write(&mut line, event, &meta.clock, &Styles::default());
    String::from_utf8_lossy(&line).trim_end().to_owned()
}

struct Pass<'a> {
    meta: &'a Meta,
    /// Numbers of names, the same for the two markers of a span.
    names: HashMap<&'a str, usize>,
    summary: Summary,
    open: OpenSpans<String>,
    slowest_spans: Slowest,
    slowest_initcalls: Slowest,
    processes: Processes,
    /// PID 1's spans by stream.
    stages: HashMap<usize, Vec<Stage>>,
    stage_count: usize,
    pid1_streams: Vec<usize>,
}

impl<'a> Pass<'a> {
    fn new(meta: &'a Meta, top: usize) -> Self {
        let mut names = HashMap::new();
        for marker in meta.markers.values() {
            let next = names.len();
            names.entry(marker.full_name.as_str()).or_insert(next);
        }
        Self {
            meta,
            names,
            summary: Summary::default(),
            open: OpenSpans::default(),
            slowest_spans: Slowest::new(top),
            slowest_initcalls: Slowest::new(top),
            processes: Processes::default(),
            stages: HashMap::new(),
            stage_count: 0,
            pid1_streams: Vec::new(),
        }
    }

    fn event(&mut self, event: &Event<'_>) {
        self.summary.first_ns.get_or_insert(event.ns);
        self.summary.last_ns = Some(event.ns);
        let kernel = event.header.stream_id == STREAM_CPU;
        if kernel {
            self.processes.kernel_event(event);
            let exec = event.marker.full_name == "kernel:sched_process_exec";
            if exec && processes::pid(event, "pid") == Some(1) {
                self.summary.pid1.exec_ns.get_or_insert(event.ns);
            }
        } else {
            self.processes.user_event(event);
            if event.header.pid == 1 {
                self.summary.pid1.first_event_ns.get_or_insert(event.ns);
                if !self.pid1_streams.contains(&event.stream) {
                    self.pid1_streams.push(event.stream);
                }
            }
        }
        let place = Place::of(event);
        let name = self.names[event.marker.full_name.as_str()];
        match event.marker.kind() {
            Kind::SpanBegin => {
                let fields = text::plain_fields(event, &self.meta.clock);
                self.open.begin(place, event.timestamp, name, fields);
            }
            Kind::SpanEnd => {
                if let Some(begin) = span_begin(event) {
                    self.span(event, begin, place, name);
                }
            }
            Kind::Instant | Kind::Counter => {}
        }
    }

    fn span(&mut self, event: &Event<'_>, begin: u64, place: Place, name: usize) {
        let clock = &self.meta.clock;
        let mut fields = self.open.end(place, begin, name).unwrap_or_default();
        let dur_ns = clock.span_ns(begin, event.timestamp);
        let initcall = event.marker.full_name == INITCALL;
        if initcall {
            self.summary.initcalls += 1;
            self.summary.initcalls_ns = self.summary.initcalls_ns.saturating_add(dur_ns);
        }
        let slowest = if initcall {
            &mut self.slowest_initcalls
        } else {
            &mut self.slowest_spans
        };
        let pid1 = place != Place::Kernel && event.header.pid == 1;
        if !pid1 && !slowest.wants(dur_ns) {
            return;
        }
        let end_fields = text::plain_fields(event, clock);
        // The end may repeat what the begin said, as the kernel's initcalls do.
        if !fields.contains(&end_fields) {
            if fields.is_empty() || end_fields.starts_with(&fields) {
                fields = end_fields;
            } else {
                fields = format!("{fields}, {end_fields}");
            }
        }
        let begin_ns = clock.ns(begin);
        let full_name = event.marker.full_name.clone();
        if slowest.wants(dur_ns) {
            let who = match place {
                Place::Kernel => format!("cpu {}", event.header.cpu),
                Place::Thread(_) => layout::comm(&event.header.comm),
            };
            let pid = event.header.pid;
            slowest.add(Span {
                dur_ns,
                begin_ns,
                event: full_name.clone(),
                fields: fields.clone(),
                who,
                pid,
            });
        }
        if pid1 {
            let stage = Stage {
                event: full_name,
                fields,
                begin_ns,
                dur_ns: Some(dur_ns),
                stages: Vec::new(),
            };
            self.stage(event.stream, stage);
        }
    }

    fn stage(&mut self, stream: usize, stage: Stage) {
        if self.stage_count < MAX_STAGES {
            self.stage_count += 1;
            self.stages.entry(stream).or_default().push(stage);
        } else {
            self.summary.pid1.stages_left_out += 1;
        }
    }

    fn finish(mut self) -> Summary {
        let names: HashMap<usize, &str> = self
            .names
            .iter()
            .map(|(&name, &number)| (number, name))
            .collect();
        for (place, begin, name, fields) in std::mem::take(&mut self.open).into_open() {
            let Place::Thread(stream) = place else {
                continue;
            };
            if self.pid1_streams.contains(&stream) {
                let begin_ns = self.meta.clock.ns(begin);
                let event = names.get(&name).copied().unwrap_or_default().to_owned();
                self.stage(
                    stream,
                    Stage {
                        event,
                        fields,
                        begin_ns,
                        dur_ns: None,
                        stages: Vec::new(),
                    },
                );
            }
        }
        let mut summary = self.summary;
        let mut stages: Vec<Stage> = self.stages.into_values().flat_map(spans::nest).collect();
        stages.sort_by_key(|stage| stage.begin_ns);
        summary.pid1 = Pid1 {
            stages,
            ..summary.pid1
        };
        summary.slowest_spans = self.slowest_spans.into_vec();
        summary.slowest_initcalls = self.slowest_initcalls.into_vec();
        summary.processes = self.processes.finish(self.meta);
        summary
    }
}
