//! A reader of OpenMetrics text, as far as programs of this repository write it.

use std::collections::HashSet;

/// The value of the sample with this name and these labels, in any order. Fails unless the text is whole and has it once at most.
#[track_caller]
pub fn sample(text: &str, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    assert!(text.ends_with("\n# EOF\n"), "{text}");
    let mut families = HashSet::new();
    let mut types = text.lines().filter(|line| line.starts_with("# TYPE "));
    assert!(types.all(|family| families.insert(family)), "{text}");
    let label = |(label, value): &(&str, &str)| {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"");
        format!("{label}=\"{}\"", value.replace('\n', "\\n"))
    };
    let labels: Vec<String> = labels.iter().map(label).collect();
    let length = labels.join(",").len();
    let samples = text.lines().filter_map(|line| {
        let sample = line.strip_prefix(name)?.strip_prefix('{')?;
        sample.rsplit_once("} ")
    });
    let is_it = |its: &str| its.len() == length && labels.iter().all(|label| its.contains(label));
    let mut values = samples.filter(|(its, _)| is_it(its));
    let value = values.next().map(|(_, value)| value.parse().unwrap());
    assert!(values.next().is_none(), "{name} twice: {text}");
    value
}
