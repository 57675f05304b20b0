//! The machine dies while the extractor writes: power is cut at any write to the disk, or a reset comes.
//!
//! What QEMU wrote is logged, so that every state in which a cut can leave the disk is made and tried:
//! what was written up to each write, and what was flushed with any part of what was not.

mod log;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use bootbuf::abi::{SEAL_OPEN, STREAM_META};
use bootbuf::reader::packets;
use log::{Entry, SECTOR};
use qemu_tests::guest::Guest;
use qemu_tests::{paths, process, programs, reading, setup};

/// Octets of the file system that traces are extracted to, and of the disk that it is on: behind it the
/// guest says in a sector that an extraction has acknowledged what it took.
const FILES: usize = 12 << 20;
const DISK: usize = FILES + (64 << 10);
const SAID: &str = "acknowledged ";

const EXTRACTIONS: usize = 4;

/// A folder of files, by name.
type Files = BTreeMap<String, Vec<u8>>;

fn folder(path: &Path) -> Files {
    let Ok(entries) = fs::read_dir(path) else {
        return Files::new();
    };
    entries
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, fs::read(path).unwrap())
        })
        .collect()
}

/// Those that the records are in.
fn streams(files: &Files) -> Files {
    let mut files = files.clone();
    files.retain(|name, _| !name.starts_with('.') && name != "metadata");
    files
}

/// What the kernel still offers when `taken` was acknowledged: of `all`, everything but the sealed
/// packets in it.
fn offered(all: &Files, taken: &Files) -> Vec<u8> {
    let name = |header: &bootbuf::abi::PacketHeader| (header.stream_instance, header.seq);
    let freed: BTreeSet<_> = taken
        .values()
        .flat_map(|file| packets(file).filter_map(Result::ok))
        .filter(|packet| packet.header().seal != SEAL_OPEN)
        .map(|packet| name(packet.header()))
        .collect();
    let mut bytes = all[".bootmark"].clone();
    for file in streams(all).values() {
        for packet in packets(file) {
            let packet = packet.unwrap();
            assert_ne!(packet.header().stream_id, STREAM_META);
            if !freed.contains(&name(packet.header())) {
                bytes.extend_from_slice(packet.bytes());
            }
        }
    }
    bytes
}

fn bootmark(args: &[&str]) -> String {
    process::output(Command::new(programs::build().unwrap().bootmark).args(args)).unwrap()
}

/// The disk with its file system, empty.
fn new_disk(path: &Path) {
    fs::File::create(path)
        .unwrap()
        .set_len(DISK as u64)
        .unwrap();
    process::output(
        Command::new(setup::find("mke2fs").unwrap())
            .args([
                "-q",
                "-F",
                "-t",
                "ext4",
                "-L",
                "extracted",
                "-b",
                "1024",
                "-E",
            ])
            .arg("lazy_itable_init=0,lazy_journal_init=0")
            .arg(path)
            .arg(format!("{}k", FILES >> 10)),
    )
    .unwrap();
}

/// Boots a guest that extracts again and again to that disk; the log of its writes.
fn extractions(dir: &Path, disk: &Path) -> (PathBuf, Vec<Entry>) {
    let script = format!(
        "mkdir -p /mnt
        disk=$(findfs LABEL=extracted)
        mount -t ext4 $disk /mnt || exit 1
        for number in $(seq {EXTRACTIONS}); do
            /usr/lib/bootmark/services/svc-threads
            bootmark extract --output /mnt/trace || exit 1
            echo \"{SAID}$number\" |
                dd of=$disk bs={SECTOR} seek=$(({FILES} / {SECTOR})) conv=notrunc,fsync 2>/dev/null
            cp -a /mnt/trace /var/lib/bootmark/after-$number
        done
        umount /mnt"
    );
    let log = dir.join("writes");
    fs::write(&log, "").unwrap();
    let outcome = Guest::new()
        .rules("svc:*,init:*")
        .timeout(Duration::from_secs(400))
        .qemu_arg("-blockdev")
        .qemu_arg(&format!(
            "driver=blklogwrites,node-name=logged,log-sector-size={SECTOR},\
             file.driver=file,file.filename={},log.driver=file,log.filename={}",
            disk.display(),
            log.display()
        ))
        .qemu_arg("-device")
        .qemu_arg("virtio-blk-pci,drive=logged")
        .script(script)
        .boot()
        .unwrap();
    assert_eq!(outcome.script_status, Some(0), "{}", outcome.script_log);
    (outcome.dir.join("fetched"), log::read(&log))
}

/// Disks as a cut may leave them, after all of this was written.
struct Cuts<'a> {
    entries: &'a [Entry],
    /// With all that was flushed.
    flushed: Vec<u8>,
}

