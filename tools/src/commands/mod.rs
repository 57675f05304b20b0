//! One module a command: from arguments to output and exit status.

pub mod extract;
pub mod help;
pub mod list;
pub mod rules;
pub mod status;
pub mod summary;
pub mod verify;
pub mod view;
