//! The ABI in Rust (`markers::abi`, `bootbuf::abi`) and in C (the UAPI headers, and the copy in
//! `bootmark.h`) is one: every constant, size, alignment and offset, and nothing on one side only.

mod common;
#[path = "uapi/source.rs"]
mod source;
#[path = "uapi/table.rs"]
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::process::Command;

use common::{run, scratch};
use source::Header;
use table::{Constant, Struct, Value, constants, structs};

const UAPI: [&str; 2] = ["bootmark.h", "bootbuf.h"];

fn uapi_dir() -> std::path::PathBuf {
    common::source("../kernel-patch/linux/include/uapi")
}

fn uapi() -> Header {
    let mut all = Header::default();
    for name in UAPI {
        all.add(&std::fs::read_to_string(uapi_dir().join("linux").join(name)).unwrap());
    }
    all
}

/// The header of programs.
fn copy() -> Header {
    let text = std::fs::read_to_string(common::source("include/bootmark.h")).unwrap();
    let (_, rest) = text.split_once("#ifndef _UAPI_LINUX_BOOTMARK_H\n").unwrap();
    let (abi, _) = rest
        .split_once("#endif /* _UAPI_LINUX_BOOTMARK_H */")
        .unwrap();
    let mut header = Header::default();
    header.add(abi);
    header
}

/// Values as a C compiler has them, by name: constants, and `sizeof struct`, `alignof struct`,
/// `offsetof struct.field`, `sizeof struct.field`.
fn compiled(test: &str, includes: &str, header: &Header) -> BTreeMap<String, String> {
    let dir = scratch(test);
    let mut code = format!(
        "#include <stddef.h>\n#include <stdio.h>\n{includes}\n\
         #define PRINT(x) _Generic((x), char *: text, const char *: text, default: number)(#x, (x))\n\
         static void text(const char *name, const char *text) {{ printf(\"%s\\t%s\\n\", name, text); }}\n\
         static void number(const char *name, unsigned long long n) {{ printf(\"%s\\t%llu\\n\", name, n); }}\n\
         #define NUMBER(name, n) number(name, n)\n\
         int main(void) {{\n"
    );
    for name in &header.constants {
        writeln!(code, "PRINT({name});").unwrap();
    }
    for (name, fields) in &header.structs {
        writeln!(code, "NUMBER(\"sizeof {name}\", sizeof(struct {name}));").unwrap();
        writeln!(code, "NUMBER(\"alignof {name}\", _Alignof(struct {name}));").unwrap();
        for field in fields {
            let (field, flexible) = (field.name.as_str(), field.flexible);
            writeln!(
                code,
                "NUMBER(\"offsetof {name}.{field}\", offsetof(struct {name}, {field}));"
            )
            .unwrap();
            if !flexible {
                writeln!(
                    code,
                    "NUMBER(\"sizeof {name}.{field}\", sizeof(((struct {name} *)0)->{field}));"
                )
                .unwrap();
            }
        }
    }
    code.push_str("return 0; }\n");
    let (file, program) = (dir.join("abi.c"), dir.join("abi"));
    std::fs::write(&file, code).unwrap();
    run(Command::new("gcc")
        .args([
            "-std=gnu11",
            "-Wall",
            "-Werror",
            "-Wno-int-conversion",
            "-I",
        ])
        .arg(uapi_dir())
        .arg("-I")
        .arg(common::source("include"))
        .arg(&file)
        .arg("-o")
        .arg(&program));
    run(&mut Command::new(program))
        .lines()
        .map(|line| line.split_once('\t').unwrap())
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect()
}

/// What the Rust side says about the names that a header has.
fn expected(header: &Header) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for Constant { c_name, value, .. } in constants() {
        if header.constants.contains(c_name) {
            let value = match value {
                Value::Number(number) => number.to_string(),
                Value::Text(text) => text.to_string(),
            };
            all.insert(c_name.to_string(), value);
        }
    }
    for item in structs() {
        let Struct {
            c_name: name,
            size,
            align,
            fields,
            c_only,
            ..
        } = item;
        if !header.structs.contains_key(name) {
            continue;
        }
        // What follows a structure in C is described in words in Rust, and starts where it ends.
        match c_only.iter().copied().next() {
            None => {
                all.insert(format!("sizeof {name}"), size.to_string());
                all.insert(format!("alignof {name}"), align.to_string());
            }
            Some(first) => {
                all.insert(format!("offsetof {name}.{first}"), size.to_string());
            }
        }
        for field in fields {
            all.insert(
                format!("offsetof {name}.{}", field.c_name),
                field.offset.to_string(),
            );
            all.insert(
                format!("sizeof {name}.{}", field.c_name),
                field.size.to_string(),
            );
        }
    }
    all
}

