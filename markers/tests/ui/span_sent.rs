//! A span stays on its thread.

fn main() {
    let span = markers::span!("ui", "span");
    std::thread::spawn(move || drop(span));
}
