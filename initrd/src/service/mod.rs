//! Services of the demo image: what they are, in which order they start, how they run.

pub mod graph;
pub mod spawn;
pub mod supervisor;
pub mod table;
