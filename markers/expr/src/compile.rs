//! From text to program, in one pass: precedence climbing that emits operations as it reads.
//!
//! Without a shape the text alone is checked: names may be anything, and what can be said of types
//! without knowing them is said.

use crate::error::{Error, Ty, What};
use crate::glob;
use crate::lex::{self, Lexeme, Token};
use crate::operators::{Binary, Binding, Op};
use crate::program::Program;
use crate::shape::{Field, FieldType, Part, Shape, Source};
use crate::{MAX_NESTING, MAX_STACK, MAX_TEXT, errno};

/// A text being read.
pub(crate) struct Compiler<'t, 's> {
    /// Where it is made: it is large for a stack that may be a signal handler's.
    pub(crate) program: &'s mut Program<'t>,
    pub(crate) shape: Option<&'s Shape<'s>>,
    /// The token that comes next.
    pub(crate) next: Lexeme<'t>,
    nesting: usize,
    /// Values on the stack behind the operations emitted so far.
    height: usize,
}

/// A value that operations emitted so far leave on the stack.
#[derive(Clone, Copy)]
pub(crate) struct Operand<'t> {
    pub(crate) ty: Ty,
    /// Its first operation.
    pub(crate) first: u8,
    /// Where it stands in the text.
    pub(crate) pos: usize,
    kind: Kind<'t>,
}

#[derive(Clone, Copy)]
enum Kind<'t> {
    /// Nothing special.
    Computed,
    /// A string of the text, as the only operation.
    Literal(&'t str),
    /// An enumeration field, likewise.
    Labelled(Part, u8),
}

type Result<'t, T> = core::result::Result<T, Error<'t>>;

