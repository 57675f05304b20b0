//! Provider and name are known when the program is compiled.

fn main() {
    let name = String::from("name");
    markers::marker!("ui", name.as_str());
}
