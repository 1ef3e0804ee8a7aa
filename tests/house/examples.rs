//! Each function that a user calls has an example that is run, and names its errors.

use super::rooms::{listed, that_ship};
use super::tidy::files;

/// The number of functions of public types in these files, and what the documentation of each lacks.
fn lacking(sources: &[(String, String)]) -> (usize, Vec<String>) {
    let public = listed("Public types");
    let (mut seen, mut wrong) = (0, Vec::new());
    for (name, text) in that_ship(sources) {
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
                wrong.push(format!("{name}:{}: no example: {}", i + 1, line.trim()));
            }
            let end = lines[i..].iter().position(|line| line.ends_with('{'));
            let signature = lines[i..=i + end.unwrap()].concat();
            let says_errors = above.contains(&"    /// # Errors");
            if signature.contains("-> Result<") && !says_errors {
                wrong.push(format!("{name}:{}: no errors: {}", i + 1, line.trim()));
            }
        }
    }
    (seen, wrong)
}

#[test]
fn every_function_that_a_user_calls_has_an_example_and_names_its_errors() {
    let (seen, wrong) = lacking(&files("src", "rs"));
    assert_eq!(wrong, Vec::<String>::new());
    assert!(seen > 130, "{seen}");
    let planted = "impl Lease {\n    /// ```text\n    /// ```\n    pub fn f() -> Result<(), Error> {\n    }\n}\n";
    let planted = [("src/lease.rs".to_owned(), planted.to_owned())];
    assert_eq!(lacking(&planted).1.len(), 2);
}
