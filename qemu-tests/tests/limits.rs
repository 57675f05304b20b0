//! What the quotas of the pool are for, and what is said of who came off badly: nobody can take from
//! PID 1 what it needs, and of every thread it is known how many events it lost.

use std::collections::BTreeMap;

use qemu_tests::guest::Guest;
use qemu_tests::outcome::Outcome;
use qemu_tests::reading;
use serde_json::Value;

/// What svc-limits said that threads tried: process, thread, events.
fn tried(outcome: &Outcome) -> Vec<(u64, u64, u64)> {
    let lines = outcome.script_log.lines();
    lines
        .filter_map(|line| {
            let numbers = line.strip_prefix("tried ")?.split(' ');
            let numbers: Vec<u64> = numbers.map(|text| text.parse().unwrap()).collect();
            <[u64; 3]>::try_from(numbers)
                .ok()
                .map(|[p, t, e]| (p, t, e))
        })
        .collect()
}

/// The streams of a summary.
fn streams(summary: &Value) -> &Vec<Value> {
    summary["streams"].as_array().unwrap()
}

/// Events of streams that were recorded, lost, and overwritten.
fn books<'a>(streams: impl Iterator<Item = &'a Value>) -> [u64; 3] {
    streams.fold([0; 3], |[events, lost, overwritten], stream| {
        let number = |key: &str| stream[key].as_u64().unwrap();
        [
            events + number("events"),
            lost + number("lost"),
            overwritten + number("overwritten"),
        ]
    })
}

#[test]
fn every_thread_s_losses_are_known() {
    // Each run is a process with a share of its own, and what it wrote stays unread. The second user
    // comes when the first has filled its half of the pool; the crowd is too many for a record each.
    let script = r#"
        run=/usr/lib/bootmark/services/svc-limits
        $run count 0 3 9000
        for n in 1 2 3; do $run count 1000 1 9000; done
        $run crowd 1000 300 5
        for n in 1 2; do $run count 1001 1 6000; done
        $run count 0 1 5000
        $run count 0 0 77
        bootmark status --json | awk -F'[:,]' '/events_lost/ { print "lost" $2 }'
    "#;
    let outcome = Guest::new()
        .pool("512K")
        .rules("init:*,limits:*")
        .append("bootmark.services=no")
        .script(script)
        .boot()
        .unwrap();
    assert_eq!(outcome.script_status, Some(0), "{}", outcome.script_log);

    let summary = reading::summary(&outcome.trace()).unwrap();
    let streams = streams(&summary);
    let tried = tried(&outcome);
    assert_eq!(tried.len(), 4 + 6 + 4 + 2 + 1, "{}", outcome.script_log);
    let mut without_a_chunk = 0;
    for (pid, tid, events) in &tried {
        let its = |stream: &&Value| stream["pid"] == *pid && stream["tid"] == *tid;
        let [recorded, lost, overwritten] = books(streams.iter().filter(its));
        assert_eq!(
            recorded + lost,
            *events,
            "thread {tid} of {pid}: {summary:#}"
        );
        assert_eq!(overwritten, 0);
        without_a_chunk += u64::from(recorded == 0);
    }
    assert!(without_a_chunk > 3, "{summary:#}");

    // Of the crowd the first are told one by one, the others by their sum.
    let mut crowd: BTreeMap<bool, u64> = BTreeMap::new();
    let counted: Vec<u64> = tried.iter().map(|(pid, ..)| *pid).collect();
    let others = streams.iter().filter(|stream| {
        !counted.contains(&stream["pid"].as_u64().unwrap())
            && stream["comm"]
                .as_str()
                .is_some_and(|comm| comm.starts_with("svc-limits"))
            || stream["pid"] == 0 && stream["threads"].as_u64() > Some(1)
    });
    for stream in others {
        let [recorded, lost, _] = books([stream].into_iter());
        *crowd.entry(stream["pid"] == 0).or_default() += recorded + lost;
    }
    assert_eq!(crowd.values().sum::<u64>(), 300 * 5, "{summary:#}");
    assert!(crowd.len() == 2 && crowd[&true] >= 20 * 5, "{crowd:?}");

    // The kernel's own sum says the same.
    let lost: u64 = outcome.printed("lost").parse().unwrap();
    assert_eq!(summary["lost"].as_u64(), Some(lost), "{summary:#}");
    let reasons = |why: &str| streams.iter().any(|stream| stream["why"] == why);
    assert!(
        reasons("its process had its share of the buffers"),
        "{summary:#}"
    );
    assert!(
        reasons("its user had its share of the buffers"),
        "{summary:#}"
    );
    assert!(reasons("the buffers were full"), "{summary:#}");

    // PID 1 lost nothing, and went on recording: what comes after the script is there.
    let of_init = |stream: &&Value| stream["pid"] == 1;
    assert_eq!(books(streams.iter().filter(of_init))[1], 0, "{summary:#}");
    let events = reading::events(&outcome.trace()).unwrap();
    let ticks = events.iter().filter(|event| event.name() == "limits:tick");
    let last = ticks.map(reading::Event::ns).max().unwrap();
    assert!(
        events
            .iter()
            .any(|event| event.pid() == Some(1) && event.ns() > last)
    );
}

