//! Aggregations as tables with bars.

use std::io::{self, Write};

use expr::ActionKind;
use markers::abi::{HINT_NSECS, HINT_SIZE};
use markers::decode::decode_fields;

use super::layout::Action;
use super::tables::{Row, Table, Tables, Total, bucket_range};
use crate::styles::Styles;
use crate::trace::clock::Clock;
use crate::units::{Duration, Octets};
use crate::view::text::ShownValue;

/// Columns of the longest bar.
const BAR: usize = 40;

/// What bars are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bars {
    /// Blocks, to an eighth of a column.
    Unicode,
    /// `#`, to a column.
    Ascii,
}

impl Bars {
    /// What the locale in the environment can show.
    pub fn of_locale() -> Self {
        let set = ["LC_ALL", "LC_CTYPE", "LANG"].map(std::env::var);
        let mut set = set.into_iter().flatten().filter(|value| !value.is_empty());
        let utf8 = set.next().is_some_and(|value| {
            let value = value.to_ascii_lowercase();
            value.contains("utf-8") || value.contains("utf8")
        });
        if utf8 { Self::Unicode } else { Self::Ascii }
    }

    /// A bar for `part` of `whole`; one that stands for anything is never empty.
    fn draw(self, part: u64, whole: u64) -> String {
        if part == 0 || whole == 0 {
            return String::new();
        }
        let eighths = (u128::from(part) * 8 * BAR as u128).div_ceil(whole.into()) as usize;
        match self {
            Self::Ascii => "#".repeat(eighths.div_ceil(8)),
            Self::Unicode => {
                const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
                "█".repeat(eighths / 8) + PARTS[eighths % 8]
            }
        }
    }
}

/// How to write.
#[derive(Clone, Copy, Debug)]
pub struct Look<'a> {
    /// Colours.
    pub styles: &'a Styles,
    /// Bars.
    pub bars: Bars,
    /// To show values.
    pub clock: &'a Clock,
}

/// Writes all tables.
///
/// # Errors
/// When the output refuses.
pub fn write(out: &mut impl Write, tables: &Tables<'_>, look: &Look<'_>) -> io::Result<()> {
    for (number, table) in tables.iter().enumerate() {
        if number != 0 {
            writeln!(out)?;
        }
        one(out, table, look)?;
    }
    Ok(())
}

fn one(out: &mut impl Write, table: &Table<'_>, look: &Look<'_>) -> io::Result<()> {
    let layout = &table.layout;
    let name = look.styles.name;
    writeln!(
        out,
        "{name}{}{name:#} {}",
        layout.marker.full_name, layout.text
    )?;
    let (events, pids) = (table.count(), table.pids.len());
    let plural = |n: u64| if n == 1 { "" } else { "s" };
    writeln!(
        out,
        "  {events} event{} in {pids} process{}",
        plural(events),
        if pids == 1 { "" } else { "es" }
    )?;
    let rows = table.rows();
    let plain = || {
        let valued = layout.valued().enumerate();
        valued.filter(|(_, action)| action.kind != ActionKind::Hist)
    };
    if !layout.keys.is_empty() || plain().next().is_some() {
        grid(out, table, &rows, look, plain)?;
    }
    for (index, action) in layout.valued().enumerate() {
        if action.kind != ActionKind::Hist {
            continue;
        }
        for (key, row) in &rows {
            if let Some(Total::Hist(buckets)) = row.values.get(index) {
                histogram(out, table, action, key, &buckets[..], look)?;
            }
        }
    }
    Ok(())
}

/// The rows with everything but their histograms.
fn grid<'t, 'a: 't, I>(
    out: &mut impl Write,
    table: &'t Table<'a>,
    rows: &[(&[u8], &Row)],
    look: &Look<'_>,
    plain: impl Fn() -> I,
) -> io::Result<()>
where
    I: Iterator<Item = (usize, &'t Action<'a>)>,
{
    let keys = table.layout.keys.len();
    let mut head: Vec<String> = table
        .layout
        .keys
        .iter()
        .map(|key| key.name.to_owned())
        .collect();
    head.push("count".into());
    head.extend(plain().map(|(_, action)| action.text.to_owned()));
    let mut lines = vec![head];
    for (key, row) in rows {
        let mut line = shown_keys(table, key, look.clock);
        line.resize(keys, String::new());
        line.push(row.count.to_string());
        line.extend(plain().map(|(index, action)| {
            let total = row.values.get(index);
            total.map_or(String::new(), |total| shown(action, total, row.count))
        }));
        lines.push(line);
    }
    let columns = lines[0].len();
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            let cells = lines.iter().map(|line| line[column].chars().count());
            cells.max().unwrap_or(0)
        })
        .collect();
    let whole = rows.iter().map(|(_, row)| row.count).max().unwrap_or(0);
    let name = look.styles.name;
    for (number, line) in lines.iter().enumerate() {
        let mut text = String::from(" ");
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            let blanks = " ".repeat(width - cell.chars().count());
            text += " ";
            // Keys to the left, numbers to the right.
            text += &if column < keys {
                format!("{cell}{blanks}")
            } else {
                format!("{blanks}{cell}")
            };
            text += " ";
        }
        match number.checked_sub(1) {
            None => writeln!(out, "{name}{}{name:#}", text.trim_end())?,
            Some(row) => {
                let bar = look.bars.draw(rows[row].1.count, whole);
                writeln!(out, "{}", format!("{text} {bar}").trim_end())?;
            }
        }
    }
    Ok(())
}

