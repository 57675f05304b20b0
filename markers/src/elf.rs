//! Markers of an ELF file, read the way the kernel does: program headers and the note say where the
//! descriptors are; section headers, which a file may lack, are looked at only to find markers that a
//! linker dropped or hid.

use std::string::{String, ToString};
use std::vec::Vec;

use object::LittleEndian as LE;
use object::elf::{self, FileHeader64, ProgramHeader64};
use object::read::elf::{Dyn, FileHeader, ProgramHeader, Rel, Rela, RelrIterator, SectionHeader};
use zerocopy::FromBytes;

use crate::abi::{self, Note};
use crate::decode::{DescriptorError, Marker};

/// What a file says about its markers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Major and minor version of the note.
    pub abi: (u16, u16),
    /// Octets between descriptors.
    pub stride: u32,
    /// Address of the first descriptor, as linked.
    pub address: u64,
    /// Where it stands in the file.
    pub offset: u64,
    /// The markers, in the order of the array. None at all is legal, but no linker leaves a note
    /// without markers unless something went wrong.
    pub markers: Vec<Marker>,
}

/// Why the markers of a file cannot be used. That a file has none is no error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ElfError {
    /// Not an ELF file at all.
    #[error("not an ELF file")]
    NotElf,
    /// Another class, byte order or machine.
    #[error("not a 64-bit x86 ELF file")]
    Machine,
    /// An object file, whose descriptors have no place yet.
    #[error("an object file that is not linked yet: look at the program or library made from it")]
    NotLinked,
    /// The ELF structures contradict themselves or reach over the end of the file.
    #[error("malformed ELF file: {0}")]
    Malformed(String),
    /// There are markers, but nothing that leads to them.
    #[error(
        "section {section} has {0} octets of markers, but there is no bootmark note: the linker dropped \
         it (does a linker script discard .note.*?)", section = abi::SECTION
    )]
    NoNote(u64),
    /// The note is too short or its bounds make no sense.
    #[error("bad bootmark note: {0}")]
    BadNote(&'static str),
    /// Notes that lead to different places.
    #[error(
        "two bootmark notes that differ: the file was put together from several linked modules"
    )]
    SeveralNotes,
    /// The note has another major version.
    #[error("unsupported ABI {0}.{1}, this program reads {major}.x", major = abi::ABI_MAJOR)]
    UnsupportedAbi(u16, u16),
    /// More markers than the kernel takes.
    #[error("{0} markers, the limit is {max}", max = abi::MAX_MARKERS)]
    TooMany(u64),
    /// The array is in no segment that comes from the file.
    #[error("the markers at address {0:#x} lie outside of what is loaded from the file")]
    OutsideFile(u64),
    /// The array's segment is read-only, so the kernel cannot turn markers on.
    #[error("the markers at address {0:#x} are not writable")]
    NotWritable(u64),
    /// Markers in the section that the note does not cover.
    #[error(
        "section {name} has {section} octets, the bootmark note covers {note}: the linker split the \
         markers up", name = abi::SECTION
    )]
    NotCovered {
        /// Octets of the section.
        section: u64,
        /// Octets between the note's bounds.
        note: u64,
    },
    /// A relocation changes the array at run time, after the kernel read it.
    #[error("a relocation at address {0:#x} changes a marker at run time")]
    Relocated(u64),
    /// The descriptor of this number is wrong.
    #[error("marker {0}: {1}")]
    Descriptor(usize, DescriptorError),
    /// A descriptor's own size differs from the note's stride.
    #[error("marker {0}: its size is not the note's stride")]
    Stride(usize),
    /// The provider that the kernel keeps for itself.
    #[error("marker {0}: provider `kernel` is the kernel's own")]
    KernelProvider(usize),
}

impl From<object::read::Error> for ElfError {
    fn from(error: object::read::Error) -> Self {
        Self::Malformed(error.to_string())
    }
}

/// Largest stride that the kernel takes.
const MAX_STRIDE: u32 = 1024;

