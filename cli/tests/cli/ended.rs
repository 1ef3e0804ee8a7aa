//! How a process ended, and what a test demands of that.

/// How a process ended, and what it wrote.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    #[track_caller]
    pub(crate) fn ends_with(&self, code: i32) {
        assert_eq!(self.code, Some(code), "{self:?}");
    }

    /// This code, and this on standard output.
    #[track_caller]
    pub(crate) fn is(&self, code: i32, stdout: &str) {
        assert_eq!((self.code, &*self.stdout), (Some(code), stdout), "{self:?}");
    }

    /// This code, and nothing on standard error.
    #[track_caller]
    pub(crate) fn is_quiet(&self, code: i32) {
        assert_eq!((self.code, &*self.stderr), (Some(code), ""), "{self:?}");
    }

    /// This on standard output.
    #[track_caller]
    pub(crate) fn shows(&self, text: &str) {
        assert!(self.stdout.contains(text), "{text}: {self:?}");
    }

    /// The words of standard output, however the lines break.
    pub(crate) fn words(&self) -> String {
        let words: Vec<&str> = self.stdout.split_whitespace().collect();
        words.join(" ")
    }

    /// This in the one line on standard error.
    #[track_caller]
    pub(crate) fn complains(&self, text: &str) {
        assert!(self.complaint().contains(text), "{text}: {self:?}");
    }

    /// This code, nothing on standard output, and this in the one line on standard error.
    #[track_caller]
    pub(crate) fn is_refused(&self, code: i32, text: &str) {
        self.is(code, "");
        self.complains(text);
    }

    /// The same, and nobody else says anything on standard error.
    #[track_caller]
    pub(crate) fn is_refused_in_one_line(&self, code: i32, text: &str) {
        self.is_refused(code, text);
        assert_eq!(self.stderr.lines().count(), 1, "{self:?}");
    }

    /// The one object on standard output.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        assert_eq!(self.stdout.lines().count(), 1, "{self:?}");
        serde_json::from_str(&self.stdout).unwrap_or_else(|_| panic!("{self:?}"))
    }

    /// The one line that the program says on standard error; shells may say more.
    #[track_caller]
    pub(crate) fn complaint(&self) -> &str {
        let mut own = self
            .stderr
            .lines()
            .filter(|line| line.starts_with("redlatch: "));
        let line = own
            .next()
            .unwrap_or_else(|| panic!("it says nothing: {self:?}"));
        assert_eq!(own.next(), None, "{self:?}");
        line
    }
}
