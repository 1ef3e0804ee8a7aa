//! A reader of OpenMetrics text, as far as programs of this repository write it. Labels are not parsed: whoever looks a sample up
//! compares all of them.

use std::collections::{BTreeMap, BTreeSet};

/// The value of each sample, by its name and labels as they are written.
#[derive(Debug)]
pub struct Exposition(BTreeMap<String, f64>);

impl Exposition {
    /// The value of the sample with this name and these labels, in any order.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let label = |(label, value): &(&str, &str)| {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"");
            format!("{label}=\"{}\"", value.replace('\n', "\\n"))
        };
        let labels: Vec<String> = labels.iter().map(label).collect();
        let length = format!("{name}{{{}}}", labels.join(",")).len();
        let is_it = |sample: &str| {
            let its = sample.strip_prefix(name);
            its.is_some_and(|its| its.starts_with('{') && labels.iter().all(|l| its.contains(l)))
                && sample.len() == length
        };
        let mut samples = self.0.iter();
        let found = samples.find(|(sample, _)| is_it(sample));
        found.map(|(_, value)| *value)
    }
}

/// Reads a whole text.
///
/// # Errors
///
/// What is wrong, with the line.
pub fn parse(text: &str) -> Result<Exposition, String> {
    let body = text.strip_suffix("# EOF\n").ok_or("no # EOF at the end")?;
    let (mut samples, mut families) = (BTreeMap::new(), BTreeSet::new());
    for line in body.lines() {
        let fault = |what: &str| format!("{what}: {line:?}");
        if let Some(metadata) = line.strip_prefix("# TYPE ") {
            let name = metadata.split(' ').next().unwrap_or_default();
            if !families.insert(name) {
                return Err(fault("a family twice"));
            }
        } else if !line.starts_with("# HELP ") && !line.starts_with("# UNIT ") {
            let (sample, value) = line.rsplit_once(' ').ok_or_else(|| fault("no sample"))?;
            let value = value.replace("+Inf", "inf").parse();
            let value = value.map_err(|_| fault("no value"))?;
            // A time behind the value would be read as a value.
            if sample.contains('{') != sample.ends_with('}') {
                return Err(fault("no labels"));
            }
            if !families.iter().any(|family| sample.starts_with(family)) {
                return Err(fault("a sample without a type"));
            }
            if samples.insert(sample.to_owned(), value).is_some() {
                return Err(fault("a sample twice"));
            }
        }
    }
    Ok(Exposition(samples))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_good_text_is_read_and_deviations_are_errors() {
        const GOOD: &str =
            "# TYPE a counter\n# HELP a Some.\na_total{x=\"1\\n\\\"\",y=\"\"} 1\n# EOF\n";
        let labels = [("y", ""), ("x", "1\n\"")];
        let value = parse(GOOD).unwrap().value("a_total", &labels);
        assert_eq!(value, Some(1.0));
        for (old, new) in [
            ("# EOF\n", ""),
            ("# TYPE a counter\n", ""),
            ("# HELP", "# TYPE a counter\n# HELP"),
            ("# EOF", "a_total{x=\"1\\n\\\"\",y=\"\"} 2\n# EOF"),
            ("\"} 1", "\"} 1 1600000000"),
            ("\"\"}", "\"\""),
        ] {
            let text = GOOD.replacen(old, new, 1);
            assert!(parse(&text).is_err(), "{text}");
        }
    }
}