/// Reads the markers of a program or shared object; `None` if it has none.
///
/// # Errors
///
/// See [`ElfError`]. The file may be hostile: the worst it gets is an error.
pub fn read(data: &[u8]) -> Result<Option<Module>, ElfError> {
    let file = File::parse(data)?;
    let section = file.section();
    let Some(bounds) = file.note()? else {
        return match section {
            Some(section) if section.end > section.start => {
                Err(ElfError::NoNote(section.end - section.start))
            }
            _ => Ok(None),
        };
    };
    let len = bounds.stop - bounds.start;
    if let Some(section) = section {
        let outside = section.start < bounds.start || section.end > bounds.stop;
        if section.end > section.start && outside {
            return Err(ElfError::NotCovered {
                section: section.end - section.start,
                note: len,
            });
        }
    }
    let mut module = Module {
        abi: bounds.abi,
        stride: bounds.stride,
        address: bounds.start,
        offset: 0,
        markers: Vec::new(),
    };
    if len == 0 {
        return Ok(Some(module));
    }
    let (offset, array) = file.array(&bounds)?;
    module.offset = offset;
    file.check_relocations(&bounds)?;
    for (index, octets) in array.chunks_exact(bounds.stride as usize).enumerate() {
        let marker = Marker::parse(octets).map_err(|error| ElfError::Descriptor(index, error))?;
        // Marker::parse() saw that there are two octets.
        if u32::from(u16::from_le_bytes([octets[0], octets[1]])) != bounds.stride {
            return Err(ElfError::Stride(index));
        }
        if marker.provider() == "kernel" {
            return Err(ElfError::KernelProvider(index));
        }
        module.markers.push(marker);
    }
    Ok(Some(module))
}

/// What the note says, its offsets turned into addresses.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Bounds {
    abi: (u16, u16),
    stride: u32,
    start: u64,
    stop: u64,
}

impl Bounds {
    /// Reads the payload of a note that is loaded at `address`.
    fn parse(payload: &[u8], address: u64) -> Result<Self, ElfError> {
        let Some(version) = payload.first_chunk() else {
            return Err(ElfError::BadNote("it is cut off"));
        };
        let version = u32::from_le_bytes(*version);
        let abi = ((version >> 16) as u16, version as u16);
        if abi.0 != u16::from(abi::ABI_MAJOR) {
            return Err(ElfError::UnsupportedAbi(abi.0, abi.1));
        }
        let Ok((note, _)) = Note::read_from_prefix(payload) else {
            return Err(ElfError::BadNote("it is cut off"));
        };
        let (start, stop, stride) = (note.start, note.stop, note.stride);
        let resolve = |member: usize, offset: i64| {
            address
                .checked_add(member as u64)
                .and_then(|at| at.checked_add_signed(offset))
        };
        let bounds = resolve(core::mem::offset_of!(Note, start), start)
            .zip(resolve(core::mem::offset_of!(Note, stop), stop));
        let Some((start, stop)) = bounds.filter(|(start, stop)| start <= stop) else {
            return Err(ElfError::BadNote("its bounds are no range of addresses"));
        };
        let align = abi::DESC_ALIGN as u32;
        if stride < abi::DESC_SIZE as u32 || stride > MAX_STRIDE || stride % align != 0 {
            return Err(ElfError::BadNote("its stride is no size of descriptors"));
        }
        if start % u64::from(align) != 0 {
            return Err(ElfError::BadNote("its descriptors are not aligned"));
        }
        let len = stop - start;
        if len % u64::from(stride) != 0 {
            return Err(ElfError::BadNote(
                "its bounds hold no whole number of descriptors",
            ));
        }
        let count = len / u64::from(stride);
        if count > abi::MAX_MARKERS as u64 {
            return Err(ElfError::TooMany(count));
        }
        Ok(Self {
            abi,
            stride,
            start,
            stop,
        })
    }

    /// Whether a word of 8 octets at this address touches the array.
    fn touches(&self, address: u64) -> bool {
        address < self.stop && address.saturating_add(8) > self.start
    }
}

struct File<'a> {
    data: &'a [u8],
    header: &'a FileHeader64<LE>,
    segments: &'a [ProgramHeader64<LE>],
}

