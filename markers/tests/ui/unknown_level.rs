//! Levels are those of syslog.

fn main() {
    markers::marker!("ui", "level", level = trace);
}
