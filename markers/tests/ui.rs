//! What exceeds a limit does not compile, and the message names the limit.

#[test]
fn messages_name_the_limit() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/ok.rs");
    for case in std::fs::read_dir("tests/ui").unwrap() {
        let path = case.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("ok.rs") {
            cases.compile_fail(path);
        }
    }
}