impl<'a> File<'a> {
    fn parse(data: &'a [u8]) -> Result<Self, ElfError> {
        if !data.starts_with(&elf::ELFMAG) {
            return Err(ElfError::NotElf);
        }
        let header = FileHeader64::<LE>::parse(data).map_err(|_| {
            // The class and byte order decide how everything else is read.
            if data.get(4) == Some(&elf::ELFCLASS64.0) && data.get(5) == Some(&elf::ELFDATA2LSB.0) {
                ElfError::Malformed("its header is cut off".to_string())
            } else {
                ElfError::Machine
            }
        })?;
        if header.endian().is_err() || header.e_machine(LE) != elf::EM_X86_64 {
            return Err(ElfError::Machine);
        }
        match header.e_type(LE) {
            elf::ET_EXEC | elf::ET_DYN => {}
            elf::ET_REL => return Err(ElfError::NotLinked),
            _ => {
                return Err(ElfError::Malformed(
                    "neither a program nor a shared object".to_string(),
                ));
            }
        }
        let segments = header.program_headers(LE, data)?;
        Ok(Self {
            data,
            header,
            segments,
        })
    }

    fn note(&self) -> Result<Option<Bounds>, ElfError> {
        let mut found = None;
        for segment in self.segments {
            let Some(mut notes) = segment.notes(LE, self.data)? else {
                continue;
            };
            let segment_data = segment
                .data(LE, self.data)
                .map_err(|()| ElfError::Malformed("a PT_NOTE segment is cut off".to_string()))?;
            // A note that runs over the end of its segment ends the walk, as in the kernel.
            while let Ok(Some(note)) = notes.next() {
                let ours = note.name() == abi::NOTE_OWNER.as_bytes()
                    && note.n_type(LE).0 == abi::NOTE_TYPE;
                if !ours {
                    continue;
                }
                // Both are slices of the same octets.
                let offset = note.desc().as_ptr() as usize - segment_data.as_ptr() as usize;
                let Some(address) = segment.p_vaddr(LE).checked_add(offset as u64) else {
                    return Err(ElfError::BadNote("it lies outside of the address space"));
                };
                let bounds = Bounds::parse(note.desc(), address)?;
                if found.is_some_and(|earlier| earlier != bounds) {
                    return Err(ElfError::SeveralNotes);
                }
                found = Some(bounds);
            }
        }
        Ok(found)
    }

    /// Addresses of the section of markers, if there are section headers and it is among them.
    fn section(&self) -> Option<core::ops::Range<u64>> {
        let sections = self.header.sections(LE, self.data).ok()?;
        let (_, section) = sections.section_by_name(LE, abi::SECTION.as_bytes())?;
        let start = section.sh_addr(LE);
        Some(start..start.checked_add(section.sh_size(LE))?)
    }

    /// Offset and octets of the array in the file.
    fn array(&self, bounds: &Bounds) -> Result<(u64, &'a [u8]), ElfError> {
        let outside = ElfError::OutsideFile(bounds.start);
        let len = bounds.stop - bounds.start;
        let Some((segment, offset)) = self.locate(bounds.start, len) else {
            return Err(outside);
        };
        if segment.p_flags(LE) & elf::PF_W == elf::ProgramFlags(0) {
            return Err(ElfError::NotWritable(bounds.start));
        }
        let from = usize::try_from(offset).map_err(|_| outside.clone())?;
        let octets = self
            .data
            .get(from..)
            .and_then(|rest| rest.get(..len as usize))
            .ok_or(outside)?;
        Ok((offset, octets))
    }

    /// The segment that loads these addresses from the file, and where in the file they are.
    fn locate(&self, address: u64, len: u64) -> Option<(&'a ProgramHeader64<LE>, u64)> {
        self.segments
            .iter()
            .filter(|segment| segment.p_type(LE) == elf::PT_LOAD)
            .find_map(|segment| {
                let into = address.checked_sub(segment.p_vaddr(LE))?;
                let fits = into.checked_add(len)? <= segment.p_filesz(LE);
                Some((segment, segment.p_offset(LE).checked_add(into)?)).filter(|_| fits)
            })
    }

