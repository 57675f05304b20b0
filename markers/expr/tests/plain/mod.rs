//! Expressions as trees, with the plainest evaluator that one can write, and how they are written.

use expr::{Field, FieldType, Shape, What};
use proptest::prelude::*;

const LABELS: [&str; 3] = ["mount", "switch", "run"];

const FIELDS: [Field<'static>; 8] = [
    Field::new("n", FieldType::U32),
    Field::new("name", FieldType::Str),
    Field::new("big", FieldType::U64),
    Field::new("x", FieldType::F64),
    Field::new("on", FieldType::Bool),
    Field {
        name: "phase",
        ty: FieldType::U8,
        labels: "mount\0switch\0run",
    },
    Field::new("other", FieldType::Str),
    Field::new("wide", FieldType::I64),
];

const END: [Field<'static>; 3] = [
    Field::new("begin", FieldType::Clock),
    Field::new("ret", FieldType::I32),
    Field::new("y", FieldType::F32),
];

/// What the trees speak of.
pub fn shape() -> Shape<'static> {
    Shape {
        fields: &FIELDS,
        end: &END,
        dur: true,
        thread: true,
    }
}

/// Whether an error is about a limit.
pub fn is_limit(what: &What<'_>) -> bool {
    matches!(
        what,
        What::TooLong | What::Nesting | What::Operations | What::Stack | What::LabelSets
    )
}

/// The values of an event.
#[derive(Clone, Debug)]
pub struct Event {
    n: u32,
    name: String,
    big: u64,
    x: f64,
    on: bool,
    phase: u8,
    other: String,
    wide: i64,
    ret: i32,
    y: f32,
    pub pid: u32,
    pub tid: u32,
    pub uid: u32,
    pub comm: String,
    pub dur: u64,
}

impl Arbitrary for Event {
    type Parameters = ();
    type Strategy = BoxedStrategy<Self>;

    fn arbitrary_with((): ()) -> Self::Strategy {
        let fields = (
            any::<u32>(),
            "[ab*]{0,3}",
            prop_oneof![any::<u64>(), Just(0), Just(u64::MAX)],
            prop_oneof![any::<f64>(), (-9..9).prop_map(f64::from)],
            any::<bool>(),
            0..5_u8,
            "[abc]{0,3}",
            prop_oneof![any::<i64>(), Just(i64::MIN), -3..3_i64],
            -3..3_i32,
            any::<f32>(),
        );
        let context = (any::<u32>(), 0..3_u32, 0..3_u32, "[abc]{1,3}", any::<u64>());
        (fields, context)
            .prop_map(|(fields, (pid, tid, uid, comm, dur))| {
                let (n, name, big, x, on, phase, other, wide, ret, y) = fields;
                Self {
                    n,
                    name,
                    big,
                    x,
                    on,
                    phase,
                    other,
                    wide,
                    ret,
                    y,
                    pid,
                    tid,
                    uid,
                    comm,
                    dur,
                }
            })
            .boxed()
    }
}

impl Event {
    /// The payload of its begin.
    pub fn payload(&self) -> Vec<u8> {
        let mut octets = self.n.to_le_bytes().to_vec();
        string(&mut octets, &self.name);
        octets.extend(self.big.to_le_bytes());
        octets.extend(self.x.to_le_bytes());
        octets.push(self.on.into());
        octets.push(self.phase);
        string(&mut octets, &self.other);
        octets.extend(self.wide.to_le_bytes());
        octets
    }

    /// The payload of its end.
    pub fn end(&self) -> Vec<u8> {
        let mut octets = 5_u64.to_le_bytes().to_vec();
        octets.extend(self.ret.to_le_bytes());
        octets.extend(self.y.to_le_bytes());
        octets
    }

    fn value(&self, name: &str) -> Value {
        match name {
            "n" => Value::Int(self.n.into()),
            "name" => Value::Str(self.name.clone()),
            "big" => Value::Int(self.big.into()),
            "x" => Value::Float(self.x),
            "on" => Value::Bool(self.on),
            "phase" => Value::Int(self.phase.into()),
            "other" => Value::Str(self.other.clone()),
            "wide" => Value::Int(self.wide.into()),
            "ret" => Value::Int(self.ret.into()),
            "y" => Value::Float(self.y.into()),
            "pid" => Value::Int(self.pid.into()),
            "tid" => Value::Int(self.tid.into()),
            "uid" => Value::Int(self.uid.into()),
            "comm" => Value::Str(self.comm.clone()),
            "dur" => Value::Int(self.dur.into()),
            "ENOENT" => Value::Int(2),
            other => panic!("{other}"),
        }
    }
}

