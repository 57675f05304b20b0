//! Compiled programs against a plain evaluator over a tree, and texts that are anything at all.

mod plain;

use expr::{Context, Program, SlotText, Values};
use plain::{Event, shape, tree};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Trees are written down with as few parentheses as the grammar allows, so this also compares
    /// the parser's precedences with those of the writer.
    #[test]
    fn compiled_is_as_plain(tree in tree(), event in any::<Event>()) {
        let text = tree.text();
        match Program::condition(&text, &shape()) {
            Ok(program) => {
                let (payload, end) = (event.payload(), event.end());
                let context = Context {
                    pid: event.pid,
                    tid: event.tid,
                    uid: event.uid,
                    comm: event.comm.as_bytes(),
                    dur_ns: event.dur,
                };
                let values = Values { payload: &payload, end: &end, context };
                prop_assert_eq!(
                    program.eval_filter(&values),
                    tree.truth(&event),
                    "{}", text
                );
            }
            // Types fit; only a limit can be exceeded.
            Err(error) => prop_assert!(plain::is_limit(&error.what), "{text}: {error}"),
        }
    }

    /// The same text is well-formed with and without fields.
    #[test]
    fn fitting_texts_are_well_formed(tree in tree()) {
        let text = tree.text();
        if Program::condition(&text, &shape()).is_ok() {
            // Not knowing of labels takes an operation more for each.
            if let Err(error) = Program::check_condition(&text) {
                prop_assert!(plain::is_limit(&error.what), "{text}: {error}");
            }
            let slot = format!("/{text}/{{count(), hist(dur) by pid}}");
            if let Err(error) = SlotText::parse(&slot) {
                prop_assert!(plain::is_limit(&error.what), "{slot}: {error}");
            }
        }
    }

    #[test]
    fn any_text_is_answered(text in ".{0,80}") {
        check(&text);
    }

    #[test]
    fn any_pieces_are_answered(
        pieces in prop::collection::vec(
            prop::sample::select(vec![
                "n", "x", "on", "name", "phase", "dur", "ret", "ENOENT", "1", "0x2", "1.5", "5ms", "'a'",
                "\"*b\"", "'run'", "==", "!=", "<", "~", "!~", "+", "-", "*", "&", "|", "<<", "&&", "||", "!",
                "(", ")", "/", "{", "}", "count", "sum", "by", ",", "true",
            ]),
            0..24,
        ),
        blanks in any::<bool>(),
    ) {
        check(&pieces.join(if blanks { " " } else { "" }));
    }
}

/// Whatever the text: a program or an error in its bounds, and the program runs.
fn check(text: &str) {
    let values = Values {
        payload: &[1; 30],
        ..Values::default()
    };
    match Program::condition(text, &shape()) {
        Ok(program) => {
            program.eval_filter(&values);
            Program::check_condition(text).unwrap();
        }
        Err(error) => {
            assert!(error.pos <= text.len());
            assert!(!error.to_string().is_empty());
        }
    }
    match SlotText::parse(text).and_then(|slot| Program::compile(slot, &shape())) {
        Ok(program) => {
            program.eval_filter(&values);
            for index in 0..4 {
                program.eval_action(index, &values);
                program.eval_key(index, &values);
            }
        }
        Err(error) => assert!(error.pos <= text.len()),
    }
}