    /// Octets that are loaded at an address.
    fn loaded(&self, address: u64, len: u64) -> Option<&'a [u8]> {
        let (_, offset) = self.locate(address, len)?;
        self.data
            .get(usize::try_from(offset).ok()?..)?
            .get(..usize::try_from(len).ok()?)
    }

    fn check_relocations(&self, bounds: &Bounds) -> Result<(), ElfError> {
        let mut check = |address: u64| {
            if bounds.touches(address) {
                Err(ElfError::Relocated(address))
            } else {
                Ok(())
            }
        };
        self.dynamic_relocations(&mut check)?;
        // Those of a static program are in no dynamic table; and the file may have none that we know.
        let Ok(sections) = self.header.sections(LE, self.data) else {
            return Ok(());
        };
        for section in sections.iter() {
            if section.sh_flags(LE) & elf::SHF_ALLOC == elf::SectionFlags(0) {
                continue;
            }
            if let Some((entries, _)) = section.rela(LE, self.data)? {
                entries
                    .iter()
                    .try_for_each(|entry| check(entry.r_offset(LE)))?;
            }
            if let Some((entries, _)) = section.rel(LE, self.data)? {
                entries
                    .iter()
                    .try_for_each(|entry| check(entry.r_offset(LE)))?;
            }
            if let Some(mut addresses) = section.relr(LE, self.data)? {
                addresses.try_for_each(&mut check)?;
            }
        }
        Ok(())
    }

    fn dynamic_relocations(
        &self,
        check: &mut impl FnMut(u64) -> Result<(), ElfError>,
    ) -> Result<(), ElfError> {
        let mut entries = None;
        for segment in self.segments {
            entries = entries.or(segment.dynamic(LE, self.data)?);
        }
        let Some(entries) = entries else {
            return Ok(());
        };
        let value = |tag: elf::DynamicTag| {
            let last = entries
                .iter()
                .take_while(|entry| entry.d_tag(LE) != elf::DT_NULL);
            last.filter(|entry| entry.d_tag(LE) == tag)
                .last()
                .map(|entry| entry.d_val(LE))
        };
        let table = |start: elf::DynamicTag, size: elf::DynamicTag| -> Result<&'a [u8], ElfError> {
            let (Some(start), Some(size)) = (value(start), value(size)) else {
                return Ok(&[]);
            };
            self.loaded(start, size).ok_or_else(|| {
                ElfError::Malformed("its dynamic relocations lie outside of the file".to_string())
            })
        };
        let rela = |octets: &'a [u8]| object::slice_from_all_bytes::<elf::Rela64<LE>>(octets);
        let rel = |octets: &'a [u8]| object::slice_from_all_bytes::<elf::Rel64<LE>>(octets);
        let cut = |()| ElfError::Malformed("its dynamic relocations are cut off".to_string());

        let plt_uses_rela = value(elf::DT_PLTREL) != Some(elf::DT_REL.0 as u64);
        let plt = table(elf::DT_JMPREL, elf::DT_PLTRELSZ)?;
        let (plt_rela, plt_rel) = if plt_uses_rela {
            (plt, &[][..])
        } else {
            (&[][..], plt)
        };
        for octets in [table(elf::DT_RELA, elf::DT_RELASZ)?, plt_rela] {
            let entries = rela(octets).map_err(cut)?;
            entries
                .iter()
                .try_for_each(|entry| check(entry.r_offset(LE)))?;
        }
        for octets in [table(elf::DT_REL, elf::DT_RELSZ)?, plt_rel] {
            let entries = rel(octets).map_err(cut)?;
            entries
                .iter()
                .try_for_each(|entry| check(entry.r_offset(LE)))?;
        }
        let relr =
            object::slice_from_all_bytes::<elf::Relr64<LE>>(table(elf::DT_RELR, elf::DT_RELRSZ)?)
                .map_err(cut)?;
        RelrIterator::<FileHeader64<LE>>::new(LE, relr).try_for_each(check)
    }
}
