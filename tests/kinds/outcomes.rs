//! How a call for a lock of any kind ends.

use std::fmt;

use redlatch::{Error, LossCause};

/// Why a lock was lost.
#[track_caller]
pub(crate) fn loss<T: fmt::Debug>(result: Result<T, Error>) -> LossCause {
    match result {
        Err(Error::Lost { cause, .. }) => cause,
        other => panic!("{other:?}"),
    }
}

macro_rules! asserts_the_cause {
    ($($name:ident: $cause:ident),*) => {$(
        #[track_caller]
        pub(crate) fn $name<T: fmt::Debug>(result: Result<T, Error>) {
            let cause = loss(result);
            assert!(matches!(cause, LossCause::$cause { .. }), "{cause}");
        }
    )*};
}

asserts_the_cause!(assert_taken: Taken, assert_vanished: Vanished, assert_expired: Expired, assert_max_hold: MaxHold);

#[track_caller]
pub(crate) fn assert_unavailable<T: fmt::Debug>(result: &Result<T, Error>) {
    assert!(
        matches!(result, Err(Error::Unavailable { .. })),
        "{result:?}"
    );
}
