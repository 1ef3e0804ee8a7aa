//! A reader of OpenMetrics text, as far as programs of this repository write it: what does not look like it is an error.

use std::collections::BTreeSet;

/// What a text says: the name, the labels in their order, and the value of each sample.
#[derive(Debug)]
pub struct Exposition(Vec<(String, Labels, f64)>);

type Labels = BTreeSet<(String, String)>;

impl Exposition {
    /// The value of the sample with this name and these labels.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let labels = labels.iter().map(|(n, v)| ((*n).into(), (*v).into()));
        let labels: Labels = labels.collect();
        let mut samples = self.0.iter();
        let found = samples.find(|(its, all, _)| its == name && *all == labels);
        found.map(|(_, _, value)| *value)
    }
}

/// Reads a whole text.
///
/// # Errors
///
/// What is wrong, with the line.
pub fn parse(text: &str) -> Result<Exposition, String> {
    let body = text.strip_suffix("# EOF\n").ok_or("no # EOF at the end")?;
    let (mut samples, mut families) = (Vec::new(), BTreeSet::new());
    for line in body.lines() {
        let fault = |what: &str| format!("{what}: {line:?}");
        if let Some(metadata) = line.strip_prefix("# TYPE ") {
            let name = metadata.split(' ').next().unwrap_or_default();
            if !families.insert(name) {
                return Err(fault("a family twice"));
            }
        } else if !line.starts_with("# HELP ") && !line.starts_with("# UNIT ") {
            let (name, labels, value) = sample(line).ok_or_else(|| fault("no sample"))?;
            if !families.iter().any(|family| name.starts_with(family)) {
                return Err(fault("a sample without a type"));
            }
            let is_there = |(its, all, _): &(String, Labels, f64)| *its == name && *all == labels;
            if samples.iter().any(is_there) {
                return Err(fault("a sample twice"));
            }
            samples.push((name, labels, value));
        }
    }
    Ok(Exposition(samples))
}

fn sample(line: &str) -> Option<(String, Labels, f64)> {
    let (name, mut rest) = line.split_at(line.find(['{', ' '])?);
    let mut labels = Labels::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        while !rest.starts_with('}') {
            let (label, behind) = rest.trim_start_matches(',').split_once("=\"")?;
            let (value, behind) = label_value(behind)?;
            labels.insert((label.into(), value));
            rest = behind;
        }
        rest = &rest[1..];
    }
    let value = rest.strip_prefix(' ')?.replace("+Inf", "inf");
    Some((name.into(), labels, value.parse().ok()?))
}

/// The text up to the closing quote without its escapes, and what is behind it.
fn label_value(text: &str) -> Option<(String, &str)> {
    let (mut value, mut characters) = (String::new(), text.chars());
    loop {
        match characters.next()? {
            '"' => return Some((value, characters.as_str())),
            '\\' => value.push(match characters.next()? {
                'n' => '\n',
                escaped @ ('"' | '\\') => escaped,
                _ => return None,
            }),
            character => value.push(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str =
        "# TYPE a counter\n# HELP a Some.\na_total{x=\"1\\n\\\"\",y=\"\"} 1\n# EOF\n";

    #[test]
    fn a_good_text_is_read_and_deviations_are_errors() {
        let exposition = parse(GOOD).unwrap();
        let labels = [("y", ""), ("x", "1\n\"")];
        assert_eq!(exposition.value("a_total", &labels), Some(1.0));
        for (old, new) in [
            ("# EOF\n", ""),
            ("# TYPE a counter\n", ""),
            ("# HELP", "# TYPE a counter\n# HELP"),
            ("# EOF", "a_total{x=\"1\\n\\\"\",y=\"\"} 2\n# EOF"),
            ("1\\n", "1\\r"),
            ("\"} 1", "\"} 1 1600000000"),
            ("\"} 1", "\"}  1"),
            ("\"\"}", "\"}"),
        ] {
            assert!(GOOD.contains(old), "{old}");
            let text = GOOD.replacen(old, new, 1);
            assert!(parse(&text).is_err(), "{text}");
        }
    }
}
