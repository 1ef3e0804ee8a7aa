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
    pub(crate) fn ends_with(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }

    /// This code, and this on standard output.
    #[track_caller]
    pub(crate) fn is(&self, code: i32, stdout: &str) -> &Self {
        assert_eq!((self.code, &*self.stdout), (Some(code), stdout), "{self:?}");
        self
    }

    /// This code, and nothing on standard error.
    #[track_caller]
    pub(crate) fn is_quiet(&self, code: i32) -> &Self {
        assert_eq!((self.code, &*self.stderr), (Some(code), ""), "{self:?}");
        self
    }

    /// Nothing more than the exit code.
    #[track_caller]
    pub(crate) fn is_silent(&self, code: i32) {
        self.is(code, "").is_quiet(code);
    }

    /// This on standard output.
    #[track_caller]
    pub(crate) fn shows(&self, text: &str) -> &Self {
        assert!(self.stdout.contains(text), "{text}: {self:?}");
        self
    }

    /// The words of standard output, however the lines break.
    pub(crate) fn words(&self) -> String {
        let words: Vec<&str> = self.stdout.split_whitespace().collect();
        words.join(" ")
    }

    /// This in the one line that the program says on standard error.
    #[track_caller]
    pub(crate) fn complains(&self, text: &str) -> &Self {
        assert!(self.complaint().contains(text), "{text}: {self:?}");
        self
    }

    /// This code, nothing on standard output, and one line with this on standard error.
    #[track_caller]
    pub(crate) fn is_refused(&self, code: i32, text: &str) -> &Self {
        assert_eq!(self.stderr.lines().count(), 1, "{self:?}");
        self.is(code, "").complains(text)
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
        let lines = self.stderr.lines();
        let own: Vec<&str> = lines
            .filter(|line| line.starts_with("redlatch: "))
            .collect();
        let [line] = own[..] else {
            panic!("{self:?}");
        };
        line
    }
}
