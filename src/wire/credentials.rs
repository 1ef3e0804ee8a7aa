//! Users and passwords, also ones that change while a manager lives.

use std::fmt;
use std::io;
use std::sync::Arc;

use super::pack::pack;
use crate::callbacks::unless_it_panics;
use crate::error::NodeError;

/// A user and a password, for [`Builder::credentials`](crate::Builder::credentials).
#[derive(Clone)]
pub struct Credentials {
    pub(super) user: Option<String>,
    pub(super) password: String,
}

impl Credentials {
    /// Makes the credentials of a user.
    ///
    /// ```
    /// use redlatch::Credentials;
    ///
    /// let credentials = Credentials::new("locks", "a token of today");
    /// assert_eq!(format!("{credentials:?}"), "Credentials { user: Some(\"locks\"), .. }");
    /// ```
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self {
            user: Some(user.into()),
            password: password.into(),
        }
    }

    /// Makes credentials of a password alone, for the user in the URL of the node. Where that has none, they are for a
    /// server without users (`requirepass`) or the user `default`.
    ///
    /// ```
    /// let credentials = redlatch::Credentials::password("a token of today");
    /// ```
    pub fn password(password: impl Into<String>) -> Self {
        Self {
            user: None,
            password: password.into(),
        }
    }

    /// The packed command that logs in.
    pub(super) fn auth(&self) -> Vec<u8> {
        let (auth, password) = ("AUTH".into(), self.password.as_str().into());
        match &self.user {
            Some(user) => pack(&[auth, user.as_str().into(), password]),
            None => pack(&[auth, password]),
        }
    }
}

impl fmt::Debug for Credentials {
    /// Leaves the password out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// A callback of the program that returns the credentials of a node by its name.
#[derive(Clone)]
pub(crate) struct CredentialSource(Arc<Callback>);

type Callback = dyn Fn(&str) -> io::Result<Credentials> + Send + Sync;

impl CredentialSource {
    pub(crate) fn new(
        callback: impl Fn(&str) -> io::Result<Credentials> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(callback))
    }

    /// Asks for the credentials of the node of this name. They are those of the user, where they name none.
    pub(super) fn ask(&self, node: &str, user: Option<String>) -> Result<Credentials, NodeError> {
        // The callback may panic, which must not leave the keys of a lock behind.
        let answer = unless_it_panics(|| (self.0)(node));
        let answer = answer.unwrap_or_else(|| Err(io::Error::other("the callback panicked")));
        let mut answer = answer.map_err(|error| NodeError::NoCredentials {
            source: Arc::new(error),
        })?;
        answer.user = answer.user.or(user);
        Ok(answer)
    }
}

impl fmt::Debug for CredentialSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CredentialSource")
    }
}
