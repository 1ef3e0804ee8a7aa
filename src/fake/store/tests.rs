//! What holds for anything that a fake node may be sent.

use std::cell::RefCell;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::wire::resp::Reply;
use crate::wire::scripts::{DROP, SHOW};

const NOW: Duration = Duration::from_secs(1_700_000_000);

/// A store with one key.
fn occupied() -> Store {
    let mut store = Store::of(Process::new(0, Duration::ZERO));
    store.put("held", "token", Duration::MAX);
    store
}

#[track_caller]
fn is_refused(command: &[u8]) {
    let mut store = occupied();
    let reply = store.execute(command, NOW);
    assert!(matches!(reply, Reply::Error(_)), "{reply:?}");
    assert_eq!(store.value("held", NOW).as_deref(), Some("token"));
    assert_eq!(store.keys.len(), 1);
}

#[test]
fn what_no_client_of_this_crate_sends_is_refused() {
    let digest = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
    is_refused(&pack(&["EVAL", "return redis.call('DEL', 'held')", "0"]));
    is_refused(&pack(&["EVAL", &DROP[1..], "1", "held", "token"]));
    is_refused(&pack(&["EVALSHA", digest, "0"]));
    // A number of keys that is none, or too large.
    for number in ["", "x", "-1", "2", "9223372036854775807"] {
        is_refused(&pack(&["EVAL", SHOW, number, "held"]));
    }
}

#[test]
fn a_thread_that_ends_and_has_no_interpreter_any_more_still_gives_a_lock_back() {
    thread_local! {
        static LATE: RefCell<Late> = const { RefCell::new(Late(None)) };
    }
    struct Late(Option<(Store, std::sync::mpsc::Sender<Reply>)>);
    impl Drop for Late {
        fn drop(&mut self) {
            if let Some((mut store, done)) = self.0.take() {
                let release = pack(&["EVAL", DROP, "1", "held", "token"]);
                done.send(store.execute(&release, NOW)).unwrap();
            }
        }
    }
    let (done, replies) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        // What is made first is dropped last.
        LATE.with_borrow_mut(|late| late.0 = Some((occupied(), done)));
        occupied().execute(&pack(&["EVAL", SHOW, "1", "held"]), NOW)
    });
    assert!(matches!(thread.join().unwrap(), Reply::Array(_)));
    assert_eq!(replies.recv().unwrap(), Reply::Int(1));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bytes_that_are_no_command_are_refused(bytes in vec(any::<u8>(), 0..100)) {
        is_refused(&bytes);
    }

    #[test]
    fn a_command_is_refused_with_anything_before_it_or_behind_it(more in vec(any::<u8>(), 1..9)) {
        let release = pack(&["EVAL", DROP, "1", "held", "token"]);
        is_refused(&[&more[..], &release].concat());
        is_refused(&[&release[..], &more].concat());
        is_refused(&release[more.len()..]);
    }
}
