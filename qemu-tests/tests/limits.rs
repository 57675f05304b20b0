//! What the quotas of the pool are for, and what is said of who came off badly: nobody can take from
//! PID 1 what it needs, and of every thread it is known how many events it lost.

use std::collections::BTreeMap;

use qemu_tests::guest::Guest;
use qemu_tests::outcome::Outcome;
use qemu_tests::reading;
use serde_json::Value;

/// The three numbers in lines of svc-limits that begin with this: mostly process, thread, events tried.
fn said(outcome: &Outcome, key: &str) -> Vec<(u64, u64, u64)> {
    let lines = outcome.script_log.lines();
    lines
        .filter_map(|line| {
            let numbers = line.strip_prefix(key)?.trim().split(' ');
            let numbers: Vec<u64> = numbers.map(|text| text.parse().unwrap()).collect();
            <[u64; 3]>::try_from(numbers)
                .ok()
                .map(|[p, t, e]| (p, t, e))
        })
        .collect()
}

fn tried(outcome: &Outcome) -> Vec<(u64, u64, u64)> {
    said(outcome, "tried")
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
        // Descriptions of all that init has would take what is said of losses in so small a pool.
        .rules("init:s*,limits:*")
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
    // A process may have a quarter of the pool: about 5,000 of these events.
    let script = r#"
        run=/usr/lib/bootmark/services/svc-limits
        $run killed 50000
        echo "status $?"
        $run count 1000 2 15000
        bootmark enable --mode flight 'kernel:sched_process_*'
        forks() { while read name value; do [ $name = processes ] && echo "$1 $value"; done < /proc/stat; }
        forks before
        $run crowd 0 2000 0
        forks after
        bootmark disable 'kernel:sched_process_*'
        bootmark status --json | awk -F'[:,]' '
            /events_lost/ { print "lost" $2 } /events_overwritten/ { print "overwritten" $2 }'
    "#;
    let outcome = Guest::new()
        .pool("512K")
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
    assert!(numbers.len() > 2500, "{}", numbers.len());
    let first = 50_000 - numbers.len() as u64;
    assert!(numbers.iter().copied().eq(first..50_000), "{first}");
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
    assert!(recorded + lost >= 2 * 2000, "{recorded} {lost}");
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

/// Of the streams of a summary those of svc-limits that did not say themselves what they tried.
fn of_others<'a>(streams: &'a [Value], tried: &[(u64, u64, u64)]) -> Vec<&'a Value> {
    let comm = |stream: &Value| stream["comm"].as_str().unwrap_or_default().to_owned();
    streams
        .iter()
        .filter(|stream| {
            let pid = stream["pid"].as_u64().unwrap();
            pid == 0 && stream["threads"].as_u64() > Some(1)
                || comm(stream).starts_with("svc-limits")
                    && !tried.iter().any(|(known, ..)| *known == pid)
        })
        .collect()
}