impl Cuts<'_> {
    /// Calls `try_it` with each.
    fn each(mut self, mut try_it: impl FnMut(&[u8])) {
        let mut since: Vec<(usize, &[u8])> = Vec::new();
        let mut dice = 1u64;
        let put = |disk: &mut Vec<u8>, (at, octets): (usize, &[u8])| {
            disk[at..at + octets.len()].copy_from_slice(octets);
        };
        let mut written = self.flushed.clone();
        for entry in self.entries {
            match entry {
                Entry::Write { at, octets } => {
                    since.push((*at, octets));
                    put(&mut written, (*at, octets));
                    try_it(&written);
                }
                Entry::Flush => {
                    // Some of them came to the disk and some did not.
                    for _ in 0..2 {
                        let mut disk = self.flushed.clone();
                        for write in &since {
                            dice = dice.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                            if dice >> 63 == 0 {
                                put(&mut disk, *write);
                            }
                        }
                        if since.len() > 1 {
                            try_it(&disk);
                        }
                    }
                    since.clear();
                    self.flushed.clone_from(&written);
                }
            }
        }
    }
}

/// What a disk holds after the machine came up again: the trace, and how many extractions said that
/// they had acknowledged.
fn recover(dir: &Path, disk: &[u8]) -> (Files, usize) {
    let image = dir.join("cut");
    fs::write(&image, disk).unwrap();
    let out = Command::new(setup::find("e2fsck").unwrap())
        .arg("-p")
        .arg(&image)
        .output()
        .unwrap();
    assert!(matches!(out.status.code(), Some(0 | 1)), "{out:?}");
    let found = dir.join("found");
    let _ = fs::remove_dir_all(&found);
    fs::create_dir(&found).unwrap();
    process::output(
        Command::new(setup::find("debugfs").unwrap())
            .current_dir(dir)
            .args(["-R", "rdump /trace found", "cut"]),
    )
    .unwrap();
    let said = String::from_utf8_lossy(&disk[FILES..FILES + SECTOR]).into_owned();
    let number = said
        .strip_prefix(SAID)
        .and_then(|rest| rest.lines().next()?.parse().ok());
    (folder(&found.join("trace")), number.unwrap_or(0))
}

#[test]
fn power_may_be_cut_at_any_write() {
    let temp = tempfile::tempdir().unwrap();
    let disk = temp.path().join("disk");
    new_disk(&disk);
    let empty = fs::read(&disk).unwrap();
    let (fetched, entries) = extractions(temp.path(), &disk);
    let mut after = vec![Files::new()];
    for number in 1..=EXTRACTIONS {
        after.push(folder(&fetched.join(format!("after-{number}"))));
        assert!(!after[number].is_empty());
    }
    let all = &after[EXTRACTIONS];
    let all_events = bootmark(&[
        "view",
        "--json",
        fetched
            .join(format!("after-{EXTRACTIONS}"))
            .to_str()
            .unwrap(),
    ]);

    let mut tried = 0;
    let mut states: BTreeSet<(usize, usize)> = BTreeSet::new();
    let cuts = Cuts {
        entries: &entries,
        flushed: empty,
    };
    cuts.each(|disk| {
        tried += 1;
        let (found, acknowledged) = recover(temp.path(), disk);
        // One of the extractions' results, whole: the last that has acknowledged, or a later one.
        let which = after.iter().position(|files| *files == found);
        let which = which.unwrap_or_else(|| {
            let names: Vec<_> = found
                .iter()
                .map(|(name, file)| (name, file.len()))
                .collect();
            panic!("cut {tried}: half a trace, behind extraction {acknowledged}: {names:?}")
        });
        assert!(
            which == acknowledged || which == acknowledged + 1,
            "cut {tried}: {acknowledged} extractions have acknowledged, the trace is of {which}"
        );
        if !states.insert((which, acknowledged)) {
            return;
        }
        // A second run completes it.
        let (trace, rest) = (temp.path().join("trace"), temp.path().join("rest"));
        let _ = fs::remove_dir_all(&trace);
        if which != 0 {
            fs::create_dir(&trace).unwrap();
        }
        for (name, file) in &found {
            fs::write(trace.join(name), file).unwrap();
        }
        fs::write(&rest, offered(all, &after[acknowledged])).unwrap();
        let (trace, rest) = (trace.to_str().unwrap(), rest.to_str().unwrap());
        bootmark(&["extract", "--packets", rest, "--output", trace]);
        assert_eq!(streams(&folder(Path::new(trace))), streams(all));
        assert_eq!(bootmark(&["view", "--json", trace]), all_events);
    });
    eprintln!("{tried} cuts, which left {states:?} (trace of, acknowledged)");
    for number in 0..=EXTRACTIONS {
        assert!(states.contains(&(number, number)), "{states:?}");
    }
    // Between the exchange and the acknowledgement, at least once.
    assert!(
        states.iter().any(|(which, said)| which > said),
        "{states:?}"
    );
}

/// Resets of one guest.
const RESETS: usize = 3;