#[test]
fn a_flight_recorder_keeps_the_latest_events_and_counts_the_others() {
    // A process may have a quarter of the pool: about 10,000 of these events.
    let script = r#"
        run=/usr/lib/bootmark/services/svc-limits
        $run killed 100000
        echo "status $?"
        $run count 1000 2 30000
        bootmark enable --mode flight 'kernel:sched_process_*'
        forks() { while read name value; do [ $name = processes ] && echo "$1 $value"; done < /proc/stat; }
        forks before
        $run crowd 0 3500 0
        forks after
        bootmark disable 'kernel:sched_process_*'
        bootmark status --json | awk -F'[:,]' '
            /events_lost/ { print "lost" $2 } /events_overwritten/ { print "overwritten" $2 }'
    "#;
    let outcome = Guest::new()
        .pool("1M")
        .rules("init:*,limits:*@mode=flight")
        .append("bootmark.services=no")
        .script(script)
        .boot()
        .unwrap();
    assert_eq!(outcome.script_status, Some(0), "{}", outcome.script_log);
    assert_eq!(outcome.printed("status"), "137");
    let summary = reading::summary(&outcome.trace()).unwrap();
    let streams = streams(&summary);
    let events = reading::events(&outcome.trace()).unwrap();

    // The killed process: the latest of its events without a gap, and all the others counted.
    let killed = events.iter().find(|event| event.name() == "limits:tick");
    let killed = killed.unwrap().pid().unwrap();
    let numbers: Vec<u64> = events
        .iter()
        .filter(|event| event.pid() == Some(killed))
        .map(|event| event.number("number").unwrap())
        .collect();
    assert!(numbers.len() > 5000, "{}", numbers.len());
    let first = 100_000 - numbers.len() as u64;
    assert!(numbers.iter().copied().eq(first..100_000), "{first}");
    let its = |stream: &&Value| stream["pid"] == killed;
    let expected = [numbers.len() as u64, first, first];
    assert_eq!(books(streams.iter().filter(its)), expected, "{summary:#}");

    // Threads that ended before they were overwritten.
    let tried = tried(&outcome);
    assert_eq!(tried.len(), 4);
    for (pid, tid, events) in tried {
        let its = |stream: &&Value| stream["pid"] == pid && stream["tid"] == tid;
        let [recorded, lost, overwritten] = books(streams.iter().filter(its));
        assert_eq!(
            recorded + lost,
            events,
            "thread {tid} of {pid}: {summary:#}"
        );
        assert_eq!(lost, overwritten, "thread {tid} of {pid}: {summary:#}");
    }

    // The kernel's own: all that the crowd did is there or counted, and no more than happened.
    let number = |key: &str| outcome.printed(key).parse::<u64>().unwrap();
    let of_kernel = |stream: &&Value| {
        stream["file"]
            .as_str()
            .is_some_and(|file| file.starts_with("cpu"))
    };
    let [recorded, lost, overwritten] = books(streams.iter().filter(of_kernel));
    assert!(overwritten > 0 && lost == overwritten, "{summary:#}");
    // A fork and an exit each; those of the tools around it, and their exec, come on top.
    let forks = number("after") - number("before");
    assert!(recorded + lost >= 2 * 3500, "{recorded} {lost}");
    assert!(
        recorded + lost <= 2 * forks + 12,
        "{recorded} {lost} {forks}"
    );

    assert_eq!(summary["lost"], number("lost"), "{summary:#}");
    assert_eq!(summary["overwritten"], number("overwritten"), "{summary:#}");

    // Another reader understands it: it says how many are missing, and nothing else.
    let said = reading::babeltrace_losses(&outcome.trace()).unwrap();
    assert_eq!(said.events, events.len());
    assert!(
        said.complaints
            .iter()
            .all(|line| line.contains("Tracer ") && line.contains(" discarded ")),
        "{:?}",
        said.complaints
    );
}