fn string(octets: &mut Vec<u8>, text: &str) {
    octets.extend((text.len() as u16).to_le_bytes());
    octets.extend(text.as_bytes());
}

/// An expression.
#[derive(Clone, Debug)]
pub enum Tree {
    Int(u64),
    /// Quarters.
    Float(u16),
    Bool(bool),
    Str(String),
    Name(&'static str),
    Negate(Box<Tree>),
    Not(Box<Tree>),
    Binary(&'static str, Box<Tree>, Box<Tree>),
}

#[derive(Clone, Debug)]
enum Value {
    Int(i128),
    Float(f64),
    Bool(bool),
    Str(String),
}

fn binary(
    operators: &'static [&'static str],
    left: impl Strategy<Value = Tree>,
    right: impl Strategy<Value = Tree>,
) -> impl Strategy<Value = Tree> {
    (prop::sample::select(operators), left, right)
        .prop_map(|(operator, left, right)| Tree::Binary(operator, left.into(), right.into()))
}

fn names(names: &'static [&'static str]) -> impl Strategy<Value = Tree> {
    prop::sample::select(names).prop_map(Tree::Name)
}

fn integers() -> BoxedStrategy<Tree> {
    let literal = prop_oneof![any::<u64>(), 0..5_u64, Just(u64::MAX), Just(127), Just(63)];
    let leaf = prop_oneof![
        literal.prop_map(Tree::Int),
        names(&[
            "n", "big", "phase", "wide", "ret", "pid", "tid", "uid", "dur", "ENOENT"
        ]),
    ];
    leaf.prop_recursive(4, 12, 2, |inner| {
        prop_oneof![
            binary(
                &["+", "-", "*", "|", "&", "<<", ">>"],
                inner.clone(),
                inner.clone()
            ),
            inner.prop_map(|tree| Tree::Negate(tree.into())),
        ]
    })
    .boxed()
}

fn numbers() -> BoxedStrategy<Tree> {
    let leaf = prop_oneof![
        integers(),
        any::<u16>().prop_map(Tree::Float),
        names(&["x", "y"]),
    ];
    leaf.prop_recursive(3, 8, 2, |inner| {
        prop_oneof![
            binary(&["+", "-", "*"], inner.clone(), inner.clone()),
            inner.prop_map(|tree| Tree::Negate(tree.into())),
        ]
    })
    .boxed()
}

/// Trees that are true or false, whose types fit the shape.
pub fn tree() -> BoxedStrategy<Tree> {
    let strings = || {
        prop_oneof![
            "[abc]{0,3}".prop_map(Tree::Str),
            names(&["name", "other", "comm"]),
        ]
    };
    let pattern = "([abc*?]|\\[[ab]\\]|\\[!b\\]){0,4}".prop_map(Tree::Str);
    let label = prop::sample::select(&LABELS[..]).prop_map(|label| Tree::Str(label.into()));
    let labels = prop::sample::select(&["*", "m*", "[rs]*", "run"][..])
        .prop_map(|pattern| Tree::Str(pattern.into()));
    let leaf = prop_oneof![
        1 => any::<bool>().prop_map(Tree::Bool),
        1 => names(&["on"]),
        4 => binary(&["==", "!=", "<", "<=", ">", ">="], numbers(), numbers()),
        2 => binary(&["==", "!=", "<", "<=", ">", ">="], strings(), strings()),
        2 => binary(&["~", "!~"], strings(), pattern),
        1 => binary(&["==", "!="], names(&["phase"]), label.clone()),
        1 => binary(&["==", "!="], label, names(&["phase"])),
        1 => binary(&["~", "!~"], names(&["phase"]), labels),
    ];
    leaf.prop_recursive(4, 10, 2, |inner| {
        prop_oneof![
            3 => binary(&["&&", "||"], inner.clone(), inner.clone()),
            1 => binary(&["==", "!="], inner.clone(), inner.clone()),
            1 => inner.prop_map(|tree| Tree::Not(tree.into())),
        ]
    })
    .boxed()
}

impl Tree {
    /// How tightly its outermost operator binds.
    fn level(&self) -> u8 {
        match self {
            Self::Binary("||", ..) => 0,
            Self::Binary("&&", ..) => 1,
            Self::Not(_) => 2,
            Self::Binary("==" | "!=" | "<" | "<=" | ">" | ">=" | "~" | "!~", ..) => 3,
            Self::Binary("+" | "-" | "|", ..) => 4,
            Self::Binary(..) => 5,
            Self::Negate(_) => 6,
            _ => 7,
        }
    }

