//! The measurements in the guest that are checks as well.

use qemu_tests::bench::fleet;

/// The program in the guest looks into each process's memory after each step, and fails when one was
/// left out.
#[test]
fn a_rule_reaches_every_one_of_many_processes() {
    let fleet = fleet::measure(true).unwrap();
    assert_eq!(fleet.processes, 200);
    assert!(fleet.rule_on.median > 0.0 && fleet.uprobe_on.median > 0.0);
    println!("{}", serde_json::to_string(&fleet).unwrap());
}
