//! `/proc/PID/bootmark`: cat and echo alone drive running processes.

use qemu_tests::guest::Guest;
use qemu_tests::reading;

/// `start MODE` runs a target and sets `pid`, also to that of its child if it has one; `state NAME`
/// prints the state of a marker of it.
const FUNCTIONS: &str = r#"
start() {
    : > /run/said
    /usr/lib/bootmark/services/svc-target "$1" < "${2:-/dev/null}" > /run/said &
    started=$!
    until pid=$(sed -n 's/^pid //p' /run/said) && [ -n "$pid" ]; do sleep 0.05; done
}
state() {
    grep " target:$1 " "/proc/$pid/bootmark" | while read -r state rest; do echo "$state"; done | uniq
}
"#;

#[test]
fn cat_and_echo_drive_a_running_process() {
    let script = FUNCTIONS.to_owned()
        + r#"
start beat
echo "first $(state beat)"
grep target: /proc/$pid/bootmark | sed "s/^/list: /"
echo "mode $(stat -c %a /proc/$pid/bootmark)"
echo 'enable target:beat' > /proc/$pid/bootmark
echo "enabled $(state beat) $(state turn)"
sleep 0.3
echo 'disable target:beat' > /proc/$pid/bootmark
echo "disabled $(state beat)"
echo 'enable target:beat/number % 2/' > /proc/$pid/bootmark || echo "bad filter refused"
printf 'enable target:*\n\n  disable target:turn \n' > /proc/$pid/bootmark
echo "two $(state beat) $(state turn)"
echo 'enable target:beat/number > 1000000/' > /proc/$pid/bootmark
echo "filter $(state beat)"
echo 'disable target:*' > /proc/$pid/bootmark
for line in nonsense 'enable' 'enable a b' 'enable !target:beat' 'enabletarget:beat' \
    'enable target:*@pid=1' "$(printf 'enable target:*\001')"; do
    echo "$line" > /proc/$pid/bootmark && echo "took $line"
done
# The lines in front of a bad one count.
printf 'enable target:turn\nnonsense\n' > /proc/$pid/bootmark || echo "second line refused"
echo "partly $(state turn)"
# A child of the shell, not of the target, is another process.
echo "others $(grep -c ' target:' /proc/1/bootmark)"
bootmark status --json | grep -o 'target:turn@pid=[0-9]*' | head -n 1 | sed "s/@pid=$pid/ PID/"
kill $started
wait $started 2>/dev/null
cat /proc/$pid/bootmark 2>/dev/null && echo "still there"
echo "left $(bootmark status --json | grep -c 'target:turn@pid')"
echo done 0
"#;
    let outcome = Guest::new()
        .rules("")
        .append("bootmark.services=no")
        .script(script)
        .boot()
        .unwrap();
    let log = &outcome.script_log;
    assert_eq!(outcome.printed("first"), "off", "{log}");
    assert_eq!(outcome.printed("mode"), "600");
    let list: Vec<Vec<&str>> = log
        .lines()
        .filter_map(|line| line.strip_prefix("list: "))
        .map(|line| line.split_whitespace().collect())
        .collect();
    let beat = list.iter().find(|line| line[4] == "target:beat").unwrap();
    assert_eq!((beat[0], beat[2], beat[3]), ("off", "instant", "notice"));
    assert_eq!(beat[5], "/usr/lib/bootmark/services/svc-target");
    let mut kinds: Vec<_> = list
        .iter()
        .filter(|line| line[4] == "target:turn")
        .map(|line| line[2])
        .collect();
    // In the linker's order.
    kinds.sort_unstable();
    assert_eq!(kinds, ["begin", "end"]);
    assert_eq!(outcome.printed("enabled"), "on off", "{log}");
    assert_eq!(outcome.printed("disabled"), "off");
    assert!(log.contains("bad filter refused"), "{log}");
    assert_eq!(outcome.printed("two"), "on off", "{log}");
    assert_eq!(outcome.printed("filter"), "filtered", "{log}");
    assert!(!log.contains("took "), "{log}");
    assert!(log.contains("second line refused"), "{log}");
    assert_eq!(outcome.printed("partly"), "on", "{log}");
    assert_eq!(outcome.printed("others"), "0");
    assert!(log.contains("target:turn PID"), "{log}");
    assert!(!log.contains("still there"), "{log}");
    assert_eq!(
        outcome.printed("left"),
        "0",
        "the rule outlived its process"
    );
    outcome.printed("done");
    outcome.shows(&["rule 'a b', position 2: a character that cannot be here"]);

    let events = reading::events(&outcome.trace()).unwrap();
    let beats = events
        .iter()
        .filter(|event| event.name() == "target:beat")
        .count();
    assert!(beats > 5, "{beats} beats in 0.3 s");
}

