//! Aggregations: from the cells of all threads to tables.
//!
//! | module | role |
//! | --- | --- |
//! | [`layout`] | what the octets of a cell mean |
//! | [`cells`] | the cells in a trace directory |
//! | [`tables`] | adding them up |
//! | [`text`] | tables with bars |
//! | [`json`] | one object a row |

pub mod cells;
pub mod json;
pub mod layout;
pub mod tables;
pub mod text;
