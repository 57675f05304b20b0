//! bootmark.h: what its macros hand over, and what they refuse, with both compilers.

mod common;

use std::process::Command;

use common::{c_compiler, output, run, scratch, source};

#[test]
fn values_arrive_as_they_are() {
    let dir = scratch("c-values");
    for compiler in ["gcc", "clang"] {
        for level in ["-O0", "-O2"] {
            let program = dir.join(format!("{compiler}{level}"));
            // The program turns its markers on itself, with constants of the kernel's header.
            run(c_compiler(compiler)
                .args([level, "-DBOOTMARK_STATE_ENABLED=1", "-o"])
                .arg(&program)
                .arg(source("tests/fixtures/values.c")));
            let expected = "\
1 v:none
1 v:unsigned a=255 b=65535 c=4000000000 d=18446744073709551615 e=1 f=2
1 v:signed a=-1 b=-2 c=-3 d=-9223372036854775808 errno=-2
1 v:other f=1.5 d=0.25 b=1 clock=5 ns=6 size=7
1 v:text s=\"text\" null=NULL n=\"ab\" bytes=\"abc\"
4 v:count n=1
2 v:span n=2
3 v:span begin=77 ret=-5
2 evaluated; arg 16 8, span 16
";
            assert_eq!(
                run(&mut Command::new(&program)),
                expected,
                "{compiler} {level}"
            );
        }
    }
}

/// Each with what the compiler must say.
const REFUSED: [(&str, &str); 19] = [
    (
        r#"BOOTMARK("a_provider_of_24_octets_", "n")"#,
        "provider is longer than 23 octets (BOOTMARK_PROVIDER_LEN - 1)",
    ),
    (r#"BOOTMARK("", "n")"#, "provider is empty"),
    (
        r#"BOOTMARK("a:b", "n")"#,
        "provider may hold ASCII letters, digits, _, - and . only",
    ),
    (
        r#"BOOTMARK("kernel", "n")"#,
        "provider kernel belongs to the kernel",
    ),
    (
        r#"BOOTMARK("p", "a_name_that_has_40_octets_is_one_too_long")"#,
        "name is longer than 39 octets (BOOTMARK_NAME_LEN - 1)",
    ),
    (r#"BOOTMARK("p", "")"#, "name is empty"),
    (
        r#"BOOTMARK("p", "two words")"#,
        "name may hold ASCII letters, digits, _, - and . only",
    ),
    (
        r#"BOOTMARK("p", "na\303\244me")"#,
        "name may hold ASCII letters, digits, _, - and . only",
    ),
    (r#"(void)BOOTMARK_SPAN("p", "")"#, "name is empty"),
    (
        r#"BOOTMARK("p", "n", BM_U8(a, 1), BM_U8(b, 1), BM_U8(c, 1), BM_U8(d, 1), BM_U8(e, 1), BM_U8(f, 1), BM_U8(g, 1), BM_U8(h, 1), BM_U8(i, 1))"#,
        "marker has more than 8 fields (BOOTMARK_MAX_FIELDS)",
    ),
    (
        r#"BOOTMARK("p", "n", BM_U8(a_field_whose_name_takes_exactly_forty_8, 1), BM_U8(another_field_of_forty_octets_in_its_name, 1), BM_U8(and_a_third_one_whose_name_has_so_many_as, 1), BM_U8(one_that_no_longer_fits_with_others, 1))"#,
        "field names and labels take more than 144 octets (BOOTMARK_STRINGS_LEN)",
    ),
    (
        r#"BOOTMARK("p", "n", BM_U8(x, 1), BM_U16(x, 1))"#,
        "duplicate member",
    ),
    (
        r#"BOOTMARK("p", "n", BM_U8(1st, 1))"#,
        "the name of a field starts with a digit",
    ),
    (
        r#"BOOTMARK("p", "n", BM_ENUM(e, 1, "off", ""))"#,
        "label is empty",
    ),
    (
        r#"BOOTMARK_LEVEL(8, "p", "n")"#,
        "level is not 0 to 7 (BOOTMARK_LEVEL_MAX)",
    ),
    (
        r#"BOOTMARK_COUNT("p", "n", BM_STR(s, "x"))"#,
        "a counter needs a field with a number",
    ),
    (
        r#"BOOTMARK("p", "n", BM_STR(s, 5))"#,
        "pointer/integer type mismatch in conditional expression",
    ),
    (r#"const char *p = "p"; BOOTMARK(p, "n")"#, "expected"),
    (r#"BOOTMARK("p")"#, "NONE"),
];

#[test]
fn what_exceeds_a_limit_does_not_compile() {
    let dir = scratch("c-refused");
    let file = dir.join("refused.c");
    for (statement, message) in REFUSED {
        let code =
            format!("#include <bootmark.h>\nvoid f(void);\nvoid f(void) {{ {statement}; }}\n");
        std::fs::write(&file, code).unwrap();
        for compiler in ["gcc", "clang"] {
            for level in ["-O0", "-O2"] {
                let output = output(
                    c_compiler(compiler)
                        .args([level, "-c", "-o", "/dev/null"])
                        .arg(&file),
                );
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(
                    !output.status.success(),
                    "{compiler} {level} takes {statement}"
                );
                assert!(
                    said.contains(message),
                    "{compiler} {level}, {statement}:\n{said}"
                );
            }
        }
    }
}

#[test]
fn what_is_just_within_the_limits_compiles_without_a_warning() {
    let dir = scratch("c-limits");
    let file = dir.join("limits.c");
    let statements = [
        r#"BOOTMARK("a_provider_of_23_octets", "a-name_of.39_octets_that_is_the_longest")"#,
        r#"BOOTMARK("kernel.", "n"); BOOTMARK("k", "n")"#,
        r#"BOOTMARK("p", "n", BM_U8(a_field_whose_name_takes_exactly_forty_8, 1), BM_U8(another_field_of_forty_octets_in_its_name, 1), BM_U8(and_a_third_one_whose_name_has_so_many_a, 1), BM_U8(the_rest_is_22_octets_, 1))"#,
        r#"BOOTMARK("p", "n", BM_ENUM(e, 1, "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "a", "b", "c", "d", "e", "f"))"#,
        r#"BOOTMARK("p", "n", BM_ENUM(one, 0, "label"))"#,
        r#"BOOTMARK("p", "n", BM_U8(unix, 1), BM_U8(linux, 1), BM_U8(NULL, 1))"#,
        r#"if (sizeof(int) == 4) BOOTMARK("p", "then"); else BOOTMARK("p", "else")"#,
    ];
    let mut code = "#include <bootmark.h>\nvoid f(void);\nvoid f(void) {\n".to_string();
    for statement in statements {
        code.push_str(&format!("{statement};\n"));
    }
    code.push_str("}\n");
    std::fs::write(&file, code).unwrap();
    for compiler in ["gcc", "clang"] {
        for standard in ["-std=c11", "-std=gnu17", "-std=gnu11"] {
            run(c_compiler(compiler)
                .args([standard, "-O2", "-c", "-o", "/dev/null"])
                .arg(&file));
        }
    }
}