#[test]
fn targets_that_do_not_run_are_reached_and_not_disturbed() {
    let script = FUNCTIONS.to_owned()
        + r#"
about() {
    echo "$1 $(state "$2") $(sed -n 's/^State:\t\(.\).*/\1/p' /proc/$pid/status)" \
        "$(sed -n 's/^SigPnd:\t//p;s/^ShdPnd:\t//p' /proc/$pid/status | tr -d '\n')"
}
start beat
kill -STOP $pid
sleep 0.1
echo 'enable target:beat' > /proc/$pid/bootmark
about stopped beat
kill -CONT $pid
kill $started

start traced
echo 'enable target:beat' > /proc/$pid/bootmark
about traced beat
echo "tracer $([ "$(sed -n 's/^TracerPid:\t//p' /proc/$pid/status)" = $started ] && echo same)"
kill -9 $pid $started

mkfifo /run/fifo
exec 3<> /run/fifo
start read /run/fifo
sleep 0.3
echo 'enable target:after' > /proc/$pid/bootmark
about reading after
echo x >&3
exec 3>&-
sleep 0.5

start zombie
cat /proc/$pid/bootmark
echo "zombie $?"
kill $started

# Another user sees only what is theirs.
start beat
su -s /bin/sh nobody -c "cat /proc/$pid/bootmark; echo 'enable target:*' > /proc/$pid/bootmark" && echo "let in"
echo "untouched $(state beat)"
kill $started
su -s /bin/sh nobody -c '
    /usr/lib/bootmark/services/svc-target beat > /tmp/said &
    until pid=$(sed -n "s/^pid //p" /tmp/said) && [ -n "$pid" ]; do sleep 0.05; done
    echo "enable target:beat" > /proc/$pid/bootmark
    echo "own $(grep -c "^on .* target:beat " /proc/$pid/bootmark)"
    i=0
    while [ $i -lt 40 ]; do echo "enable target:b$i" > /proc/$pid/bootmark || break; i=$((i + 1)); done
    echo "rules $i"
    kill $pid
' 2>/dev/null
echo done 0
"#;
    let outcome = Guest::new()
        .rules("")
        .append("bootmark.services=no")
        .script(script)
        .boot()
        .unwrap();
    let log = &outcome.script_log;
    let none = "00000000000000000000000000000000";
    assert_eq!(outcome.printed("stopped"), format!("on T {none}"), "{log}");
    assert_eq!(outcome.printed("traced"), format!("on t {none}"), "{log}");
    assert_eq!(outcome.printed("tracer"), "same", "{log}");
    assert_eq!(outcome.printed("reading"), format!("on S {none}"), "{log}");
    assert!(log.contains("No such process"), "{log}");
    assert_eq!(outcome.printed("zombie"), "1", "{log}");
    assert!(
        log.contains("Permission denied") && !log.contains("let in"),
        "{log}"
    );
    assert_eq!(outcome.printed("untouched"), "off", "{log}");
    assert_eq!(outcome.printed("own"), "1", "{log}");
    assert_eq!(outcome.printed("rules"), "15", "{log}");
    outcome.printed("done");

    // The read that was under way was not interrupted.
    let events = reading::events(&outcome.trace()).unwrap();
    let after = events
        .iter()
        .find(|event| event.name() == "target:after")
        .expect("the reading target was not reached");
    assert_eq!(after.0["fields"]["ret"].as_i64(), Some(0));
}
