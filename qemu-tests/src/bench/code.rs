//! The machine code of a marker that is off, read from the program that was measured.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};
use serde::Serialize;

use crate::process;

/// The function that holds the marker.
const FUNCTION: &str = "bootmark_bench_marker";
/// What stands before the marker and behind it there.
const FENCE_POST: &str = "endbr64";

/// The straight path through it.
#[derive(Debug, Clone, Serialize)]
pub struct Code {
    /// Its instructions.
    pub straight_path: Vec<String>,
}

/// Disassembles the marker, and insists on a comparison with memory and a jump not taken.
///
/// # Errors
/// When there is anything else on the straight path.
pub fn of_disabled_marker(program: &Path) -> Result<Code> {
    let text = process::output(
        Command::new("objdump")
            .args(["-d", "--no-show-raw-insn", "-M", "intel"])
            .arg(format!("--disassemble={FUNCTION}"))
            .arg(program),
    )?;
    let straight_path = straight_path(&text);
    let shape: Vec<&str> = straight_path
        .iter()
        .filter_map(|instruction| instruction.split_whitespace().next())
        .collect();
    if shape != ["cmp", "jne"] {
        bail!(
            "a marker that is off must take a cmp and a jne, and takes:\n  {}",
            straight_path.join("\n  ")
        );
    }
    Ok(Code { straight_path })
}

/// The instructions between the first two fence posts: no jump on the way is taken.
fn straight_path(disassembly: &str) -> Vec<String> {
    let instructions = disassembly.lines().filter_map(|line| {
        let (_, instruction) = line.split_once(":\t")?;
        // Without the address that objdump adds as a comment, which changes with every build.
        let instruction = instruction.split('#').next().unwrap_or_default();
        Some(instruction.split_whitespace().collect::<Vec<_>>().join(" "))
    });
    instructions
        .skip_while(|instruction| instruction != FENCE_POST)
        .skip(1)
        .take_while(|instruction| instruction != FENCE_POST)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_lies_between_the_fence_posts() {
        let text = "\n0000000000001000 <bootmark_bench_marker>:\n    0fff:\tpush   rbx\n    1000:\tendbr64\n    1004:\tcmp    DWORD PTR [rip+0x8],0x0        # 1010 <x>\n    100b:\tjne    1014 <bootmark_bench_marker+0x14>\n    100d:\tendbr64\n    1011:\tpop    rbx\n    1012:\tret\n";
        assert_eq!(
            straight_path(text),
            [
                "cmp DWORD PTR [rip+0x8],0x0",
                "jne 1014 <bootmark_bench_marker+0x14>"
            ]
        );
    }
}
