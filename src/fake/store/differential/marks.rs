//! Copies of the Lua scripts that count which branches they take.
//!
//! Each statement, block, `and` and `or` of a script gets a mark, and the copy returns how often it came to each of them. What
//! was taken, and what was not, is told from these numbers: a condition has been false as often as its statement was executed
//! and its block was not. Comments and constants apart, the copy is the script.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;

/// A sum of counts of marks.
type Sum = Vec<(usize, i64)>;

/// A way that scripts may go: it was gone as often as the sum says.
pub(super) struct Branch {
    /// The file, the line as it is written, and what of it.
    pub(super) place: String,
    sum: Sum,
}

/// All files of scripts, with marks.
pub(super) struct Marked {
    files: Vec<(String, String)>,
    branches: Vec<Branch>,
}

/// The names of the files of scripts, and what is in them.
pub(super) fn lua_files() -> Vec<(String, String)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/wire/scripts");
    let entries = fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let scripts = paths.filter(|path| path.extension().is_some_and(|it| it == "lua"));
    let file = |path: std::path::PathBuf| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        (name, fs::read_to_string(path).unwrap())
    };
    let mut files: Vec<_> = scripts.map(file).collect();
    files.sort();
    files
}

/// How often each mark was come to.
pub(super) type Counts = BTreeMap<usize, i64>;

impl Marked {
    pub(super) fn new() -> Self {
        let mut scanner = Scanner::default();
        let mark = |(name, text): (String, String)| {
            let marked = scanner.file(&name, &text);
            (text, marked)
        };
        let files = lua_files().into_iter().map(mark).collect();
        Self {
            files,
            branches: scanner.branches,
        }
    }

    /// The copy of a script. It returns the script's reply, and behind it the marks with their counts.
    pub(super) fn copy(&self, script: &str) -> String {
        let mut body = String::new();
        let mut rest = script;
        while !rest.is_empty() {
            let known = self.files.iter().find(|(text, _)| rest.starts_with(text));
            let after = if let Some((text, marked)) = known {
                body += marked;
                &rest[text.len()..]
            } else {
                // What stands between files.
                let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
                body = body + line + "\n";
                after
            };
            rest = after;
        }
        format!(
            "local __n = {{}}\n\
             local function __m(i) __n[i] = (__n[i] or 0) + 1 return true end\n\
             local function __f(i) __m(i) return false end\n\
             local function __script()\n{body}end\n\
             local __ok, __reply = pcall(__script)\n\
             if not __ok and type(__reply) == 'string' then __reply = {{err = string.gsub(__reply, '^@?user_script', 'ERR %0')}} end\n\
             local __counts = {{}}\n\
             for i, n in pairs(__n) do __counts[#__counts + 1] = i __counts[#__counts + 1] = n end\n\
             return {{__reply or false, __counts}}\n"
        )
    }

    /// The branches that were never taken.
    pub(super) fn missed(&self, counts: &Counts) -> Vec<&str> {
        let count = |mark: &usize| counts.get(mark).copied().unwrap_or_default();
        let times = |sum: &Sum| -> i64 { sum.iter().map(|(mark, sign)| sign * count(mark)).sum() };
        let missed = self
            .branches
            .iter()
            .filter(|branch| times(&branch.sum) == 0);
        missed.map(|branch| branch.place.as_str()).collect()
    }

    pub(super) fn branches(&self) -> usize {
        self.branches.len()
    }
}

/// Where an expression begins, or the part of one in brackets.
#[derive(Clone)]
struct Group {
    /// How often it was begun.
    start: Sum,
    /// How often what comes behind its last `or` was.
    chain: Sum,
    /// How often its last operand was.
    operand: Sum,
    /// What that begins with.
    first: Option<String>,
}

impl Group {
    fn new(start: Sum) -> Self {
        Self {
            chain: start.clone(),
            operand: start.clone(),
            start,
            first: None,
        }
    }
}

enum Block {
    /// How often it was come to, less the branches so far.
    If(Sum),
    Other,
}

#[derive(Default)]
struct Scanner {
    next: usize,
    branches: Vec<Branch>,
    /// The file and the line that is scanned.
    at: (String, String),
    /// How many `and` and `or` the line has so far.
    operators: usize,
    groups: Vec<Group>,
    blocks: Vec<Block>,
}

fn of(mark: usize) -> Sum {
    vec![(mark, 1)]
}

fn less(mut sum: Sum, minus: &Sum) -> Sum {
    sum.extend(minus.iter().map(|(mark, sign)| (*mark, -sign)));
    sum
}