/// Compares what both sides say; names of structures' parts that only C has are left out.
fn compare(c: &BTreeMap<String, String>, rust: &BTreeMap<String, String>) {
    let mut differences = String::new();
    for (name, value) in rust {
        match c.get(name) {
            Some(other) if other == value => {}
            Some(other) => {
                writeln!(differences, "{name}: C has {other}, Rust has {value}").unwrap()
            }
            None => writeln!(differences, "{name}: Rust has {value}, C has nothing").unwrap(),
        }
    }
    assert!(differences.is_empty(), "\n{differences}");
}

#[test]
fn values_are_the_same() {
    let header = uapi();
    let includes = "#include <linux/bootmark.h>\n#include <linux/bootbuf.h>";
    let (c, rust) = (compiled("uapi", includes, &header), expected(&header));
    assert!(rust.len() > 250, "{} values compared only", rust.len());
    compare(&c, &rust);
}

#[test]
fn the_header_of_programs_says_the_same() {
    let header = copy();
    let (c, rust) = (
        compiled("uapi-copy", "#include <bootmark.h>", &header),
        expected(&header),
    );
    compare(&c, &rust);
    // All that makes descriptors is there.
    let (all, missing) = (uapi(), ["DESC", "FIELD"]);
    for prefix in [
        "BOOTMARK_HINT_",
        "BOOTMARK_U",
        "BOOTMARK_I",
        "BOOTMARK_F",
        "BOOTMARK_S",
        "BOOTMARK_LEVEL",
    ] {
        for name in all.constants.iter().filter(|name| name.starts_with(prefix)) {
            let kernels = ["BOOTMARK_STATE_", "BOOTMARK_FIRST_"]
                .iter()
                .any(|own| name.starts_with(own));
            assert!(
                kernels || header.constants.contains(name),
                "bootmark.h lacks {name}: {missing:?}"
            );
        }
    }
    for name in ["bootmark_desc", "bootmark_field"] {
        assert_eq!(header.structs[name], all.structs[name]);
    }
    // With the kernel's header in front, that one is taken.
    compiled(
        "uapi-both",
        "#include <linux/bootmark.h>\n#include <bootmark.h>",
        &header,
    );
}

#[test]
fn nothing_is_in_c_only() {
    let header = uapi();
    let known: BTreeSet<_> = constants()
        .iter()
        .map(|constant| constant.c_name.to_string())
        .collect();
    assert_eq!(header.constants, known);

    let structs = structs();
    let known: BTreeSet<_> = structs.iter().map(|item| item.c_name.to_string()).collect();
    assert_eq!(
        header.structs.keys().cloned().collect::<BTreeSet<_>>(),
        known
    );
    for item in &structs {
        let c: BTreeSet<_> = header.structs[item.c_name]
            .iter()
            .map(|field| field.name.as_str())
            .collect();
        let rust = item
            .fields
            .iter()
            .map(|field| field.c_name)
            .chain(item.c_only.iter().copied());
        assert_eq!(c, rust.collect(), "fields of {}", item.c_name);
    }
}

#[test]
fn nothing_is_in_rust_only() {
    for (krate, path) in [
        ("markers", "src/abi.rs"),
        ("bootbuf", "../bootbuf/src/abi.rs"),
    ] {
        let text = std::fs::read_to_string(common::source(path)).unwrap();
        let module = source::RustModule::parse(&text);
        for name in &module.constants {
            let path = format!("{krate}::abi::{name}");
            let found = constants().iter().any(|constant| {
                constant
                    .rust
                    .split(|c: char| !c.is_alphanumeric() && !"_:".contains(c))
                    .any(|word| word == path)
            });
            assert!(found, "no C name for {path} in tests/uapi/table.rs");
        }
        for (name, fields) in &module.structs {
            let path = format!("{krate}::abi::{name}");
            let structs = structs();
            let item = structs.iter().find(|item| item.rust_name == path);
            let item =
                item.unwrap_or_else(|| panic!("no C name for {path} in tests/uapi/table.rs"));
            let known: BTreeSet<_> = item
                .fields
                .iter()
                .map(|field| field.rust_name.to_string())
                .collect();
            assert_eq!(fields, &known, "fields of {path}");
        }
    }
}
