//! What the reader of ELF files makes of good, damaged and hostile ones.

mod common;

use std::process::Command;
use std::sync::OnceLock;

use common::{c_compiler, run, scratch, source};
use markers::abi::{DESC_SIZE, Note};
use markers::decode::{DescriptorError, FieldError, Kind};
use markers::elf::{ElfError, read};
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{LittleEndian as LE, Object, ObjectSection};
use proptest::prelude::*;

fn library() -> &'static [u8] {
    static LIBRARY: OnceLock<Vec<u8>> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let dir = scratch("elf");
        let path = dir.join("stub.so");
        run(c_compiler("gcc")
            .args(["-O2", "-fPIC", "-shared", "-o"])
            .arg(&path)
            .arg(source("tests/fixtures/stub.c")));
        std::fs::read(path).unwrap()
    })
}

/// Offset of the note's payload in the file.
fn note_offset(data: &[u8]) -> usize {
    let file = ElfFile64::<LE>::parse(data).unwrap();
    let section = file.section_by_name(".note.bootmark").unwrap();
    // Three words, and "bootmark" padded to four octets.
    section.file_range().unwrap().0 as usize + 24
}

fn changed(offset: usize, octets: &[u8]) -> Vec<u8> {
    let mut data = library().to_vec();
    data[offset..offset + octets.len()].copy_from_slice(octets);
    data
}

#[test]
fn a_library_says_what_it_has() {
    let module = read(library()).unwrap().unwrap();
    assert_eq!((module.abi, module.stride), ((1, 0), 256));
    let names: Vec<_> = module
        .markers
        .iter()
        .map(|marker| (marker.to_string(), marker.kind()))
        .collect();
    for expected in [
        ("stub:work".to_string(), Kind::SpanBegin),
        ("stub:work".to_string(), Kind::SpanEnd),
        ("stub:working".to_string(), Kind::Instant),
    ] {
        assert!(
            names.contains(&expected),
            "{expected:?} is not among {names:?}"
        );
    }
    assert_eq!(names.len(), 3);
    let working = module
        .markers
        .iter()
        .find(|marker| marker.name() == "working")
        .unwrap();
    let parity = working.fields().nth(1).unwrap();
    assert_eq!(
        (parity.name, parity.labels().collect::<Vec<_>>()),
        ("parity", vec!["even", "odd"])
    );
}