impl Scanner {
    fn file(&mut self, name: &str, text: &str) -> String {
        let mut out = String::new();
        for line in text.lines() {
            self.at = (name.to_owned(), line.trim().to_owned());
            let code = line.trim_start();
            if code.starts_with("--") || code.is_empty() {
                continue;
            }
            let first = tokens(code).next().unwrap_or_default();
            if !["end", "else", "elseif"].contains(&first) {
                let mark = self.mark(&mut out, "__m");
                out.push(' ');
                self.groups = vec![Group::new(of(mark))];
                self.branch("executed", of(mark));
            }
            self.line(code, &mut out);
            out.push('\n');
        }
        assert!(self.blocks.is_empty(), "{name}: a block without an end");
        out
    }

    fn line(&mut self, code: &str, out: &mut String) {
        let mut is_signature = false;
        self.operators = 0;
        for token in tokens(code) {
            out.push_str(token);
            if let Some(group) = self.groups.last_mut()
                && group.first.is_none()
                && token != " "
            {
                group.first = Some(token.to_owned());
            }
            match token {
                "and" | "or" => self.operator(token, out),
                "(" | "{" | "[" => {
                    let operand = self.group().operand.clone();
                    self.groups.push(Group::new(operand));
                }
                ")" | "}" | "]" => {
                    self.groups.pop();
                    if std::mem::take(&mut is_signature) {
                        self.begin_block(out, "called");
                    }
                }
                "," => {
                    let start = self.group().start.clone();
                    *self.group() = Group::new(start);
                }
                "if" => {
                    let start = self.group().start.clone();
                    self.blocks.push(Block::If(start));
                }
                "elseif" => {
                    let Some(Block::If(left)) = self.blocks.last() else {
                        panic!("an elseif without an if");
                    };
                    self.groups = vec![Group::new(left.clone())];
                }
                "then" => self.then(out),
                "else" => {
                    self.begin_block(out, "else");
                }
                "function" => {
                    is_signature = true;
                    self.blocks.push(Block::Other);
                }
                "for" | "while" => self.blocks.push(Block::Other),
                "do" => {
                    self.begin_block(out, "do");
                }
                "end" => drop(self.blocks.pop()),
                _ => (),
            }
        }
    }

    fn group(&mut self) -> &mut Group {
        self.groups.last_mut().unwrap()
    }

    fn mark(&mut self, out: &mut String, function: &str) -> usize {
        self.next += 1;
        write!(out, "{function}({})", self.next).unwrap();
        self.next
    }

    fn branch(&mut self, what: &str, sum: Sum) {
        let (file, line) = &self.at;
        let place = format!("{file}: {line}: {what}");
        self.branches.push(Branch { place, sum });
    }

    fn begin_block(&mut self, out: &mut String, what: &str) -> usize {
        out.push(' ');
        let mark = self.mark(out, "__m");
        self.groups = vec![Group::new(of(mark))];
        self.branch(what, of(mark));
        mark
    }

    /// `a and __m(1) and b` and `a or __f(1) or b` are what they were.
    fn operator(&mut self, operator: &str, out: &mut String) {
        let function = if operator == "and" { "__m" } else { "__f" };
        out.push(' ');
        let mark = self.mark(out, function);
        write!(out, " {operator}").unwrap();
        self.operators += 1;
        let nth = self.operators;
        let what = |way: &str| format!("{operator} {nth} {way}");
        let group = self.group().clone();
        let (from, skipped) = if operator == "and" {
            (&group.operand, "not reached")
        } else {
            (&group.chain, "not needed")
        };
        self.branch(&what("reached"), of(mark));
        self.branch(&what(skipped), less(from.clone(), &of(mark)));
        // What is always true, a table or a text, is there to be the result.
        let is_constant = group
            .first
            .is_some_and(|first| first.starts_with(['{', '\'']));
        if operator == "or" && group.operand != group.chain && !is_constant {
            // The operand in front of it was false, and not another one before that.
            let others = less(group.chain.clone(), &group.operand);
            self.branch(&what("because of the last"), less(of(mark), &others));
        }
        let after = self.group();
        after.operand = of(mark);
        after.first = None;
        if operator == "or" {
            after.chain = of(mark);
        }
    }

    fn then(&mut self, out: &mut String) {
        let group = self.group().clone();
        let mark = self.begin_block(out, "true");
        // What is behind the last `or` was true as often as all of it, but for the times when it was not come to.
        let others = less(group.start.clone(), &group.chain);
        let truths = less(of(mark), &others);
        if group.start != group.chain {
            self.branch("true by the last", truths.clone());
        }
        self.branch("false by the last", less(group.operand, &truths));
        if let Some(Block::If(left)) = self.blocks.last_mut() {
            left.push((mark, -1));
        }
    }
}

/// The words, strings, spaces and signs of a line.
fn tokens(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let length = match first {
            '\'' | '"' => rest[1..].find(first).unwrap() + 2,
            c if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        let (token, after) = rest.split_at(length);
        rest = after;
        Some(token)
    })
}