    /// As it is written, with parentheses only where they are needed.
    pub fn text(&self) -> String {
        let level = self.level();
        match self {
            Self::Int(value) if value % 3 == 0 => format!("{value:#x}"),
            Self::Int(value) => value.to_string(),
            Self::Float(quarters) => format!("{:.2}", f64::from(*quarters) / 4.0),
            Self::Bool(value) => value.to_string(),
            Self::Str(text) => format!("'{text}'"),
            Self::Name(name) => (*name).to_owned(),
            Self::Negate(tree) => format!("-{}", tree.within(6)),
            Self::Not(tree) => format!("!{}", tree.within(2)),
            Self::Binary(operator, left, right) => {
                // Comparisons do not chain, the others bind to the left.
                let left = left.within(if level == 3 { 4 } else { level });
                format!("{left} {operator} {}", right.within(level + 1))
            }
        }
    }

    fn within(&self, level: u8) -> String {
        if self.level() < level {
            format!("({})", self.text())
        } else {
            self.text()
        }
    }

    /// What it comes to.
    pub fn truth(&self, event: &Event) -> bool {
        match self.value(event) {
            Value::Bool(value) => value,
            other => panic!("{other:?}"),
        }
    }

    fn value(&self, event: &Event) -> Value {
        match self {
            Self::Int(value) => Value::Int((*value).into()),
            Self::Float(quarters) => Value::Float(f64::from(*quarters) / 4.0),
            Self::Bool(value) => Value::Bool(*value),
            Self::Str(text) => Value::Str(text.clone()),
            Self::Name(name) => event.value(name),
            Self::Not(tree) => Value::Bool(!tree.truth(event)),
            Self::Negate(tree) => match tree.value(event) {
                Value::Int(value) => Value::Int(value.saturating_neg()),
                Value::Float(value) => Value::Float(-value),
                other => panic!("{other:?}"),
            },
            Self::Binary("&&", left, right) => Value::Bool(left.truth(event) & right.truth(event)),
            Self::Binary("||", left, right) => Value::Bool(left.truth(event) | right.truth(event)),
            Self::Binary(operator, left, right) => {
                operate(operator, left.value(event), right.value(event))
            }
        }
    }
}

fn operate(operator: &str, left: Value, right: Value) -> Value {
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => match operator {
            "+" => Value::Int(left.saturating_add(right)),
            "-" => Value::Int(left.saturating_sub(right)),
            "*" => Value::Int(left.saturating_mul(right)),
            "|" => Value::Int(left | right),
            "&" => Value::Int(left & right),
            "<<" => Value::Int((0..right.min(200)).fold(left, |n, _| n.saturating_mul(2))),
            ">>" => Value::Int((0..right.min(200)).fold(left, |n, _| n.div_euclid(2))),
            _ => compare(operator, &left, &right),
        },
        (Value::Int(left), Value::Float(right)) => floats(operator, left as f64, right),
        (Value::Float(left), Value::Int(right)) => floats(operator, left, right as f64),
        (Value::Float(left), Value::Float(right)) => floats(operator, left, right),
        (Value::Str(left), Value::Str(right)) => match operator {
            "~" => Value::Bool(expr::glob_matches(right.as_bytes(), left.as_bytes())),
            "!~" => Value::Bool(!expr::glob_matches(right.as_bytes(), left.as_bytes())),
            _ => compare(operator, &left, &right),
        },
        (Value::Bool(left), Value::Bool(right)) => compare(operator, &left, &right),
        // An enumeration and a label.
        (Value::Int(value), Value::Str(label)) | (Value::Str(label), Value::Int(value)) => {
            let name = usize::try_from(value)
                .ok()
                .and_then(|value| LABELS.get(value));
            let name = name.map(|name| Value::Str((*name).into()));
            match (name, operator) {
                (Some(name), _) => operate(operator, name, Value::Str(label)),
                (None, "!=" | "!~") => Value::Bool(true),
                (None, _) => Value::Bool(false),
            }
        }
        other => panic!("{other:?}"),
    }
}

fn floats(operator: &str, left: f64, right: f64) -> Value {
    match operator {
        "+" => Value::Float(left + right),
        "-" => Value::Float(left - right),
        "*" => Value::Float(left * right),
        _ => compare(operator, &left, &right),
    }
}

fn compare<T: PartialOrd>(operator: &str, left: &T, right: &T) -> Value {
    Value::Bool(match operator {
        "==" => left == right,
        "!=" => left != right,
        "<" => left < right,
        "<=" => left <= right,
        ">" => left > right,
        ">=" => left >= right,
        other => panic!("{other}"),
    })
}