/// Extracts without end until the reset comes; the boot after it completes the trace, and keeps it with what
/// the witnesses told.
const AGAIN_AND_AGAIN: &str = r#"
    results=/var/lib/bootmark/resets
    mine=/var/lib/bootmark/mine
    mkdir -p $results
    counter() { dd if=/dev/mem bs=8 skip=$(($1 / 8)) count=1 2>/dev/null | od -A n -t u8; }
    number=$(ls $results | wc -l)
    if [ -e /var/lib/bootmark/armed ]; then
        echo "left $(ls -A /var/lib/bootmark | tr '\n' ' ')"
        bootmark extract --boot -1 --output $mine || exit 1
        bootmark extract --boot -1 --output $mine
        [ $? = 3 ] || exit 1
        mkdir $results/$number
        mv $mine $results/$number/trace
        echo $(counter 0x8000000) $(counter 0x8001000) > $results/$number/told
        rm /var/lib/bootmark/armed
        number=$((number + 1))
    fi
    [ $number -lt RESETS ] || exit 0
    for page in 0x8000000 0x8001000; do
        dd if=/dev/zero of=/dev/mem bs=8 seek=$((page / 8)) count=1 conv=notrunc 2>/dev/null
    done
    touch /var/lib/bootmark/armed
    sync
    for cpu in 0 1; do /usr/lib/bootmark/services/svc-witness 0x800${cpu}000 $cpu & done
    {
        while [ $(counter 0x8000000) -eq 0 -o $(counter 0x8001000) -eq 0 ]; do sleep 0.05; done
        echo extracting-$number > /dev/kmsg
    } &
    while said=$(bootmark extract --output $mine 2>&1); do :; done
    echo "$said"
    exit 1
"#;

#[test]
fn a_reset_may_come_while_it_is_extracted() {
    let temp = tempfile::tempdir().unwrap();
    let monitor = temp.path().join("monitor");
    let out = paths::target().join("guest-tests/power_cut-reset");
    let console = out.join("console.log");
    // An earlier run's would be taken for this one's.
    let _ = fs::remove_file(&console);
    let resetting = thread::spawn({
        let monitor = monitor.clone();
        move || {
            for number in 0..RESETS {
                wait_for(&console, &format!("extracting-{number}"));
                // Into another part of an extraction each time, wherever it is then.
                thread::sleep(Duration::from_millis(900 + 370 * number as u64));
                reset(&monitor);
            }
        }
    });
    let outcome = Guest::new()
        .rules("svc:witness")
        .append("memmap=8K$0x8000000 bootmark.services=no")
        .reboots()
        .qemu_arg("-monitor")
        .qemu_arg(&format!("unix:{},server=on,wait=off", monitor.display()))
        .timeout(Duration::from_secs(400))
        .out(&out)
        .script(AGAIN_AND_AGAIN.replace("RESETS", &RESETS.to_string()))
        .boot()
        .unwrap();
    resetting.join().unwrap();
    assert_eq!(outcome.script_status, Some(0), "{}", outcome.script_log);
    for number in 0..RESETS {
        let dir = outcome.dir.join("fetched/resets").join(number.to_string());
        let told = fs::read_to_string(dir.join("told")).unwrap();
        let told: Vec<u64> = told
            .split_whitespace()
            .map(|n| n.parse().unwrap())
            .collect();
        let trace = dir.join("trace");
        let events = reading::events(&trace).unwrap();
        for (cpu, told) in told.into_iter().enumerate() {
            let numbers = events
                .iter()
                .filter(|event| event.number("cpu") == Some(cpu as u64))
                .map(|event| event.number("number").unwrap());
            let found = numbers.clone().count() as u64;
            assert!(numbers.eq(1..=found), "reset {number}: gaps or repetitions");
            assert!(
                told > 0 && (found == told || found == told + 1),
                "reset {number}, cpu {cpu}: {told} were committed, {found} are there"
            );
            eprintln!("reset {number}, cpu {cpu}: {told} committed, {found} found");
        }
        assert_eq!(reading::summary(&trace).unwrap()["lost"], 0);
        assert_eq!(reading::babeltrace(&trace).unwrap().len(), events.len());
    }
}

/// Resets the machine by QEMU's monitor, and waits until it says that it did.
fn reset(monitor: &Path) {
    let mut stream = UnixStream::connect(monitor).unwrap();
    stream.write_all(b"system_reset\n").unwrap();
    let mut answer = Vec::new();
    let mut buffer = [0; 256];
    // A prompt before the command and one behind it.
    while answer.windows(6).filter(|part| part == b"(qemu)").count() < 2 {
        let len = stream.read(&mut buffer).unwrap();
        assert_ne!(len, 0, "the monitor closed");
        answer.extend_from_slice(&buffer[..len]);
    }
}

fn wait_for(console: &Path, text: &str) {
    let patience = Instant::now() + Duration::from_secs(400);
    while !fs::read_to_string(console).is_ok_and(|log| log.contains(text)) {
        assert!(Instant::now() < patience, "no `{text}` on the console");
        thread::sleep(Duration::from_millis(20));
    }
}