fn shown_keys(table: &Table<'_>, key: &[u8], clock: &Clock) -> Vec<String> {
    decode_fields(table.layout.keys.iter().copied(), key)
        .flatten()
        .map(|(field, value)| {
            let field = &field;
            ShownValue {
                field,
                value,
                clock,
            }
            .to_string()
        })
        .collect()
}

fn histogram(
    out: &mut impl Write,
    table: &Table<'_>,
    action: &Action<'_>,
    key: &[u8],
    buckets: &[u64],
    look: &Look<'_>,
) -> io::Result<()> {
    let names = table.layout.keys.iter().map(|key| key.name);
    let values = shown_keys(table, key, look.clock);
    let of: Vec<_> = names
        .zip(values)
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let name = look.styles.name;
    writeln!(
        out,
        "  {name}{}{name:#}{}{}",
        action.text,
        if of.is_empty() { "" } else { ", " },
        of.join(", ")
    )?;
    let used = |&(_, count): &(usize, &u64)| *count != 0;
    let numbered = || buckets.iter().enumerate();
    let (Some((first, _)), Some((last, _))) = (numbered().find(used), numbered().rfind(used))
    else {
        return Ok(());
    };
    let whole = buckets.iter().copied().max().unwrap_or(0);
    let ranges: Vec<_> = (first..=last)
        .map(|bucket| (shown_range(action.hint, bucket), buckets[bucket]))
        .collect();
    let wide = |width: fn(&(String, u64)) -> usize| ranges.iter().map(width).max().unwrap_or(0);
    let range_width = wide(|(range, _)| range.chars().count());
    let count_width = wide(|(_, count)| count.to_string().len());
    for (range, count) in &ranges {
        let bar = look.bars.draw(*count, whole);
        let line = format!("    {range:>range_width$}  {count:>count_width$}  {bar}");
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

fn shown_range(hint: u8, bucket: usize) -> String {
    match bucket_range(bucket) {
        _ if bucket == 0 => "below 1".into(),
        (from, to) if from == to => number(hint, from.into()),
        (from, to) => format!(
            "{} to {}",
            number(hint, from.into()),
            number(hint, to.into())
        ),
    }
}

fn shown(action: &Action<'_>, total: &Total, count: u64) -> String {
    match total {
        _ if action.kind == ActionKind::Avg => {
            let mean = total.mean(count);
            if action.hint == HINT_NSECS || action.hint == HINT_SIZE {
                number(action.hint, mean.round() as i128)
            } else {
                format!("{mean:.2}")
            }
        }
        Total::Int(value) => number(action.hint, *value),
        Total::Float(value) => value.to_string(),
        Total::Hist(_) => String::new(),
    }
}

/// An integer with its unit, when it has one.
fn number(hint: u8, value: i128) -> String {
    match (hint, u64::try_from(value)) {
        (HINT_NSECS, Ok(ns)) => Duration(ns).to_string(),
        (HINT_SIZE, Ok(octets)) => Octets(octets).to_string(),
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_in_proportion_and_never_empty_for_something() {
        assert_eq!(Bars::Ascii.draw(0, 10), "");
        assert_eq!(Bars::Ascii.draw(10, 10).len(), BAR);
        assert_eq!(Bars::Ascii.draw(5, 10).len(), BAR / 2);
        assert_eq!(Bars::Ascii.draw(1, u64::MAX), "#");
        assert_eq!(Bars::Unicode.draw(1, u64::MAX), "▏");
        assert_eq!(Bars::Unicode.draw(u64::MAX, u64::MAX).chars().count(), BAR);
    }

    #[test]
    fn ranges_have_units() {
        assert_eq!(shown_range(HINT_NSECS, 11), "1.024 us to 2.047 us");
        assert_eq!(shown_range(HINT_SIZE, 13), "4.0 KiB to 8.0 KiB");
        assert_eq!(shown_range(0, 0), "below 1");
        assert_eq!(shown_range(0, 1), "1");
        assert_eq!(shown_range(0, 3), "4 to 7");
        assert!(shown_range(0, 63).ends_with(&i64::MAX.to_string()));
    }
}
