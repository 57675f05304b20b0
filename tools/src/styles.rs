//! Colours.

use anstyle::{AnsiColor, Style};

/// How parts of the output look; without colours none writes anything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Styles {
    /// Times.
    pub time: Style,
    /// Threads and CPUs.
    pub who: Style,
    /// Headings and names.
    pub name: Style,
    /// What went wrong.
    pub bad: Style,
}

impl Styles {
    /// With colours or without.
    pub fn new(coloured: bool) -> Self {
        if !coloured {
            return Self::default();
        }
        Self {
            time: AnsiColor::Green.on_default(),
            who: AnsiColor::Yellow.on_default(),
            name: Style::new().bold(),
            bad: AnsiColor::Red.on_default(),
        }
    }
}
