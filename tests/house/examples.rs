//! Each function that a user calls has an example that is run.

use super::repository::{Code, library, planted};
use super::rooms::listed;

/// The number of functions of public types in these files, and those whose documentation has no example.
fn without_example(files: &[Code]) -> (usize, Vec<String>) {
    let public = listed("Public types");
    let (mut seen, mut wrong) = (0, Vec::new());
    for Code { name, text, .. } in files {
        let lines: Vec<&str> = text.lines().collect();
        let mut is_public = false;
        for (i, line) in lines.iter().enumerate() {
            if let Some(rest) = line.strip_prefix("impl") {
                // `impl<'a> Type<'a> {`, or `impl Trait for Type {`, where the trait has the documentation.
                let of = rest.split(' ').nth(1).unwrap().split('<').next().unwrap();
                is_public = public.contains(of);
            }
            if !is_public || !line.starts_with("    pub ") || !line.contains("fn ") {
                continue;
            }
            seen += 1;
            let above = lines[..i].rsplit(|line| line.is_empty()).next().unwrap();
            let fences = above.iter().filter(|line| line.contains("/// ```"));
            // Every other one begins a block; the words behind a fence say that it is not run.
            if !fences.step_by(2).any(|fence| fence.ends_with("```")) {
                wrong.push(format!("{name}:{}: {}", i + 1, line.trim()));
            }
        }
    }
    (seen, wrong)
}

#[test]
fn every_function_that_a_user_calls_has_an_example() {
    let (seen, wrong) = without_example(library());
    assert_eq!(wrong, Vec::<String>::new());
    assert!(seen > 130, "{seen}");
    let text = "impl Lease {\n    /// ```text\n    /// ```\n    pub fn f() {\n    }\n}\n";
    assert_eq!(
        without_example(&planted([("src/lease.rs", text)])).1.len(),
        1
    );
}
