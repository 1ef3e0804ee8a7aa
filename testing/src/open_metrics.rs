//! A strict reader of OpenMetrics text, version 1.0, as far as programs of this repository write it: a deviation is an
//! error, not a guess. What it accepts is also valid in the Prometheus text format, which the node exporter reads: no
//! other types, no timestamps, no exemplars.

use std::collections::BTreeSet;

/// A metric with its samples.
#[derive(Debug, Default)]
pub struct Family {
    /// Without the suffix that its samples have.
    pub name: String,
    /// Its type.
    pub kind: String,
    /// What its `# UNIT` line says.
    pub unit: Option<String>,
    /// What its `# HELP` line says.
    pub help: Option<String>,
    /// In the order of the text.
    pub samples: Vec<Sample>,
}

/// One line with a value.
#[derive(Debug)]
pub struct Sample {
    /// With its suffix.
    pub name: String,
    /// The labels and their values, without escapes.
    pub labels: Vec<(String, String)>,
    /// The value.
    pub value: f64,
}

/// What a text says.
#[derive(Debug)]
pub struct Exposition {
    /// In the order of the text.
    pub families: Vec<Family>,
}

impl Exposition {
    /// The value of the one sample with this name and these labels, in any order.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let wanted: BTreeSet<_> = labels.iter().copied().collect();
        let mut samples = self.families.iter().flat_map(|family| &family.samples);
        let is_it = |sample: &&Sample| {
            let labels = sample.labels.iter();
            let labels: BTreeSet<_> = labels.map(|(n, v)| (n.as_str(), v.as_str())).collect();
            sample.name == name && labels == wanted
        };
        samples.find(is_it).map(|sample| sample.value)
    }
}

/// Reads a whole text.
///
/// # Errors
///
/// What is wrong, with the line.
pub fn parse(text: &str) -> Result<Exposition, String> {
    let body = text
        .strip_suffix("# EOF\n")
        .ok_or("it does not end with # EOF")?;
    if !body.is_empty() && !body.ends_with('\n') {
        return Err("# EOF is not a line of its own".into());
    }
    let mut families: Vec<Family> = Vec::new();
    for line in body.split_terminator('\n') {
        take(&mut families, line).map_err(|fault| format!("{fault}: {line:?}"))?;
    }
    let mut seen = BTreeSet::new();
    for family in &families {
        check(family).map_err(|fault| format!("{fault}: {family:?}"))?;
        for sample in &family.samples {
            let mut labels = sample.labels.clone();
            labels.sort();
            if !seen.insert((sample.name.clone(), labels)) {
                return Err(format!("twice: {sample:?}"));
            }
        }
    }
    Ok(Exposition { families })
}

fn take(families: &mut Vec<Family>, line: &str) -> Result<(), String> {
    if let Some(metadata) = line.strip_prefix("# ") {
        return take_metadata(families, metadata);
    }
    let sample = sample(line)?;
    let family = families.last_mut().ok_or("a sample before any # TYPE")?;
    let suffix = sample.name.strip_prefix(family.name.as_str());
    let suffixes: &[&str] = match family.kind.as_str() {
        "counter" => &["_total"],
        "gauge" => &[""],
        "histogram" => &["_bucket", "_sum", "_count"],
        "summary" => &["", "_sum", "_count"],
        _ => return Err("a sample of a family without a type".into()),
    };
    if !suffix.is_some_and(|suffix| suffixes.contains(&suffix)) {
        return Err(format!("no sample of the {} {}", family.kind, family.name));
    }
    family.samples.push(sample);
    Ok(())
}

