//! A marker as the meta stream names it: its descriptor, with the id that its records carry.

use std::ops::Deref;

use markers::decode::{self, DescriptorError, Kind};

/// A marker that the kernel gave an event id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// The id in records.
    pub id: u32,
    /// The module that holds it, 0 for the kernel.
    pub module: u32,
    /// `provider:name`.
    pub full_name: String,
    descriptor: decode::Marker,
}

impl Marker {
    /// Reads a descriptor.
    ///
    /// # Errors
    /// When it breaks the ABI's rules, or its version is newer.
    pub fn parse(id: u32, module: u32, descriptor: &[u8]) -> Result<Self, DescriptorError> {
        let descriptor = decode::Marker::parse(descriptor)?;
        Ok(Self {
            id,
            module,
            full_name: descriptor.to_string(),
            descriptor,
        })
    }
}

impl Deref for Marker {
    type Target = decode::Marker;

    fn deref(&self) -> &decode::Marker {
        &self.descriptor
    }
}

/// Name of a kind in what people and programs read.
pub fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Instant => "instant",
        Kind::SpanBegin => "begin",
        Kind::SpanEnd => "end",
        Kind::Counter => "counter",
    }
}
