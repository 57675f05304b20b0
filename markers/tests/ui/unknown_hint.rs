//! Hints are those of the ABI.

fn main() {
    markers::marker!("ui", "hint", size: u32 [octal] = 1);
}