fn take_metadata(families: &mut Vec<Family>, metadata: &str) -> Result<(), String> {
    let mut words = metadata.splitn(3, ' ');
    let mut word = || words.next().ok_or("a word is missing");
    let (keyword, name, rest) = (word()?, word()?, word()?);
    if !is_name(name, ":") {
        return Err("no name of a metric".into());
    }
    if families.last().is_none_or(|family| family.name != name) {
        if families.iter().any(|family| family.name == name) {
            return Err("its family stands further up".into());
        }
        families.push(Family {
            name: name.into(),
            ..Family::default()
        });
    }
    let Some(family) = families.last_mut().filter(|f| f.samples.is_empty()) else {
        return Err("metadata behind samples".into());
    };
    match keyword {
        "TYPE" if !family.kind.is_empty() => return Err("a second type".into()),
        "TYPE" if !["counter", "gauge", "histogram", "summary"].contains(&rest) => {
            return Err("a type that not both formats have".into());
        }
        "TYPE" => family.kind = rest.into(),
        "UNIT" if !name.ends_with(&format!("_{rest}")) => {
            return Err("the unit is not the end of the name".into());
        }
        "UNIT" if family.unit.is_none() => family.unit = Some(rest.into()),
        // In quotes the two formats differ.
        "HELP" if rest.contains(['"', '\\']) => return Err("what would need an escape".into()),
        "HELP" if family.help.is_none() => family.help = Some(rest.into()),
        _ => return Err("no metadata, or a second time".into()),
    }
    Ok(())
}

fn is_name(name: &str, also: &str) -> bool {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || also.contains(c);
    name.chars().all(is_of_name) && name.starts_with(|c: char| is_of_name(c) && !c.is_ascii_digit())
}

fn sample(line: &str) -> Result<Sample, String> {
    let end = line.find(['{', ' ']).ok_or("no value")?;
    let (name, mut rest) = line.split_at(end);
    if !is_name(name, ":") {
        return Err("no name of a metric".into());
    }
    let mut labels: Vec<(String, String)> = Vec::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, behind) = rest.split_once("=\"").ok_or("no label")?;
            let (value, behind) = label_value(behind)?;
            if !is_name(label, "") || label.starts_with('_') {
                return Err("no name of a label".into());
            }
            if labels.iter().any(|(other, _)| other == label) {
                return Err("a label twice".into());
            }
            labels.push((label.into(), value));
            if let Some(behind) = behind.strip_prefix('}') {
                rest = behind;
                break;
            }
            rest = behind.strip_prefix(',').ok_or("no comma between labels")?;
        }
    }
    let value = rest.strip_prefix(' ').ok_or("no space before the value")?;
    Ok(Sample {
        name: name.into(),
        labels,
        value: number(value)?,
    })
}

/// The text up to the closing quote, and what is behind it.
fn label_value(text: &str) -> Result<(String, &str), String> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Ok((value, text.get(at..).unwrap_or_default().split_at(1).1)),
            '\\' => match characters.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, escaped @ ('"' | '\\'))) => value.push(escaped),
                _ => return Err("no escape".into()),
            },
            _ => value.push(character),
        }
    }
    Err("a label does not end".into())
}

fn number(text: &str) -> Result<f64, String> {
    let is_plain = |c: char| c.is_ascii_digit() || "+-.e".contains(c);
    if text == "+Inf" {
        return Ok(f64::INFINITY);
    }
    if !text.chars().all(is_plain) {
        return Err("no number, or more than one".into());
    }
    text.parse().map_err(|_| "no number".into())
}

fn check(family: &Family) -> Result<(), String> {
    let is_counter = family.kind == "counter";
    if family.kind.is_empty() || family.help.is_none() {
        return Err("no type or no help".into());
    }
    for suffix in ["_total", "_bucket", "_sum", "_count", "_created", "_info"] {
        if family.name.ends_with(suffix) {
            return Err(format!("a family must not end in {suffix}"));
        }
    }
    let is_odd = |sample: &Sample| !sample.value.is_finite() || sample.value < 0.0;
    if (is_counter || family.kind == "histogram") && family.samples.iter().any(is_odd) {
        return Err("a counter that is no count".into());
    }
    if family.kind == "histogram" {
        return check_histogram(family);
    }
    Ok(())
}

