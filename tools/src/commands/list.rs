//! `bootmark list`.

use std::borrow::Cow;
use std::fs;
use std::io::Write;

use anyhow::Result;
use comfy_table::{ContentArrangement, Table, presets};
use markers::abi;
use markers::decode::{FieldInfo, Marker};
use markers::elf;
use serde_json::json;

use crate::cli::{Exit, ListArgs, Output};
use crate::control;
use crate::trace::marker::kind_name;

/// One row: a marker, where it is, and what the kernel says of it.
struct Row<'a> {
    marker: &'a Marker,
    file: Cow<'a, str>,
    /// Event id and whether it is on, when the kernel knows it.
    known: Option<(u32, bool)>,
}

pub fn run(args: &ListArgs, out: &mut Output) -> Result<Exit> {
    if args.system {
        system(args.json, out)
    } else {
        files(args, out)
    }
}

fn system(json: bool, out: &mut Output) -> Result<Exit> {
    let known = control::markers()?;
    let rows: Vec<Row<'_>> = known
        .iter()
        .map(|known| Row {
            marker: &known.marker,
            file: if known.path.is_empty() {
                "[kernel]".into()
            } else {
                known.path.as_str().into()
            },
            known: Some((known.marker.id, known.enabled)),
        })
        .collect();
    write(&rows, json, out)
}

fn files(args: &ListArgs, out: &mut Output) -> Result<Exit> {
    let mut modules = Vec::new();
    let mut failed = false;
    for path in &args.files {
        let module = fs::read(path)
            .map_err(anyhow::Error::from)
            .and_then(|data| elf::read(&data).map_err(anyhow::Error::from));
        match module {
            Ok(Some(module)) => modules.push((path, module)),
            Ok(None) => anstream::eprintln!("bootmark: {}: no markers", path.display()),
            Err(error) => {
                failed = true;
                anstream::eprintln!("bootmark: {}: {error}", path.display());
            }
        }
    }
    let rows: Vec<Row<'_>> = modules
        .iter()
        .flat_map(|(path, module)| {
            module.markers.iter().map(|marker| Row {
                marker,
                file: path.to_string_lossy(),
                known: None,
            })
        })
        .collect();
    let exit = write(&rows, args.json, out)?;
    Ok(if failed { Exit::Failed } else { exit })
}

fn write(rows: &[Row<'_>], json: bool, out: &mut Output) -> Result<Exit> {
    if json {
        for row in rows {
            write_json(row, out)?;
        }
    } else if !rows.is_empty() {
        write_table(rows, out)?;
    }
    out.flush()?;
    Ok(if rows.is_empty() {
        Exit::Nothing
    } else {
        Exit::Done
    })
}

fn write_json(row: &Row<'_>, out: &mut Output) -> Result<()> {
    let fields: Vec<_> = row
        .marker
        .fields()
        .map(|field| {
            json!({
                "name": field.name,
                "type": type_name(field.ty),
                "hint": hint_name(field.hint),
                "labels": field.labels().collect::<Vec<_>>(),
            })
        })
        .collect();
    let mut object = json!({
        "event": row.marker.to_string(),
        "kind": kind_name(row.marker.kind()),
        "level": row.marker.level(),
        "line": row.marker.line(),
        "file": row.file,
        "fields": fields,
    });
    if let Some((id, enabled)) = row.known {
        object["id"] = id.into();
        object["enabled"] = enabled.into();
    }
    serde_json::to_writer(&mut *out, &object)?;
    writeln!(out)?;
    Ok(())
}

fn write_table(rows: &[Row<'_>], out: &mut Output) -> Result<()> {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    let known = rows.iter().any(|row| row.known.is_some());
    let mut head = vec!["marker", "kind", "level", "fields", "file"];
    if known {
        head.insert(0, "state");
    }
    table.set_header(head);
    for row in rows {
        let fields: Vec<String> = row
            .marker
            .fields()
            .map(|field| shown_field(&field))
            .collect();
        let mut cells = vec![
            row.marker.to_string(),
            kind_name(row.marker.kind()).to_owned(),
            row.marker.level().to_string(),
            fields.join(", "),
            row.file.to_string(),
        ];
        if let Some((_, enabled)) = row.known {
            cells.insert(0, if enabled { "on" } else { "off" }.to_owned());
        }
        table.add_row(cells);
    }
    for line in table.lines() {
        writeln!(out, "{}", line.trim())?;
    }
    Ok(())
}

fn shown_field(field: &FieldInfo<'_>) -> String {
    let hint = match hint_name(field.hint) {
        Some("enum") => format!(" [{}]", field.labels().collect::<Vec<_>>().join("|")),
        Some(hint) => format!(" [{hint}]"),
        None => String::new(),
    };
    format!("{}: {}{hint}", field.name, type_name(field.ty))
}

fn type_name(ty: u8) -> &'static str {
    match ty {
        abi::TYPE_U8 => "u8",
        abi::TYPE_U16 => "u16",
        abi::TYPE_U32 => "u32",
        abi::TYPE_U64 => "u64",
        abi::TYPE_I8 => "i8",
        abi::TYPE_I16 => "i16",
        abi::TYPE_I32 => "i32",
        abi::TYPE_I64 => "i64",
        abi::TYPE_F32 => "f32",
        abi::TYPE_F64 => "f64",
        abi::TYPE_BOOL => "bool",
        abi::TYPE_STR => "str",
        abi::TYPE_BYTES => "bytes",
        _ => "clock",
    }
}

fn hint_name(hint: u8) -> Option<&'static str> {
    match hint {
        abi::HINT_HEX => Some("hex"),
        abi::HINT_ENUM => Some("enum"),
        abi::HINT_ERRNO => Some("errno"),
        abi::HINT_NSECS => Some("nsecs"),
        abi::HINT_SIZE => Some("size"),
        _ => None,
    }
}