#[test]
fn no_markers_is_a_normal_answer() {
    let dir = scratch("elf-none");
    let path = dir.join("none.so");
    std::fs::write(dir.join("none.c"), "int nothing;\n").unwrap();
    run(Command::new("gcc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&path)
        .arg(dir.join("none.c")));
    assert_eq!(read(&std::fs::read(path).unwrap()), Ok(None));
}

#[test]
fn what_is_no_module_has_its_own_words() {
    assert_eq!(read(b""), Err(ElfError::NotElf));
    assert_eq!(read(b"#!/bin/sh\n"), Err(ElfError::NotElf));
    assert!(matches!(
        read(&library()[..20]),
        Err(ElfError::Malformed(_))
    ));
    assert_eq!(read(&changed(4, &[1])), Err(ElfError::Machine));
    assert_eq!(read(&changed(18, &[183, 0])), Err(ElfError::Machine));
    assert_eq!(read(&changed(16, &[1, 0])), Err(ElfError::NotLinked));
    assert!(matches!(
        read(&changed(16, &[4, 0])),
        Err(ElfError::Malformed(_))
    ));
}

#[test]
fn a_wrong_note_is_told_from_a_missing_one() {
    let data = library();
    let note = note_offset(data);
    assert_eq!(
        read(&changed(note + 2, &[2, 0])),
        Err(ElfError::UnsupportedAbi(2, 0))
    );
    assert_eq!(
        ElfError::UnsupportedAbi(2, 0).to_string(),
        "unsupported ABI 2.0, this program reads 1.x"
    );
    assert!(
        matches!(read(&changed(note + 4, &[0, 0])), Err(ElfError::BadNote(_))),
        "stride 0"
    );
    assert!(
        matches!(
            read(&changed(note + 4, &[64, 1])),
            Err(ElfError::BadNote(_))
        ),
        "stride 320"
    );
    assert!(
        matches!(read(&changed(note + 8, &[1])), Err(ElfError::BadNote(_))),
        "alignment"
    );
    assert!(
        matches!(
            read(&changed(note + 8, &[0xff; 8])),
            Err(ElfError::BadNote(_))
        ),
        "start"
    );
    // A major version below ours has other bytes as well.
    assert_eq!(
        read(&changed(note, &[0; 8])),
        Err(ElfError::UnsupportedAbi(0, 0))
    );
    // Another owner's note leaves the section of markers without one.
    let nameless = changed(note - 12, b"bootmerk");
    assert_eq!(read(&nameless), Err(ElfError::NoNote(3 * DESC_SIZE as u64)));
    // A payload that ends early.
    assert_eq!(
        read(&changed(note - 20, &[16])),
        Err(ElfError::BadNote("it is cut off"))
    );
}

#[test]
fn bounds_must_lie_in_one_writable_segment_and_cover_the_section() {
    let data = library();
    let note = note_offset(data);
    let moved = |by: i64| {
        let mut data = data.to_vec();
        for member in [note + 8, note + 16] {
            let value = i64::from_le_bytes(data[member..member + 8].try_into().unwrap()) + by;
            data[member..member + 8].copy_from_slice(&value.to_le_bytes());
        }
        read(&data)
    };
    assert!(matches!(moved(0), Ok(Some(_))));
    assert!(matches!(
        moved(256),
        Err(ElfError::NotCovered {
            section: 768,
            note: 768
        })
    ));

    // The same without section headers, as after sstrip.
    let mut data = data.to_vec();
    data[40..48].fill(0);
    data[58..64].fill(0);
    assert_eq!(read(&data).unwrap().unwrap().markers.len(), 3);
    let stop = note + 16;
    let value = i64::from_le_bytes(data[stop..stop + 8].try_into().unwrap());
    data[stop..stop + 8].copy_from_slice(&(value + 256 * 4096).to_le_bytes());
    assert!(matches!(
        read(&data),
        Err(ElfError::OutsideFile(_) | ElfError::TooMany(_))
    ));
    data[stop..stop + 8].copy_from_slice(&(value + 256 * 64).to_le_bytes());
    assert!(matches!(read(&data), Err(ElfError::OutsideFile(_))));
    data[stop..stop + 8].copy_from_slice(&value.to_le_bytes());

    // Every segment read-only.
    let (table, count) = (64, u16::from_le_bytes([data[56], data[57]]));
    for index in 0..usize::from(count) {
        data[table + index * 56 + 4] &= !2;
    }
    assert!(matches!(read(&data), Err(ElfError::NotWritable(_))));
}

#[test]
fn a_relocation_of_any_kind_is_seen() {
    let data = library();
    let module = read(data).unwrap().unwrap();
    let file = ElfFile64::<LE>::parse(data).unwrap();
    let rela = file
        .section_by_name(".rela.dyn")
        .unwrap()
        .file_range()
        .unwrap()
        .0 as usize;
    let target = module.address + 100;
    let expected = Err(ElfError::Relocated(target));
    let data = changed(rela, &target.to_le_bytes());
    assert_eq!(read(&data), expected);
    // By the dynamic section alone.
    let mut data = data;
    data[40..48].fill(0);
    data[58..64].fill(0);
    assert_eq!(read(&data), expected);
    // As RELR: DT_RELA and DT_RELASZ renamed to DT_RELR and DT_RELRSZ, one address and a bitmap.
    let file = ElfFile64::<LE>::parse(data.as_slice()).unwrap();
    let dynamic = file
        .elf_program_headers()
        .iter()
        .find(|segment| segment.p_type(LE) == object::elf::PT_DYNAMIC)
        .unwrap()
        .file_range(LE)
        .0 as usize;
    for entry in (dynamic..).step_by(16).take(40) {
        match data[entry] {
            7 => data[entry] = 36,
            8 => {
                data[entry] = 35;
                data[entry + 8..entry + 16].copy_from_slice(&16_u64.to_le_bytes());
            }
            _ => {}
        }
    }
    let first = module.address - 8;
    data[rela..rela + 8].copy_from_slice(&first.to_le_bytes());
    data[rela + 8..rela + 16].copy_from_slice(&0b101_u64.to_le_bytes());
    assert_eq!(read(&data), Err(ElfError::Relocated(module.address + 8)));
}

#[test]
fn descriptors_are_checked_one_by_one() {
    let data = library();
    let module = read(data).unwrap().unwrap();
    let second = module.offset as usize + DESC_SIZE;
    assert_eq!(
        read(&changed(second + 2, &[2])),
        Err(ElfError::Descriptor(
            1,
            DescriptorError::UnsupportedAbi(2, 0)
        ))
    );
    assert_eq!(
        read(&changed(second + 80, &[99])),
        Err(ElfError::Descriptor(
            1,
            DescriptorError::Field(0, FieldError::Type(99))
        ))
    );
    assert_eq!(read(&changed(second, &[0x40, 1])), Err(ElfError::Stride(1)));
    assert_eq!(
        read(&changed(second + 16, b"kernel\0")),
        Err(ElfError::KernelProvider(1))
    );
}

#[test]
fn a_file_may_be_cut_off_anywhere() {
    let data = library();
    for len in (0..data.len()).step_by(7) {
        // Whatever it says, it says it.
        let _ = read(&data[..len]);
    }
}

#[test]
fn the_note_is_as_the_abi_has_it() {
    let data = library();
    let note = note_offset(data);
    assert_eq!(
        data[note - 24..note - 12],
        [9, 0, 0, 0, size_of::<Note>() as u8, 0, 0, 0, 1, 0, 0, 0]
    );
    assert_eq!(&data[note - 12..note], b"bootmark\0\0\0\0");
}

proptest! {
    #[test]
    fn hostile_files_never_panic(
        changes in proptest::collection::vec((0_usize..1 << 20, any::<u8>(), 0_usize..4), 1..8),
    ) {
        let mut data = library().to_vec();
        let note = note_offset(&data);
        for (offset, octet, place) in changes {
            // Headers, note and dynamic section are where a change does most.
            let place = match place {
                0 => offset % 0x300,
                1 => note - 24 + offset % 48,
                2 => 0x2e00 + offset % 0x300,
                _ => offset,
            };
            let len = data.len();
            data[place % len] = octet;
        }
        let _ = read(&data);
    }
}
