//! The figures that are checked in, and what a comparison with them says.

use std::fmt;
use std::str::FromStr;

/// By how many percent a figure may differ from the baseline. Noise changes it by less than 1 %.
const TOLERANCE: f64 = 3.0;

/// Measures all figures anew, and writes the file.
const RENEW: &str =
    "cargo bench -p redlatch --features tls-rustls,serde --bench pairs -- --new-baseline";

/// What a pair of acquire and release costs in one mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) instructions: u32,
}

/// The first line of its file is the setting in which the figures were measured. Each other line is a figure.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Baseline {
    pub(crate) setting: String,
    pub(crate) figures: Vec<Figure>,
}

/// What a comparison says, for people.
#[derive(Debug)]
pub(crate) struct Report {
    text: String,
    pub(crate) has_failed: bool,
}

impl Baseline {
    /// Whether a figure is worse than the tolerance allows.
    pub(crate) fn is_exceeded_by(&self, figure: &Figure) -> bool {
        self.change(figure).is_some_and(|change| change > TOLERANCE)
    }

    /// Compares figures that were measured in this setting.
    pub(crate) fn compare(&self, setting: &str, figures: &[Figure]) -> Report {
        let lines: String = figures.iter().map(|figure| self.line(figure)).collect();
        let remarks: String = figures.iter().map(|figure| self.remark(figure)).collect();
        let (verdict, has_failed) = if self.setting != setting {
            let measured = &self.setting;
            let left_out = format!(
                "LEFT OUT: these figures can't be compared. The baseline is of {measured}, and this is {setting}. If that stays so, go \
                 to a commit that is known to be good, and renew the baseline: {RENEW}"
            );
            (left_out, false)
        } else if remarks.is_empty() {
            let same = format!("no figure differs from the baseline by more than {TOLERANCE} %");
            (same, false)
        } else {
            (remarks, true)
        };
        let text =
            format!("instructions of a pair     baseline       now    change\n{lines}{verdict}");
        Report { text, has_failed }
    }

    /// The line of a figure in the table.
    fn line(&self, figure: &Figure) -> String {
        let (name, now) = (&figure.name, figure.instructions);
        let before = self.before(figure).map(|before| before.to_string());
        let change = self.change(figure).map(|change| format!("{change:+.1} %"));
        let [before, change] = [before, change].map(Option::unwrap_or_default);
        format!("{name:<25}{before:>10}{now:>10}{change:>10}\n")
    }

    /// What to do, if the figure differs by more than the tolerance.
    fn remark(&self, figure: &Figure) -> String {
        let name = &figure.name;
        match self.change(figure) {
            None => format!("{name}: there is no baseline. Renew it: {RENEW}\n"),
            Some(change) if change > TOLERANCE => format!(
                "{name}: {change:.1} % more instructions than the baseline, and {TOLERANCE} % are allowed. The profile shows where \
                 they go. If they are meant, renew the baseline, and say in the commit why: {RENEW}\n"
            ),
            Some(change) if change < -TOLERANCE => format!(
                "{name}: {:.1} % fewer instructions than the baseline. Renew it, so that no later change uses up what was gained: \
                 {RENEW}\n",
                -change
            ),
            Some(_) => String::new(),
        }
    }

    fn before(&self, figure: &Figure) -> Option<u32> {
        let mut figures = self.figures.iter();
        let before = figures.find(|before| before.name == figure.name)?;
        Some(before.instructions)
    }

    /// By how many percent the figure is larger than the baseline.
    fn change(&self, figure: &Figure) -> Option<f64> {
        let before = f64::from(self.before(figure)?);
        Some(100.0 * (f64::from(figure.instructions) / before - 1.0))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text.trim_end())
    }
}

impl fmt::Display for Baseline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.setting)?;
        let mut figures = self.figures.iter();
        figures.try_for_each(|figure| writeln!(f, "{}: {}", figure.name, figure.instructions))
    }
}

impl FromStr for Baseline {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (setting, figures) = text.split_once('\n').ok_or("the baseline has no figures")?;
        let figure = |line: &str| {
            let (name, instructions) = line.split_once(": ")?;
            Some(Figure {
                name: name.to_owned(),
                instructions: instructions.parse().ok()?,
            })
        };
        let figures: Option<Vec<Figure>> = figures.lines().map(figure).collect();
        Ok(Self {
            setting: setting.to_owned(),
            figures: figures.ok_or("a line of the baseline is no figure")?,
        })
    }
}
