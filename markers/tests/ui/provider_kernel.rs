//! The kernel's own markers have this provider.

fn main() {
    markers::marker!("kernel", "name");
}
