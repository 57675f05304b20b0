//! `cargo xtask panics`

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use qemu_tests::guest::Guest;
use qemu_tests::qemu::Alarm;
use qemu_tests::{paths, reading, setup};

/// Let the kernel panic again and again, and count what the boot after each has of it.
///
/// Two programs, one on each CPU, write events as markers and every eighth as a line to ftrace's persistent
/// instance (`trace_instance=` in memory that survives), and testify how many in memory of their own. The
/// kernel panics at a random instant, in turns from a system call, in an NMI while the other CPU
/// writes, and by the hung-task watchdog; the next boot takes both traces. A committed event
/// that the markers' trace does not have, or has twice, makes this fail; ftrace is measured
/// beside it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many panics.
    #[arg(long, value_name = "N", default_value_t = 20)]
    count: u32,

    /// Where results go [default: target/panics].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Time limit for each boot in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
}

/// Memory that the kernel leaves alone: the witnesses' pages, and ftrace's.
const MEMORY: &str = "memmap=8K$0x8000000 memmap=12M$0x9000000 \
                      trace_instance=boot_map^traceoff@0x9000000:12M";

/// Keeps what the last boot left, then starts the witnesses and panics; after the last panic only the
/// first.
const SCRIPT: &str = r#"
results=/var/lib/bootmark/panics
ftrace=/sys/kernel/tracing/instances/boot_map
mkdir -p $results
[ -d $ftrace ] || mount -t tracefs tracefs /sys/kernel/tracing
counter() { dd if=/dev/mem bs=8 skip=$(($1 / 8)) count=1 2>/dev/null | od -A n -t u8; }
number=$(ls $results | wc -l)
if [ -e /var/lib/bootmark/armed ]; then
    new=/var/lib/bootmark/panic.new
    mkdir $new
    if [ -d /var/lib/bootmark/previous ]; then mv /var/lib/bootmark/previous $new/trace; fi
    echo $(counter 0x8000000) $(counter 0x8001000) > $new/markers
    echo $(counter 0x8000008) $(counter 0x8001008) > $new/lines
    for cpu in 0 1; do
        grep -o 'witness [0-9]* [0-9]*' $ftrace/per_cpu/cpu$cpu/trace > $new/ftrace$cpu
    done
    mv $new $results/$number
    rm /var/lib/bootmark/armed
    number=$((number + 1))
fi
if [ $number -ge COUNT ]; then exit 0; fi
# The panic may come before the witnesses do: what they told before is not what they tell now.
for page in 0x8000000 0x8001000; do
    dd if=/dev/zero of=/dev/mem bs=8 seek=$((page / 8)) count=2 conv=notrunc 2>/dev/null
done
echo > $ftrace/trace
echo 1 > $ftrace/tracing_on
for cpu in 0 1; do
    /usr/lib/bootmark/services/svc-witness 0x800${cpu}000 $cpu $ftrace/trace_marker &
done
touch /var/lib/bootmark/armed
sync
sleep $(od -A n -t u2 -N 2 /dev/urandom | awk '{ print 0.05 + $1 % 1000 / 1000 }')
case $(((FIRST + number) % 3)) in
    0) echo c > /proc/sysrq-trigger ;;
    1) # The command register of the interrupt controller, which is told the CPU first.
        devmem 0xfee00310 32 $((($(od -A n -t u1 -N 1 /dev/urandom) % 2) << 24))
        devmem 0xfee00300 32 0x4400 ;;
    2) # Who writes to a frozen file system waits without end, which the watchdog sees.
        echo 1 > /proc/sys/kernel/hung_task_timeout_secs
        echo 1 > /proc/sys/kernel/hung_task_panic
        fsfreeze --freeze /
        touch /var/lib/bootmark/never ;;
esac
sleep 60
"#;

/// Services that have no part in this; without them a boot takes half as long.
const IDLE: [&str; 9] = [
    "after-fail",
    "busybox",
    "c",
    "crash",
    "fail",
    "killed",
    "needs-fail",
    "slow",
    "threads",
];

/// Panics of one guest: its disk has room for their traces.
const BATCH: u32 = 20;

/// The ways in turn, and what the kernel's message has of each.
const WAYS: [(&str, &str); 3] = [
    ("call", "sysrq triggered crash"),
    ("NMI", "NMI"),
    ("watchdog", "hung_task: blocked tasks"),
];

/// One panic: for each CPU what was told and what was found.
struct Panic {
    way: &'static str,
    markers: [Count; 2],
    lines: [Count; 2],
}

/// Events of one witness.
#[derive(Clone, Copy, Default)]
struct Count {
    told: u64,
    /// Different numbers among those told.
    found: u64,
    /// Found more than once, or beyond the one that may have been under way.
    wrong: u64,
}

impl Count {
    fn new(told: u64, mut numbers: Vec<u64>) -> Self {
        let all = numbers.len() as u64;
        numbers.sort_unstable();
        numbers.dedup();
        let found = numbers
            .iter()
            .filter(|number| (1..=told).contains(number))
            .count() as u64;
        let one_more = u64::from(numbers.contains(&(told + 1)));
        Self {
            told,
            found,
            wrong: all - found - one_more,
        }
    }

    fn missing(&self) -> u64 {
        self.told - self.found
    }
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let out = match &args.out {
        Some(out) => out.clone(),
        None => paths::target().join("panics"),
    };
    setup::ensure(setup::PACKAGES)?;
    let mut panics = Vec::new();
    for first in (0..args.count).step_by(BATCH as usize) {
        let count = BATCH.min(args.count - first);
        panics.extend(batch(
            &out.join(first.to_string()),
            first,
            count,
            args.timeout,
        )?);
    }
    Ok(report(&panics))
}

