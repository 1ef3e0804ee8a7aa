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

#[track_caller]
pub(crate) fn assert_taken<T: fmt::Debug>(result: Result<T, Error>) {
    let cause = loss(result);
    assert!(matches!(cause, LossCause::Taken { .. }), "{cause}");
}

#[track_caller]
pub(crate) fn assert_vanished<T: fmt::Debug>(result: Result<T, Error>) {
    let cause = loss(result);
    assert!(matches!(cause, LossCause::Vanished { .. }), "{cause}");
}

#[track_caller]
pub(crate) fn assert_expired<T: fmt::Debug>(result: Result<T, Error>) {
    let cause = loss(result);
    assert!(matches!(cause, LossCause::Expired { .. }), "{cause}");
}

#[track_caller]
pub(crate) fn assert_unavailable<T: fmt::Debug>(result: &Result<T, Error>) {
    assert!(
        matches!(result, Err(Error::Unavailable { .. })),
        "{result:?}"
    );
}
