//! The expressions of filters and of `view --where`, for people: which marker one does not fit, where and
//! why.

use expr::{Error, Field, Program, Shape, SlotText, What};
use markers::decode::{Kind, Marker, SPAN_END};

/// What is wrong with a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("position {pos}: {reason}")]
pub struct Misfit {
    /// Octets in front of it.
    pub pos: usize,
    /// In words.
    pub reason: String,
}

impl Misfit {
    /// From an error, which says more when the fields are known.
    pub fn new(error: &Error<'_>, shape: Option<&Shape<'_>>) -> Self {
        let reason = match (error.what, shape) {
            (What::Unknown(name), Some(shape)) => {
                let fields = shape.fields.iter().chain(shape.end);
                let names: Vec<_> = fields.map(|field| field.name).collect();
                match names.as_slice() {
                    [] => format!("no field is called `{name}`: there are none"),
                    names => format!("no field is called `{name}`; there are {}", names.join(" ")),
                }
            }
            (What::Label(name, label), Some(shape)) => {
                let fields = shape.fields.iter().chain(shape.end);
                let labels: Vec<_> = fields
                    .filter(|field| field.name == name)
                    .flat_map(Field::labels)
                    .map(|label| format!("'{label}'"))
                    .collect();
                let labels = labels.join(" ");
                format!("field `{name}` has no label '{label}'; it has {labels}")
            }
            (what, _) => what.to_string(),
        };
        Self {
            pos: error.pos,
            reason,
        }
    }

    /// With the text, and a caret under the position.
    pub fn with_caret(&self, text: &str) -> String {
        let before = text.get(..self.pos).unwrap_or(text);
        let blanks = " ".repeat(before.chars().count());
        format!("{}\n    {text}\n    {blanks}^", self.reason)
    }
}

/// The fields of a marker.
pub fn fields(marker: &Marker) -> Vec<Field<'_>> {
    marker
        .fields()
        .map(|field| field.in_expressions())
        .collect()
}

/// Whether the text of a slot, `["/" filter "/"] ["{" actions "}"]`, is well-formed.
///
/// # Errors
/// What is wrong with it.
pub fn check_slot_text(text: &str) -> Result<(), Misfit> {
    SlotText::parse(text)
        .map(|_| ())
        .map_err(|error| Misfit::new(&error, None))
}

/// Whether the text of a slot fits a marker, so that its filter is applied: `Ok(())` also for the end
/// of a span, which is decided about together with its begin.
///
/// # Errors
/// Why every event of the marker is recorded instead.
pub fn check_slot_fits(text: &str, marker: &Marker) -> Result<(), Misfit> {
    if marker.kind() == Kind::SpanEnd {
        return Ok(());
    }
    let span = marker.kind() == Kind::SpanBegin;
    let fields = fields(marker);
    let shape = Shape {
        fields: &fields,
        end: if span { &SPAN_END } else { &[] },
        dur: span,
        thread: true,
    };
    SlotText::parse(text)
        .and_then(|text| Program::compile(text, &shape))
        .map(|_| ())
        .map_err(|error| Misfit::new(&error, Some(&shape)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carets_stand_under_the_place() {
        let text = "/grö == 1 && = 2/";
        let misfit = check_slot_text(text).unwrap_err();
        let (line, caret) = (text, misfit.with_caret(text));
        let mut lines = caret.lines();
        assert_eq!(lines.next(), Some("unexpected character 'ö'"));
        assert_eq!(lines.next(), Some(format!("    {line}").as_str()));
        assert_eq!(lines.next(), Some("       ^"));
        let text = "/'grö' == '1' && = 2/";
        let caret = check_slot_text(text).unwrap_err().with_caret(text);
        assert_eq!(caret.lines().nth(2), Some("                     ^"));
    }
}
