//! The manual page and the completions, made from the definition of the arguments.

use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::arguments;
use crate::arguments::page::{Entry, PAGES, common_codes, environment, files};
use crate::failure::{Failure, IO};
use crate::output;

pub(crate) fn completions(shell: clap_complete::Shell) -> Result<u8, Failure> {
    let mut script = Vec::new();
    let mut definition = arguments::definition();
    clap_complete::generate(shell, &mut definition, "redlatch", &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(0)
}

pub(crate) fn man() -> Result<u8, Failure> {
    let page = page().map_err(|error| {
        Failure::new(
            IO,
            format!("the manual page can't be made: {error}; please report this"),
        )
    })?;
    output::print(&String::from_utf8_lossy(&page))?;
    Ok(0)
}

/// One page for all subcommands: each has a section with its synopsis, description and options.
fn page() -> std::io::Result<Vec<u8>> {
    let mut definition = arguments::definition();
    definition.build();
    let whole = Man::new(definition.clone()).section("1");
    let mut page = Vec::new();
    whole.render_title(&mut page)?;
    whole.render_name_section(&mut page)?;
    let mut usages = Roff::new();
    synopsis(&mut usages, &definition);
    usages.to_writer(&mut page)?;
    whole.render_description_section(&mut page)?;
    for subcommand in definition
        .get_subcommands()
        .filter(|s| s.get_name() != "help")
    {
        let title = format!("redlatch {}", subcommand.get_name());
        Roff::new()
            .control("SH", [title.to_uppercase().as_str()])
            .to_writer(&mut page)?;
        let part = Man::new(subcommand.clone());
        let mut sections = Vec::new();
        part.render_synopsis_section(&mut sections)?;
        part.render_description_section(&mut sections)?;
        part.render_options_section(&mut sections)?;
        // Within the section of the subcommand.
        let sections = String::from_utf8_lossy(&sections).replace("\n.SH ", "\n.SS ");
        page.extend_from_slice(sections.as_bytes());
    }
    closing_sections().to_writer(&mut page)?;
    whole.render_version_section(&mut page)?;
    Roff::new().text([roman("")]).to_writer(&mut page)?;
    Ok(page)
}

/// What can be typed after the name of the program.
fn synopsis(roff: &mut Roff, definition: &clap::Command) {
    roff.control("SH", ["SYNOPSIS"]);
    for subcommand in definition
        .get_subcommands()
        .filter(|s| s.get_name() != "help")
    {
        let mut subcommand = subcommand.clone();
        let usage = subcommand.render_usage().to_string();
        let usage = usage.trim_start_matches("Usage: ").to_owned();
        roff.text([bold(usage)]);
        roff.control("br", []);
    }
}

/// The exit codes, variables, files and examples.
fn closing_sections() -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["EXIT STATUS"]);
    for page in &PAGES {
        roff.control("SS", [format!("redlatch {}", page.subcommand).as_str()]);
        list(&mut roff, &page.exit_codes());
    }
    roff.control("SS", ["all subcommands"]);
    list(&mut roff, &common_codes());
    roff.control("SH", ["ENVIRONMENT"]);
    list(&mut roff, &environment());
    roff.control("SH", ["FILES"]);
    list(&mut roff, &files());
    roff.control("SH", ["EXAMPLES"]);
    for page in &PAGES {
        list(&mut roff, &page.examples());
    }
    roff
}

fn list(roff: &mut Roff, entries: &[Entry]) {
    for Entry { term, meaning } in entries {
        roff.control("TP", []);
        // Each line of a term is a line of the page.
        for (i, line) in term.lines().enumerate() {
            if i > 0 {
                roff.control("TQ", []);
            }
            roff.text([bold(line)]);
        }
        roff.text([roman(meaning)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The long names of all flags, of all subcommands.
    fn flags() -> Vec<String> {
        let mut definition = arguments::definition();
        definition.build();
        let subcommands = definition.get_subcommands();
        let arguments = subcommands.flat_map(clap::Command::get_arguments);
        let mut flags: Vec<String> = arguments
            .filter_map(|argument| argument.get_long().map(str::to_owned))
            .collect();
        flags.sort();
        flags.dedup();
        flags
    }

    #[test]
    fn the_manual_page_has_every_subcommand_and_flag() {
        let page = String::from_utf8(page().unwrap()).unwrap();
        for flag in flags() {
            // A hyphen is escaped in roff.
            let name = format!("\\-\\-{}", flag.replace('-', "\\-"));
            assert!(page.contains(&name), "{name}");
        }
        let definition = arguments::definition();
        for subcommand in definition.get_subcommands() {
            let name = subcommand.get_name();
            assert!(
                page.contains(&format!("REDLATCH {}", name.to_uppercase())),
                "{name}"
            );
            let of_it = PAGES.iter().filter(|page| page.subcommand == name);
            let [of_it] = of_it.collect::<Vec<_>>()[..] else {
                panic!("{name} is not in PAGES");
            };
            assert!(!of_it.exit_codes().is_empty() && !of_it.examples().is_empty());
            let usage = format!("redlatch {}", name.replace('-', "\\-"));
            assert!(page.contains(&usage), "{usage}");
        }
        let sections = ["EXIT STATUS", "ENVIRONMENT", "FILES", "EXAMPLES", "VERSION"];
        let places = sections.map(|title| {
            page.find(&format!("\n.SH \"{title}\""))
                .or(page.find(&format!("\n.SH {title}\n")))
        });
        assert!(
            places.is_sorted() && places[0].is_some(),
            "{places:?}: {page}"
        );
        for Entry { term, .. } in [environment(), files()].concat() {
            let escaped = term.replace('-', "\\-").replace('.', "\\&.");
            assert!(page.contains(&term) || page.contains(&escaped), "{term}");
        }
        assert!(page.contains("<NAME> \\-\\- <COMMAND>..."));
    }

    #[test]
    fn the_completions_have_every_flag() {
        for shell in [
            clap_complete::Shell::Bash,
            clap_complete::Shell::Zsh,
            clap_complete::Shell::Fish,
        ] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut arguments::definition(), "redlatch", &mut script);
            let script = String::from_utf8(script).unwrap();
            for flag in flags() {
                assert!(script.contains(&flag), "{shell}: {flag}");
            }
        }
    }
}