/// So many panics of one guest, numbered from `first`.
fn batch(out: &Path, first: u32, count: u32, timeout: u64) -> Result<Vec<Panic>> {
    let script = SCRIPT
        .replace("COUNT", &count.to_string())
        .replace("FIRST", &first.to_string());
    // The watchdog is seconds in coming, in which the witnesses must not run out of room.
    let guest = IDLE.iter().fold(Guest::new(), |guest, name| {
        guest.without(&format!("/etc/bootmark/services/{name}.conf"))
    });
    let outcome = guest
        .beside_others()
        .out(out)
        .rules("svc:witness,kernel:*,init:*")
        .append(MEMORY)
        .append("unknown_nmi_panic")
        .memory(768)
        .pool("64M")
        .reboots()
        .tolerate(Alarm::Panic)
        .tolerate(Alarm::HungTask)
        .timeout(Duration::from_secs(timeout * u64::from(count + 1)))
        .script(script)
        .boot()?;
    if outcome.script_status != Some(0) {
        bail!(
            "the guest's script ended with {:?}; it printed:\n{}",
            outcome.script_status,
            outcome.script_log
        );
    }
    (0..count)
        .map(|number| {
            let dir = outcome.dir.join("fetched/panics").join(number.to_string());
            let way = WAYS[(first + number) as usize % WAYS.len()];
            read(&dir, way).with_context(|| format!("panic {number}, in {}", dir.display()))
        })
        .collect()
}

fn read(dir: &Path, (way, message): (&'static str, &str)) -> Result<Panic> {
    let text = |name: &str| {
        let path = dir.join(name);
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let told = |name: &str| -> Result<[u64; 2]> {
        let text = text(name)?;
        let numbers: Vec<u64> = text
            .split_whitespace()
            .filter_map(|n| n.parse().ok())
            .collect();
        <[u64; 2]>::try_from(numbers)
            .ok()
            .with_context(|| format!("{name} says `{text}`"))
    };
    let trace = dir.join("trace");
    let end = reading::summary(&trace)?["end"].clone();
    let said = end["text"].as_str().unwrap_or_default();
    if end["how"] != "panic" || !said.contains(message) {
        bail!("expected a panic with `{message}`, the trace says {end}");
    }
    let events = reading::events(&trace)?;
    let (markers, lines) = (told("markers")?, told("lines")?);
    let mut panic = Panic {
        way,
        markers: [Count::default(); 2],
        lines: [Count::default(); 2],
    };
    for cpu in 0..2 {
        let numbers = events
            .iter()
            .filter(|event| event.name() == "svc:witness")
            .filter(|event| event.number("cpu") == Some(cpu as u64))
            .filter_map(|event| event.number("number"))
            .collect();
        panic.markers[cpu] = Count::new(markers[cpu], numbers);
        let numbers = text(&format!("ftrace{cpu}"))?
            .lines()
            .filter_map(|line| line.rsplit_once(' ')?.1.parse().ok())
            .collect();
        panic.lines[cpu] = Count::new(lines[cpu], numbers);
    }
    Ok(panic)
}

/// Prints the table; fails when a marker's event is missing or there twice.
fn report(panics: &[Panic]) -> ExitCode {
    println!("                  markers                            ftrace trace_instance");
    println!(
        "panic  by         committed   missing   wrong        written     missing   wrong   CPUs lost"
    );
    let mut sums = [[0; 4]; 2];
    for (number, panic) in panics.iter().enumerate() {
        let rows = [&panic.markers, &panic.lines].map(|counts| {
            [
                counts.iter().map(|count| count.told).sum::<u64>(),
                counts.iter().map(Count::missing).sum(),
                counts.iter().map(|count| count.wrong).sum(),
                counts
                    .iter()
                    .filter(|count| count.told != 0 && count.found == 0)
                    .count() as u64,
            ]
        });
        print_row(&number.to_string(), panic.way, &rows);
        for (sum, row) in sums.iter_mut().zip(rows) {
            sum.iter_mut()
                .zip(row)
                .for_each(|(sum, value)| *sum += value);
        }
    }
    print_row("all", "", &sums);
    let [_, missing, wrong, _] = sums[0];
    if missing == 0 && wrong == 0 {
        ExitCode::SUCCESS
    } else {
        eprintln!("{missing} committed events are missing, {wrong} are wrong");
        ExitCode::FAILURE
    }
}

fn print_row(name: &str, way: &str, [markers, lines]: &[[u64; 4]; 2]) {
    println!(
        "{name:>5}  {way:<8} {:>12} {:>9} {:>7}   {:>12} {:>11} {:>7} {:>11}",
        markers[0], markers[1], markers[2], lines[0], lines[1], lines[2], lines[3]
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_committed_must_be_there_once() {
        let count = |told, numbers: &[u64]| {
            let count = Count::new(told, numbers.to_vec());
            (count.missing(), count.wrong)
        };
        assert_eq!(count(3, &[1, 2, 3]), (0, 0));
        assert_eq!(count(3, &[1, 2, 3, 4]), (0, 0));
        assert_eq!(count(3, &[1, 3]), (1, 0));
        assert_eq!(count(3, &[1, 2, 2, 3, 5]), (0, 2));
        assert_eq!(count(0, &[]), (0, 0));
    }
}