#[test]
fn a_hog_costs_neither_events_of_pinned_programs_nor_memory_when_it_is_gone() {
    // First those that may not record at all; then the user's processes want all there is, root's
    // take what is left, and the pinned program comes when nothing but its share is free.
    let script = r#"
        run=/usr/lib/bootmark/services/svc-limits
        cp $run /run/pinned
        sysctl=/proc/sys/kernel/bootmark_unprivileged
        echo "default $(cat $sysctl)"
        $run ask 1000
        $run ask 0
        $run count 1000 1 500 | sed 's/^tried/refused/'
        echo 1 > $sysctl
        $run ask 1000
        $run steady 1001 1500 | sed 's/^tried/stopped/' &
        sleep 0.7
        echo 0 > $sysctl
        wait
        echo 2 > $sysctl || echo 1 > $sysctl

        numbers() { bootmark status --json | awk -F'[:,]' -v at=$1 '
            /free_bytes/ { print at "_free" $2 } /open_chunks/ { print at "_open" $2 }
            /sealed_chunks/ { print at "_sealed" $2 }'; }
        trace=/var/lib/bootmark/trace
        # The same with and without a hog beside it.
        of_root() {
            sleep 1
            for n in 1 2 3 4; do $run count 0 0 8000; done
            $run count 0 0 77
            /run/pinned steady 0 1500
            wait
            bootmark extract -o $trace
            numbers $1
        }
        bootmark extract -o $trace
        numbers before
        of_root alone
        $run hog 1000 4000 &
        of_root beside

        # Flight recorders of a user make room for each other. What is said of them has a limit.
        bootmark enable --mode flight 'limits:*'
        $run hog 1000 1500
        $run count 1000 1 3000 | sed 's/^tried/late/'
        $run count 1000 0 3000 | sed 's/^tried/late/'
        bootmark extract -o $trace
        numbers flight
    "#;
    let outcome = Guest::new()
        .pool("1M")
        .rules("init:*,limits:*")
        .append("bootmark.services=no bootbuf_pin=/run/pin*,relative,/[ bootmark_unprivileged=0")
        .append("bootmark_unprivileged=perhaps")
        .script(script)
        .boot()
        .unwrap();
    assert_eq!(outcome.script_status, Some(0), "{}", outcome.script_log);
    outcome.shows(&[
        "bootbuf_pin=relative: a pattern starts with '/' or '*'",
        "bootbuf_pin=/[: '[' without ']'",
        "bootmark_unprivileged=perhaps: neither 0 nor 1",
    ]);
    let summary = reading::summary(&outcome.trace()).unwrap();
    let streams = streams(&summary);
    let of = |pid: u64, tid: u64| {
        let its = |stream: &&Value| stream["pid"] == pid && stream["tid"] == tid;
        books(streams.iter().filter(its))
    };

    // Who may not record is told so, runs on, and is in no book.
    assert_eq!(outcome.printed("default"), "0");
    let asked = said(&outcome, "asked");
    let errors: Vec<(u64, u64)> = asked.iter().map(|&(_, c, m)| (c, m)).collect();
    assert_eq!(errors, [(1, 1), (0, 0), (0, 0)], "{}", outcome.script_log);
    let refused = said(&outcome, "refused");
    assert_eq!(refused.len(), 2, "{}", outcome.script_log);
    for (pid, tid, _) in &refused {
        assert_eq!(of(*pid, *tid), [0; 3], "{summary:#}");
    }
    // The markers of one that ran went off meanwhile.
    let &[(pid, tid, events)] = said(&outcome, "stopped").as_slice() else {
        panic!("{}", outcome.script_log);
    };
    let [recorded, lost, _] = of(pid, tid);
    assert!(
        recorded > 0 && recorded + lost < events,
        "{recorded} {lost} {events}"
    );

    // All that anybody tried is there or counted, the hogs' too; the pinned program lost nothing.
    let tried = tried(&outcome);
    let mut lost_by_root = 0;
    for (pid, tid, events) in &tried {
        let [recorded, lost, _] = of(*pid, *tid);
        assert_eq!(
            recorded + lost,
            *events,
            "thread {tid} of {pid}: {summary:#}"
        );
        lost_by_root += lost;
    }
    assert!(lost_by_root > 77, "{summary:#}");
    let pinned = |stream: &&Value| stream["comm"] == "pinned";
    let [recorded, lost, _] = books(streams.iter().filter(pinned));
    assert!(recorded > 20 && lost == 0, "{summary:#}");
    let of_init = |stream: &&Value| stream["pid"] == 1;
    let [recorded, lost, _] = books(streams.iter().filter(of_init));
    assert!(recorded > 0 && lost == 0, "{summary:#}");
    let mut known = tried.clone();
    known.extend(refused.iter().chain(&asked));
    known.push((pid, tid, events));
    let late = said(&outcome, "late");
    let hogs = outcome.script_log.lines();
    let hogs: u64 = hogs
        .filter_map(|line| line.strip_prefix("tried ")?.parse::<u64>().ok())
        .chain(late.iter().map(|(.., events)| *events))
        .sum();
    let [recorded, lost, _] = books(of_others(streams, &known).into_iter());
    assert_eq!(recorded + lost, hogs, "{summary:#}");
    // A flight recorder that comes behind the hog finds room all the same.
    let (pid, tid, _) = late[late.len() - 1];
    let [recorded, lost, overwritten] = of(pid, tid);
    assert!(recorded > 0 && lost == overwritten, "{summary:#}");

    // What is left of them is what the meta stream tells of them: an eighth of its share for the user,
    // over both of its runs, and what root's programs leave without a hog as well, give or take the page
    // in which a run begins.
    let number = |key: &str| outcome.printed(key).parse::<u64>().unwrap();
    let kept = |from: &str, to: &str| {
        number(&format!("{from}_free")).saturating_sub(number(&format!("{to}_free")))
    };
    for at in ["alone", "beside", "flight"] {
        assert_eq!(number(&format!("{at}_sealed")), 0);
        assert_eq!(number(&format!("{at}_open")), number("before_open"));
    }
    let (alone, beside) = (kept("before", "alone"), kept("alone", "beside"));
    let flight = kept("beside", "flight");
    eprintln!("kept: {alone} without a hog, {beside} beside one, {flight} in flight mode");
    let of_user = (1 << 20) / 4 / 8;
    assert!(
        beside + flight <= of_user + 2 * (alone + 4096),
        "{}",
        outcome.script_log
    );
}

#[test]
fn four_thousand_processes_write_at_once() {
    const PROCESSES: u64 = 4000;
    let script = r#"
        run=/usr/lib/bootmark/services/svc-limits
        mkfifo /run/lines
        $run fleet 4000 < /run/lines > /run/said &
        exec 3> /run/lines
        at() { echo "at $(cut -d ' ' -f 1 /proc/uptime) $*"; }
        turn() { echo >&3; until grep -q "turn $1" /run/said; do sleep 0.1; done; at turn $1; }
        at start
        until grep -q afloat /run/said; do sleep 0.1; done
        at afloat
        turn 0
        bootmark disable 'limits:*'
        at disabled
        turn 1
        bootmark enable 'limits:*'
        at enabled
        turn 2
        bootmark status --json | awk -F'[:,]' '/open_chunks/ { print "open" $2 }'
        bootmark extract -o /var/lib/bootmark/trace
        at extracted
        exec 3>&-
        wait
        at end
        bootmark status --json | awk -F'[:,]' '/events_lost/ { print "lost" $2 }'
    "#;
    let outcome = Guest::new()
        .pool("64M")
        .memory(1024)
        .rules("limits:*")
        .append("bootmark.services=no")
        .timeout(std::time::Duration::from_secs(600))
        .script(script)
        .boot()
        .unwrap();
    assert_eq!(outcome.script_status, Some(0), "{}", outcome.script_log);
    assert!(outcome.printed("open").parse::<u64>().unwrap() >= PROCESSES);
    assert_eq!(outcome.printed("lost"), "0");

    let mut turns: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for event in reading::events(&outcome.trace()).unwrap() {
        let number = event.number("number").unwrap();
        let turn = event.number("turn").unwrap();
        turns.entry(number).or_default().push(turn);
    }
    assert!(turns.keys().copied().eq(0..PROCESSES), "{}", turns.len());
    let wrong = turns.iter().find(|(_, turns)| **turns != [0, 2]);
    assert_eq!(wrong, None);
    let summary = reading::summary(&outcome.trace()).unwrap();
    let [recorded, lost, _] = books(streams(&summary).iter());
    assert_eq!((recorded, lost), (2 * PROCESSES, 0));
}
