//! A counter counts.

fn main() {
    markers::counter!("ui", "counter", path: str = "/");
}