impl<'t, 's> Compiler<'t, 's> {
    /// Begins to read the text of a new program.
    pub(crate) fn new(
        program: &'s mut Program<'t>,
        shape: Option<&'s Shape<'s>>,
    ) -> Result<'t, Self> {
        let text = program.text;
        if text.len() > MAX_TEXT {
            return Err(Error {
                pos: MAX_TEXT,
                what: What::TooLong,
            });
        }
        Ok(Self {
            program,
            shape,
            next: lex::next(text, 0)?,
            nesting: 0,
            height: 0,
        })
    }

    /// Takes the token that comes next.
    pub(crate) fn take(&mut self) -> Result<'t, Lexeme<'t>> {
        let taken = self.next;
        self.next = lex::next(self.program.text, taken.end)?;
        Ok(taken)
    }

    pub(crate) fn is_next(&self, mark: &str) -> bool {
        matches!(self.next.token, Token::Mark(next) if next == mark)
    }

    /// Takes `mark`, which `name` describes.
    pub(crate) fn expect(&mut self, mark: &str, name: &'static str) -> Result<'t, ()> {
        if !self.is_next(mark) {
            return self.unexpected(name);
        }
        self.take().map(|_| ())
    }

    /// Complains about the token that comes next.
    pub(crate) fn unexpected<T>(&self, expected: &'static str) -> Result<'t, T> {
        let found = lex::found(self.program.text, &self.next);
        self.error(self.next.start, What::Expected(expected, found))
    }

    pub(crate) fn error<T>(&self, pos: usize, what: What<'t>) -> Result<'t, T> {
        Err(Error { pos, what })
    }

    /// A whole condition, up to `end`, which `expected` describes; its operations.
    pub(crate) fn condition(
        &mut self,
        end: Token<'_>,
        expected: &'static str,
    ) -> Result<'t, (u8, u8)> {
        let operand = self.expression(Binding::Either)?;
        if self.next.token != end {
            return self.unexpected(expected);
        }
        match operand.ty {
            Ty::Bool | Ty::Any => Ok(self.end(operand)),
            other => self.error(operand.pos, What::NoCondition(other)),
        }
    }

    /// The operations of a whole expression, whose value is then used up.
    pub(crate) fn end(&mut self, operand: Operand<'t>) -> (u8, u8) {
        self.height = 0;
        (operand.first, self.here())
    }

    fn here(&self) -> u8 {
        // At most MAX_OPS.
        self.program.ops.len() as u8
    }

    /// Appends an operation that takes `takes` values and leaves one.
    fn emit(&mut self, pos: usize, op: Op, takes: usize) -> Result<'t, ()> {
        self.height = self.height.saturating_sub(takes) + 1;
        if self.height > MAX_STACK {
            return self.error(pos, What::Stack);
        }
        match self.program.ops.push(op) {
            Ok(()) => Ok(()),
            Err(_) => self.error(pos, What::Operations),
        }
    }

    /// Operators that bind as `loosest` or tighter, and their operands.
    pub(crate) fn expression(&mut self, loosest: Binding) -> Result<'t, Operand<'t>> {
        let mut left = if self.is_next("!") {
            self.negation(loosest)?
        } else {
            self.unary()?
        };
        let mut compared = false;
        loop {
            let Token::Mark(mark) = self.next.token else {
                return Ok(left);
            };
            let (operator, binding) = match mark {
                "||" => (None, Binding::Either),
                "&&" => (None, Binding::Both),
                _ => match Binary::of(mark) {
                    Some((operator, binding)) => (Some(operator), binding),
                    None => return Ok(left),
                },
            };
            if binding < loosest {
                return Ok(left);
            }
            if binding == Binding::Comparison && compared {
                return self.error(self.next.start, What::Chain);
            }
            compared = binding == Binding::Comparison;
            self.take()?;
            left = match operator {
                None => self.short_circuit(left, binding, mark)?,
                Some(operator) => {
                    let right = match binding.tighter() {
                        Some(tighter) => self.expression(tighter)?,
                        None if self.is_next("!") => self.negation(Binding::Product)?,
                        None => self.unary()?,
                    };
                    self.binary(operator, left, right)?
                }
            };
        }
    }

    fn short_circuit(
        &mut self,
        left: Operand<'t>,
        binding: Binding,
        mark: &'static str,
    ) -> Result<'t, Operand<'t>> {
        self.truth(left, mark)?;
        let jump = self.program.ops.len();
        let value = binding == Binding::Either;
        // Takes the left value when it does not jump.
        self.emit(left.pos, Op::JumpIf { value, to: 0 }, 1)?;
        self.height -= 1;
        let right = self.expression(binding.tighter().unwrap_or(Binding::Product))?;
        self.truth(right, mark)?;
        let to = self.here();
        if let Some(op) = self.program.ops.get_mut(jump) {
            *op = Op::JumpIf { value, to };
        }
        Ok(Operand {
            ty: if left.ty == Ty::Any || right.ty == Ty::Any {
                Ty::Any
            } else {
                Ty::Bool
            },
            kind: Kind::Computed,
            ..left
        })
    }

    fn truth(&self, operand: Operand<'t>, op: &'static str) -> Result<'t, ()> {
        let takes = "truth values";
        self.of_type(operand, op, takes, &[Ty::Bool])
    }

    fn of_type(
        &self,
        operand: Operand<'t>,
        op: &'static str,
        takes: &'static str,
        types: &[Ty],
    ) -> Result<'t, ()> {
        let is = operand.ty;
        if is == Ty::Any || types.contains(&is) {
            return Ok(());
        }
        self.error(operand.pos, What::Type { op, takes, is })
    }

    /// What stands behind a sign or an opening parenthesis, one level deeper.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<'t, T>) -> Result<'t, T> {
        let pos = self.take()?.start;
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            return self.error(pos, What::Nesting);
        }
        let value = read(self)?;
        self.nesting -= 1;
        Ok(value)
    }

    fn negation(&mut self, loosest: Binding) -> Result<'t, Operand<'t>> {
        let pos = self.next.start;
        if loosest > Binding::Comparison {
            return self.error(pos, What::Not);
        }
        let operand = self.nested(|this| this.expression(Binding::Comparison))?;
        self.truth(operand, "!")?;
        self.emit(pos, Op::Not, 1)?;
        Ok(Operand {
            pos,
            kind: Kind::Computed,
            ..operand
        })
    }

    fn unary(&mut self) -> Result<'t, Operand<'t>> {
        let Lexeme { token, start, .. } = self.next;
        let computed = |ty, first| Operand {
            ty,
            first,
            pos: start,
            kind: Kind::Computed,
        };
        let first = self.here();
        match token {
            Token::Mark("-") => {
                let operand = self.nested(Self::unary)?;
                self.of_type(operand, "-", "numbers", &[Ty::Int, Ty::Float])?;
                self.emit(start, Op::Negate, 1)?;
                Ok(computed(operand.ty, first))
            }
            Token::Mark("(") => {
                let operand = self.nested(|this| {
                    let operand = this.expression(Binding::Either)?;
                    this.expect(")", "an operator or `)`")?;
                    Ok(operand)
                })?;
                Ok(Operand {
                    pos: start,
                    ..operand
                })
            }
            Token::Int(value) => {
                self.take()?;
                self.emit(start, Op::Int(value), 0)?;
                Ok(computed(Ty::Int, first))
            }
            Token::Float(value) => {
                self.take()?;
                self.emit(start, Op::Float(value), 0)?;
                Ok(computed(Ty::Float, first))
            }
            Token::Str(string) => {
                self.take()?;
                // A text has at most MAX_TEXT octets.
                let op = Op::Str {
                    start: start as u16 + 1,
                    len: string.len() as u16,
                };
                self.emit(start, op, 0)?;
                Ok(Operand {
                    kind: Kind::Literal(string),
                    ..computed(Ty::Str, first)
                })
            }
            Token::Name(name) => {
                self.take()?;
                let (op, ty, kind) = self.name(name, start)?;
                self.emit(start, op, 0)?;
                Ok(Operand {
                    kind,
                    ..computed(ty, first)
                })
            }
            Token::Mark(_) | Token::End => self.unexpected("a value"),
        }
    }

    /// What a name stands for.
    fn name(&mut self, name: &'t str, pos: usize) -> Result<'t, (Op, Ty, Kind<'t>)> {
        match name {
            "true" => return Ok((Op::Bool(true), Ty::Bool, Kind::Computed)),
            "false" => return Ok((Op::Bool(false), Ty::Bool, Kind::Computed)),
            _ => {}
        }
        if self.shape.is_none() {
            // As good as any: these operations are never run.
            return Ok((Op::Load(Source::Pid), Ty::Any, Kind::Computed));
        }
        match self.source(name, pos)? {
            Some((source, field)) => {
                let ty = match field.ty {
                    FieldType::Str => Ty::Str,
                    FieldType::Bool => Ty::Bool,
                    FieldType::F32 | FieldType::F64 => Ty::Float,
                    FieldType::Bytes => return self.error(pos, What::Bytes(name)),
                    FieldType::Clock => return self.error(pos, What::Clock(name)),
                    _ => Ty::Int,
                };
                let kind = match source {
                    Source::Field(part, index) if !field.labels.is_empty() => {
                        Kind::Labelled(part, index)
                    }
                    _ => Kind::Computed,
                };
                Ok((Op::Load(source), ty, kind))
            }
            None => match errno::number(name) {
                Some(number) => Ok((Op::Int(number.into()), Ty::Int, Kind::Computed)),
                None => self.error(pos, What::Unknown(name)),
            },
        }
    }

    /// The field or the part of the context that a name stands for, which the program then uses.
    pub(crate) fn source(
        &mut self,
        name: &'t str,
        pos: usize,
    ) -> Result<'t, Option<(Source, Field<'s>)>> {
        let Some(shape) = self.shape else {
            return Ok(None);
        };
        let (source, field) = if let Some((part, index, field)) = shape.find(name) {
            (Source::Field(part, index), *field)
        } else if let Some(source) = Source::context(name) {
            let ty = match source {
                Source::Dur if !shape.dur => return self.error(pos, What::NoDuration),
                Source::Dur => FieldType::U64,
                _ if !shape.thread => return self.error(pos, What::NoThread(name)),
                Source::Comm => FieldType::Str,
                _ => FieldType::U32,
            };
            (source, Field::new("", ty))
        } else {
            return Ok(None);
        };
        let fields = match source {
            Source::Field(part, _) => shape.part(part),
            _ => &[],
        };
        self.program
            .uses(source, fields.iter().map(|field| field.ty));
        Ok(Some((source, field)))
    }

    fn binary(
        &mut self,
        operator: Binary,
        left: Operand<'t>,
        right: Operand<'t>,
    ) -> Result<'t, Operand<'t>> {
        let op = operator.mark();
        let ty = match operator {
            Binary::Add | Binary::Sub | Binary::Mul => {
                for operand in [left, right] {
                    self.of_type(operand, op, "numbers", &[Ty::Int, Ty::Float])?;
                }
                match (left.ty, right.ty) {
                    (Ty::Any, _) | (_, Ty::Any) => Ty::Any,
                    (Ty::Int, Ty::Int) => Ty::Int,
                    _ => Ty::Float,
                }
            }
            Binary::Or | Binary::And | Binary::Shl | Binary::Shr => {
                for operand in [left, right] {
                    self.of_type(operand, op, "integers", &[Ty::Int])?;
                }
                Ty::Int
            }
            _ => {
                if let Some(compared) = self.with_label(operator, left, right)? {
                    return Ok(compared);
                }
                self.comparable(operator, left, right)?;
                Ty::Bool
            }
        };
        self.emit(left.pos, Op::Binary(operator), 2)?;
        Ok(Operand {
            ty,
            kind: Kind::Computed,
            ..left
        })
    }

    fn comparable(
        &self,
        operator: Binary,
        left: Operand<'t>,
        right: Operand<'t>,
    ) -> Result<'t, ()> {
        let op = operator.mark();
        if matches!(operator, Binary::Like | Binary::Unlike) {
            let Kind::Literal(pattern) = right.kind else {
                return self.error(right.pos, What::Pattern(op));
            };
            if !glob::is_valid(pattern.as_bytes()) {
                return self.error(right.pos, What::Class(pattern));
            }
            return self.of_type(left, op, "strings", &[Ty::Str]);
        }
        let fit = match (left.ty, right.ty) {
            (Ty::Any, _) | (_, Ty::Any) | (Ty::Str, Ty::Str) => true,
            (Ty::Int | Ty::Float, Ty::Int | Ty::Float) => true,
            (Ty::Bool, Ty::Bool) => matches!(operator, Binary::Eq | Binary::Ne),
            _ => false,
        };
        if fit {
            return Ok(());
        }
        let what = What::Compare {
            op,
            left: left.ty,
            right: right.ty,
        };
        self.error(left.pos, what)
    }

    /// A comparison of an enumeration with a label: its operations become a look into the set of the
    /// values whose labels fit.
    fn with_label(
        &mut self,
        operator: Binary,
        left: Operand<'t>,
        right: Operand<'t>,
    ) -> Result<'t, Option<Operand<'t>>> {
        let (part, index, label, pos) = match (left.kind, right.kind) {
            (Kind::Labelled(part, index), Kind::Literal(label)) => (part, index, label, right.pos),
            (Kind::Literal(label), Kind::Labelled(part, index)) => (part, index, label, left.pos),
            _ => return Ok(None),
        };
        let like = matches!(operator, Binary::Like | Binary::Unlike);
        if like && matches!(left.kind, Kind::Literal(_)) {
            return self.error(right.pos, What::Pattern(operator.mark()));
        }
        let negated = match operator {
            Binary::Eq | Binary::Like => false,
            Binary::Ne | Binary::Unlike => true,
            // An order of labels means nothing.
            _ => return Ok(None),
        };
        if like && !glob::is_valid(label.as_bytes()) {
            return self.error(pos, What::Class(label));
        }
        let field = self
            .shape
            .and_then(|shape| shape.part(part).get(usize::from(index)));
        let mut set = 0_u128;
        let labels = field.into_iter().flat_map(Field::labels);
        for (value, known) in (0..u128::BITS).zip(labels) {
            let fits = if like {
                glob::matches(label.as_bytes(), known.as_bytes())
            } else {
                known == label
            };
            set |= u128::from(fits) << value;
        }
        if set == 0 {
            let load = if pos == right.pos { left } else { right };
            return self.error(pos, What::Label(self.text_at(load.pos), label));
        }
        let number = self.program.sets.len() as u8;
        if self.program.sets.push(set).is_err() {
            return self.error(pos, What::LabelSets);
        }
        self.program.ops.truncate(left.first.into());
        self.height = self.height.saturating_sub(2);
        self.emit(left.pos, Op::Load(Source::Field(part, index)), 0)?;
        self.emit(left.pos, Op::InSet(number), 1)?;
        if negated {
            self.emit(left.pos, Op::Not, 1)?;
        }
        Ok(Some(Operand {
            ty: Ty::Bool,
            kind: Kind::Computed,
            ..left
        }))
    }

    /// The word at a position, without parentheses in front of it.
    fn text_at(&self, pos: usize) -> &'t str {
        let rest = self.program.text.get(pos..).unwrap_or_default();
        let rest = rest.trim_start_matches(|c: char| c == '(' || c.is_ascii_whitespace());
        rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .next()
            .unwrap_or_default()
    }
}
