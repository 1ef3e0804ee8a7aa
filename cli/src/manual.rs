//! The manual page and the completions, made from the definition of the arguments.

use std::io::{self, Write};

use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::arguments;
use crate::arguments::page::{CODES, ENVIRONMENT, PAGES};
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
    let why = |error| format!("the manual page can't be made: {error}; please report this");
    let page = page().map_err(|error| Failure::new(IO, why(error)))?;
    output::print(&String::from_utf8_lossy(&page))?;
    Ok(0)
}

/// One page for all subcommands: each has a section with its synopsis, description, options, examples and exit codes.
fn page() -> io::Result<Vec<u8>> {
    let mut definition = arguments::definition();
    definition.build();
    let whole = Man::new(definition.clone()).section("1");
    let subcommands = || PAGES.iter().zip(definition.get_subcommands());
    let mut page = Vec::new();
    whole.render_title(&mut page)?;
    whole.render_name_section(&mut page)?;
    let mut usages = Roff::new();
    usages.control("SH", ["SYNOPSIS"]);
    for (_, subcommand) in subcommands() {
        let usage = subcommand.clone().render_usage().to_string();
        usages.text([bold(usage.trim_start_matches("Usage: "))]);
        usages.control("br", []);
    }
    usages.to_writer(&mut page)?;
    whole.render_description_section(&mut page)?;
    for ((name, text), subcommand) in subcommands() {
        writeln!(page, ".SH \"REDLATCH {}\"", name.to_uppercase())?;
        let part = Man::new(subcommand.clone());
        let mut sections = Vec::new();
        part.render_synopsis_section(&mut sections)?;
        part.render_description_section(&mut sections)?;
        part.render_options_section(&mut sections)?;
        as_it_is(&format!("{text}{CODES}")).to_writer(&mut sections)?;
        // Within the section of the subcommand.
        let sections = String::from_utf8_lossy(&sections).replace("\n.SH ", "\n.SS ");
        page.extend_from_slice(sections.as_bytes());
    }
    as_it_is(ENVIRONMENT).to_writer(&mut page)?;
    whole.render_version_section(&mut page)?;
    Ok(page)
}

/// The lines of a text as they are, below their titles.
fn as_it_is(text: &str) -> Roff {
    let mut roff = Roff::new();
    for line in text.lines() {
        match line.strip_suffix(':').filter(|line| !line.starts_with(' ')) {
            Some(title) => {
                roff.control("fi", []);
                roff.control("SH", [title.to_uppercase().as_str()]);
                roff.control("nf", []);
            }
            None => drop(roff.text([roman(line)])),
        }
    }
    roff.control("fi", []);
    roff
}

#[cfg(test)]
mod tests {
    use clap_complete::Shell;

    use super::*;

    #[test]
    fn the_manual_page_has_every_subcommand_and_flag_and_so_have_the_completions() {
        // A hyphen is escaped in roff.
        let page = String::from_utf8(page().unwrap()).unwrap();
        let page = page.replace("\\-", "-");
        let mut definition = arguments::definition();
        let scripts = [Shell::Bash, Shell::Zsh, Shell::Fish].map(|shell| {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut definition, "redlatch", &mut script);
            String::from_utf8(script).unwrap()
        });
        let names = definition.get_subcommands().map(clap::Command::get_name);
        let pages = PAGES.iter().map(|(name, _)| *name);
        assert!(names.eq(pages.chain(["help"])));
        let has = |part: &str| assert!(page.contains(part), "{part}: {page}");
        for (name, _) in PAGES {
            has(&format!("REDLATCH {}", name.to_uppercase()));
            has(&format!("redlatch {name}"));
            let subcommand = definition.find_subcommand(name).unwrap();
            for flag in subcommand.get_arguments().filter_map(clap::Arg::get_long) {
                has(&format!("--{flag}"));
                assert!(scripts.iter().all(|script| script.contains(flag)), "{flag}");
            }
        }
        for part in ["EXIT STATUS", "EXAMPLES", "REDLATCH_SLOT", "<NAME> -- <C"] {
            has(part);
        }
        let titles = [".SH ENVIRONMENT", ".SH FILES", ".SH VERSION"];
        let places = titles.map(|title| page.find(title));
        assert!(
            places.is_sorted() && places[0].is_some(),
            "{places:?}: {page}"
        );
    }
}
