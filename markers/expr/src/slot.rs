//! The text of a slot: a filter, actions, or both; and what compiles it.

use crate::compile::Compiler;
use crate::error::{Error, Ty, What};
use crate::lex::Token;
use crate::operators::Binding;
use crate::program::{Action, ActionKind, Key, Place, Program};
use crate::shape::{FieldType, Shape};

/// A well-formed `["/" filter "/"] ["{" actions "}"]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotText<'t> {
    text: &'t str,
}

impl<'t> SlotText<'t> {
    /// Reads a text without knowing the fields it is for.
    ///
    /// # Errors
    ///
    /// When it breaks the grammar or exceeds a limit; also when types cannot fit whatever the fields
    /// are (`1 + 'a'`).
    pub fn parse(text: &'t str) -> Result<Self, Error<'t>> {
        slot(Compiler::new(&mut Program::new(text), None)?)?;
        Ok(Self { text })
    }

    /// The text.
    pub fn as_str(&self) -> &'t str {
        self.text
    }
}

impl<'t> Program<'t> {
    /// Compiles the text of a slot for a marker; for a span, for its begin and its end together.
    ///
    /// # Errors
    ///
    /// When it does not fit: it names a field that is not there, or uses one as what it is not.
    pub fn compile(text: SlotText<'t>, shape: &Shape<'_>) -> Result<Self, Error<'t>> {
        let mut program = Program::new(text.text);
        slot(Compiler::new(&mut program, Some(shape))?)?;
        Ok(program)
    }

    /// Reads and compiles the text of a slot where the program is to stay, with little of the stack.
    ///
    /// # Errors
    ///
    /// When it is malformed or does not fit; then `place` is `None`.
    pub fn compile_in(
        place: &mut Option<Self>,
        text: &'t str,
        shape: &Shape<'_>,
    ) -> Result<(), Error<'t>> {
        let program = place.insert(Program::new(text));
        let made = Compiler::new(program, Some(shape)).and_then(slot);
        if made.is_err() {
            *place = None;
        }
        made
    }

    /// Compiles a condition that stands alone, as behind `bootmark view --where`.
    ///
    /// # Errors
    ///
    /// When it is malformed or does not fit.
    pub fn condition(text: &'t str, shape: &Shape<'_>) -> Result<Self, Error<'t>> {
        let mut program = Program::new(text);
        condition(Compiler::new(&mut program, Some(shape))?)?;
        Ok(program)
    }

    /// Reads a condition without knowing the fields it is for.
    ///
    /// # Errors
    ///
    /// As [`SlotText::parse`].
    pub fn check_condition(text: &'t str) -> Result<(), Error<'t>> {
        condition(Compiler::new(&mut Program::new(text), None)?)
    }
}

fn condition<'t>(mut compiler: Compiler<'t, '_>) -> Result<(), Error<'t>> {
    let filter = compiler.condition(Token::End, "an operator or the end")?;
    compiler.program.filter = Some(filter);
    Ok(())
}

fn slot<'t>(mut compiler: Compiler<'t, '_>) -> Result<(), Error<'t>> {
    if compiler.next.token == Token::End {
        return compiler.error(compiler.next.start, What::Nothing);
    }
    if compiler.is_next("/") {
        compiler.take()?;
        let filter = compiler.condition(Token::Mark("/"), "an operator or `/`")?;
        compiler.program.filter = Some(filter);
        compiler.take()?;
    } else if !compiler.is_next("{") {
        return compiler.unexpected("`/` or `{`");
    }
    if compiler.is_next("{") {
        compiler.take()?;
        actions(&mut compiler)?;
        compiler.expect("}", "`,`, `by` or `}`")?;
    }
    match compiler.next.token {
        Token::End => Ok(()),
        _ => compiler.unexpected("`{` or the end"),
    }
}

fn actions<'t>(compiler: &mut Compiler<'t, '_>) -> Result<(), Error<'t>> {
    loop {
        let pos = compiler.next.start;
        let action = action(compiler)?;
        if compiler.program.actions.push(action).is_err() {
            return compiler.error(pos, What::Actions);
        }
        if !compiler.is_next(",") {
            break;
        }
        compiler.take()?;
    }
    if compiler.next.token != Token::Name("by") {
        return Ok(());
    }
    loop {
        // `by` or a comma.
        compiler.take()?;
        let pos = compiler.next.start;
        let Token::Name(name) = compiler.next.token else {
            return compiler.unexpected("the name of a field");
        };
        compiler.take()?;
        let key = key(compiler, name, pos)?;
        if compiler.program.keys.push(key).is_err() {
            return compiler.error(pos, What::Keys);
        }
        if !compiler.is_next(",") {
            return Ok(());
        }
    }
}

fn action<'t>(compiler: &mut Compiler<'t, '_>) -> Result<Action, Error<'t>> {
    let pos = compiler.next.start;
    let Token::Name(name) = compiler.next.token else {
        return compiler.unexpected("an action");
    };
    let (kind, op) = match name {
        "count" => (ActionKind::Count, "count"),
        "sum" => (ActionKind::Sum, "sum"),
        "min" => (ActionKind::Min, "min"),
        "max" => (ActionKind::Max, "max"),
        "avg" => (ActionKind::Avg, "avg"),
        "hist" => (ActionKind::Hist, "hist"),
        "record" => (ActionKind::Record, "record"),
        _ => return compiler.error(pos, What::Action(name)),
    };
    compiler.take()?;
    compiler.expect("(", "`(`")?;
    let mut action = Action {
        kind,
        float: false,
        value: None,
        text: (0, 0),
    };
    if !matches!(kind, ActionKind::Count | ActionKind::Record) {
        let operand = compiler.expression(Binding::Either)?;
        action.float = match operand.ty {
            Ty::Int | Ty::Any => false,
            Ty::Float => true,
            is @ (Ty::Bool | Ty::Str) => {
                let takes = "a number";
                return compiler.error(operand.pos, What::Type { op, takes, is });
            }
        };
        action.value = Some(compiler.end(operand));
    }
    action.text = place(pos, compiler.next.end);
    compiler.expect(")", "an operator or `)`")?;
    Ok(action)
}

fn key<'t>(compiler: &mut Compiler<'t, '_>, name: &'t str, pos: usize) -> Result<Key, Error<'t>> {
    if compiler.shape.is_none() {
        // Never read: there is no program without a shape.
        return Ok(Key {
            source: crate::shape::Source::Pid,
            ty: FieldType::U32,
            name: (0, 0),
        });
    }
    match compiler.source(name, pos)? {
        Some((source, field)) => match field.ty {
            FieldType::F32 | FieldType::F64 | FieldType::Bytes | FieldType::Clock => {
                compiler.error(pos, What::Key(name))
            }
            ty => Ok(Key {
                source,
                ty,
                name: place(pos, pos + name.len()),
            }),
        },
        None => compiler.error(pos, What::Unknown(name)),
    }
}

fn place(from: usize, to: usize) -> Place {
    // A text is shorter than MAX_TEXT.
    (from as u16, to as u16)
}
