//! The trace directory: what it is made of, how it is written and how it is read.
//!
//! | module | role |
//! | --- | --- |
//! | [`packet`] | packets and the records in them |
//! | [`marker`] | descriptors and the payloads that they describe |
//! | [`meta`] | the meta stream: clock, modules, markers, processes |
//! | [`clock`] | readings of the trace clock as nanoseconds since boot |
//! | [`open`] | spans that have not ended yet |
//! | [`tsdl`] | the CTF 1.8 metadata |
//! | [`layout`] | names of the files |
//! | [`reader`] | events of a directory in the order of time |

pub mod clock;
pub mod layout;
pub mod marker;
pub mod meta;
pub mod open;
pub mod packet;
pub mod reader;
pub mod tsdl;