fn check_histogram(family: &Family) -> Result<(), String> {
    let without_le = |sample: &Sample| -> Vec<(String, String)> {
        let labels = sample.labels.iter();
        labels.filter(|(name, _)| name != "le").cloned().collect()
    };
    let sets: BTreeSet<_> = family.samples.iter().map(without_le).collect();
    for set in sets {
        let of = |suffix: &str| -> Vec<&Sample> {
            let name = [&family.name, suffix].concat();
            let samples = family.samples.iter();
            samples
                .filter(|s| s.name == name && without_le(s) == set)
                .collect()
        };
        let mut last = (f64::NEG_INFINITY, 0.0);
        for bucket in of("_bucket") {
            let le = bucket.labels.iter().find(|(name, _)| name == "le");
            let le = &le.ok_or("a bucket without le")?.1;
            if !le.contains('.') && le != "+Inf" {
                return Err(format!("le={le} is not canonical"));
            }
            let le = number(le)?;
            if le <= last.0 || bucket.value < last.1 {
                return Err("buckets that do not grow".into());
            }
            last = (le, bucket.value);
        }
        let ([count], [_sum]) = (&of("_count")[..], &of("_sum")[..]) else {
            return Err("not one count and one sum".into());
        };
        if last != (f64::INFINITY, count.value) {
            return Err("the last bucket is not the count".into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "# TYPE a counter\n# HELP a Some.\na_total{x=\"1\\n\\\"\"} 1\n# EOF\n";

    #[test]
    fn a_good_text_is_read() {
        let exposition = parse(GOOD).unwrap();
        assert_eq!(exposition.value("a_total", &[("x", "1\n\"")]), Some(1.0));
    }

    #[test]
    fn deviations_are_errors() {
        for (old, new) in [
            ("# EOF\n", ""),
            ("# EOF\n", "# EOF"),
            ("# EOF\n", "\n# EOF\n"),
            ("# EOF\n", "# EOF\n# EOF\n"),
            ("# EOF\n", "a_total{x=\"1\\n\\\"\"} 2\n# EOF\n"),
            ("# EOF\n", "# HELP a Again.\n# EOF\n"),
            ("# TYPE a counter", "# TYPE a_total counter"),
            ("# TYPE a counter", "# TYPE a info"),
            ("# TYPE a counter\n", ""),
            ("# HELP a Some.\n", ""),
            ("# HELP a Some.\n", "# UNIT a seconds\n# HELP a Some.\n"),
            ("a_total{", "a{"),
            ("a_total{", "b_total{"),
            ("x=", "1x="),
            ("x=", "x=\"2\",x="),
            ("1\\n", "1\n"),
            ("1\\n", "1\\r"),
            ("\"} 1", "\",} 1"),
            ("\"} 1", "\"} 1 1600000000"),
            ("\"} 1", "\"} -1"),
            ("\"} 1", "\"} NaN"),
            ("\"} 1", "\"}  1"),
        ] {
            assert!(GOOD.contains(old), "{old}");
            let text = GOOD.replacen(old, new, 1);
            assert!(parse(&text).is_err(), "{text}");
        }
    }

    #[test]
    fn histograms_are_whole() {
        let good = "# TYPE s histogram\n# HELP s S.\ns_bucket{le=\"1.0\"} 1\ns_bucket{le=\"+Inf\"} 2\ns_sum 3.5\n\
                    s_count 2\n# EOF\n";
        parse(good).unwrap();
        for (old, new) in [
            ("1.0", "1"),
            ("s_sum 3.5\n", ""),
            ("s_count 2", "s_count 3"),
            ("} 1", "} 3"),
            ("+Inf", "0.5"),
            ("s_bucket{le=\"+Inf\"} 2\n", ""),
        ] {
            let text = good.replacen(old, new, 1);
            assert!(parse(&text).is_err(), "{text}");
        }
    }
}
