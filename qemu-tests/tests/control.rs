//! Rules with scopes and filters: from the command line, from the boot configuration, and at run time.

use std::fmt::Write;

use qemu_tests::guest::Guest;
use qemu_tests::outcome::Outcome;
use qemu_tests::reading;
use serde_json::Value;

/// The rules of a section with `bootmark status --json`.
fn rules(outcome: &Outcome, title: &str) -> Vec<Value> {
    let status: Value = serde_json::from_str(outcome.section(title)).unwrap();
    status["rules"].as_array().unwrap().clone()
}

fn texts(rules: &[Value]) -> Vec<&str> {
    rules
        .iter()
        .map(|rule| rule["text"].as_str().unwrap())
        .collect()
}

#[test]
fn scopes_reach_the_processes_they_mean() {
    let script = "
        filter=/usr/lib/bootmark/services/svc-filter
        cp $filter /tmp/elsewhere
        # Prints the number of the process that runs a program.
        as() { name=$1; shift; sh -c 'echo \"'$name' $$\"; exec \"$@\" >/dev/null' sh \"$@\"; }

        bootmark enable --exe '/tmp/*' 'flt:item' 2>&1
        as inside /tmp/elsewhere items
        as outside $filter items
        bootmark forget --all

        bootmark enable --uid 65534 'flt:item' 2>&1
        start-stop-daemon -S -c nobody -x $filter -- items >/dev/null
        as root $filter items
        bootmark forget --all

        sh -c 'echo \"named $$\"; bootmark enable --pid $$ flt:item 2>/dev/null
               sh -c \"echo child \\$\\$; exec '$filter' items >/dev/null\"
               exec '$filter' items >/dev/null'
        as other $filter items
        echo '== status'
        bootmark status --json
        echo '== levels'
        bootmark forget --all
        bootmark enable --level warning 'flt:item' 2>&1
        as quiet $filter items
        bootmark enable --level info 'flt:item' 2>&1
        as loud $filter items

        echo '== ids'
        bootmark enable '!flt:item' >/dev/null
        bootmark status
        id=$(bootmark status | sed -n 's/^ *\\([0-9]*\\) !flt:item .*/\\1/p')
        bootmark forget --id $id
        echo \"removed $?\"
        bootmark forget --id $id 2>/dev/null
        echo \"again $?\"
        as after $filter items
    ";
    let outcome = Guest::new()
        .rules("")
        .append("bootmark.services=no")
        .script(script)
        .boot()
        .unwrap();
    let events = reading::events(&outcome.trace()).unwrap();
    let of = |name: &str| {
        let pid: u64 = outcome.printed(name).parse().unwrap();
        events.iter().filter(|e| e.pid() == Some(pid)).count()
    };
    for (name, count) in [
        ("inside", 200),
        ("outside", 0),
        ("root", 0),
        ("named", 200),
        ("child", 0),
        ("other", 0),
        ("quiet", 0),
        ("loud", 200),
        ("after", 200),
    ] {
        assert_eq!(of(name), count, "{name}:\n{}", outcome.script_log);
    }
    let rest: usize = ["inside", "named", "loud", "after"]
        .into_iter()
        .map(of)
        .sum();
    // Those of the process of another user are all that is left.
    assert_eq!(events.len() - rest, 200);

    let rules = rules(&outcome, "status");
    assert_eq!(rules.len(), 1);
    let named = format!("flt:item@pid={}", outcome.printed("named"));
    assert_eq!(rules[0]["text"], named.as_str());
    assert_eq!(rules[0]["scoped"], true);
    assert_eq!(outcome.printed("removed"), "0");
    assert_eq!(outcome.printed("again"), "1");
    let ids = outcome.section("ids");
    assert!(ids.contains("flt:item@level=info"), "{ids}");
    assert!(ids.contains("matches nothing yet"), "{ids}");
}

#[test]
fn filters_are_checked_and_their_misfits_named() {
    let script = "
        filter=/usr/lib/bootmark/services/svc-filter
        try() { echo \"== $1\"; bootmark enable \"$2\" 2>&1; echo \"exit $?\"; }
        # The kernel looks into files while there is a rule.
        bootmark enable '!flt:item' >/dev/null 2>&1
        $filter items >/dev/null
        try syntax 'flt:item/n == 1 && = 2/'
        try scope 'flt:item@loud=3'
        try negated '!flt:item/n == 1/'
        try nobody 'flt:item@pid=4000000'
        try fits 'flt:item/n < 10/'
        try misfit 'flt:i*/n == 1 && n/'
        bootmark enable 'flt:*/nothing == 1/' >/dev/null 2>&1
        bootmark enable 'kernel:initcall/ret != 0/' >/dev/null 2>&1
        echo '== json'
        bootmark status --json
        echo '== text'
        bootmark status
    ";
    let outcome = Guest::new()
        .rules("")
        .append("bootmark.services=no bootmark.extract=no")
        .script(script)
        .boot()
        .unwrap();
    let log = &outcome.script_log;
    let has = |title: &str, words: &[&str]| {
        let section = outcome.section(title);
        for word in words {
            assert!(section.contains(word), "{title}: no {word:?}:\n{log}");
        }
    };
    has(
        "syntax",
        &[
            "at character 20:",
            "flt:item/n == 1 && = 2/\n                     ^",
            "exit 1",
        ],
    );
    has(
        "scope",
        &["at character 10:", "pid=, uid=, exe=, level=, mode="],
    );
    has("negated", &["at character 10:", "no filter"]);
    has("nobody", &["no process", "exit 1"]);
    has("misfit", &["1 marker", "exit 0"]);
    has("fits", &["flt:item/n < 10/: 1 marker", "exit 0"]);

    let rules = rules(&outcome, "json");
    let of = |text: &str| -> &Value {
        let found = rules.iter().find(|rule| rule["text"] == text);
        found.unwrap_or_else(|| panic!("no rule {text}:\n{log}"))
    };
    assert_eq!(of("flt:item/n < 10/")["unfiltered"], serde_json::json!([]));
    let misfits = of("flt:*/nothing == 1/")["unfiltered"].as_array().unwrap();
    assert!(
        misfits.iter().any(
            |m| m["event"] == "flt:item" && m["reason"].as_str().unwrap().contains("`nothing`")
        ),
        "{misfits:?}"
    );
    let reason = &of("flt:i*/n == 1 && n/")["unfiltered"][0]["reason"];
    assert!(
        reason.as_str().unwrap().contains("takes truth values"),
        "{reason}"
    );
    let kernel = of("kernel:initcall/ret != 0/")["unfiltered"]
        .as_array()
        .unwrap();
    assert_eq!(kernel.len(), 2, "{kernel:?}");
    has("text", &["records everything:", "the kernel records all"]);
}

#[test]
fn the_command_line_carries_several_rules() {
    let script = "
        echo '== status'
        bootmark status --json
    ";
    let outcome = Guest::new()
        .rules("init:start , init:*/pid==1/,init:mount/fstype == 'a, b' || ret == 0 & 1/")
        .append(
            "bootmark=init:exec@pid=1,init:a/b=1/,init:stop/how==\"halt\"/ \
             bootmark=\"init:b/x == 'open, init:cleanup@level=notice\" \
             bootmark=init:c{count(,init:move_mount{count(),max(dur)},svc:*@pid=77,@x,!init:cmdline",
        )
        .script(script)
        .boot()
        .unwrap();
    let status = rules(&outcome, "status");
    assert_eq!(
        texts(&status),
        [
            "init:start",
            "init:*/pid==1/",
            "init:mount/fstype == 'a, b' || ret == 0 & 1/",
            "init:exec@pid=1",
            "init:stop/how==\"halt\"/",
            "init:cleanup@level=notice",
            "init:move_mount{count(),max(dur)}",
            "!init:cmdline",
        ]
    );
    assert!(status.iter().all(|rule| rule["boot"] == true));
    outcome.tells(&["rule 'init:a/b=1/', position 8:", "'=='"]);
    outcome.tells(&["rule 'init:b/x == 'open', position 12: a quote"]);
    outcome.tells(&["rule 'init:c{count(', position 13:"]);
    outcome.tells(&["rule '@x', position 0: a scope needs a rule"]);
    outcome.tells(&["svc:*@pid=77", "of all processes only 1"]);

    let events = reading::events(&outcome.trace()).unwrap();
    let count = |name: &str| events.iter().filter(|e| e.name() == name).count();
    assert!(count("init:start") >= 1);
    assert!(count("init:exec") >= 1);
    assert_eq!(count("init:cmdline.begin"), 0);
    // Its level is not urgent enough for the last rule that names it; the one for all has it.
    assert_eq!(count("init:cleanup.begin"), 1);
    // Numbers instead of records.
    assert_eq!(count("init:move_mount.begin"), 0);
}

#[test]
fn long_sets_of_rules_come_from_the_boot_configuration() {
    const RULES: usize = 150;
    let mut text = String::from("kernel.bootmark = ");
    for number in 0..RULES {
        write!(text, "\"nosuch{number}:something.of.some.length\", ").unwrap();
    }
    text += "\"init:mount/ret == 0 || fstype == 'a, b'/\", \"init:start\"\n";
    assert!(text.len() > 4096);
    let script = "
        echo '== rules'
        bootmark status --json | sed -n 's/^ *\"text\": \"\\(.*\\)\",$/\\1/p'
    ";
    let outcome = Guest::new()
        .rules("!init:exec")
        .bootconfig(&text)
        .script(script)
        .boot()
        .unwrap();
    let texts: Vec<&str> = outcome.section("rules").lines().collect();
    assert_eq!(texts.len(), RULES + 3);
    assert_eq!(texts[0], "nosuch0:something.of.some.length");
    assert_eq!(
        texts[RULES..],
        [
            "init:mount/ret == 0 || fstype == 'a, b'/",
            "init:start",
            "!init:exec"
        ]
    );
    let events = reading::events(&outcome.trace()).unwrap();
    assert!(events.iter().any(|event| event.name() == "init:start"));
}
