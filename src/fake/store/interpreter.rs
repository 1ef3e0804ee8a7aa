//! What a fake node executes: commands, and the scripts that this crate sends, by Lua 5.1 as Redis has it.
//!
//! Each thread has one interpreter. While a script runs, the store is lent to it.

use std::time::Duration;

use mlua::{Function, IntoLua, Lua, LuaOptions, StdLib, Table, Value, Variadic};

use super::Store;
use super::entry::{error, integer, refusal};
use crate::wire::resp::{self, Reply};
use crate::wire::scripts::{BY_TEXT, SCRIPTS};

impl Store {
    /// Executes one packed command.
    pub(crate) fn execute(&mut self, command: &[u8], now: Duration) -> Reply {
        let Some(words) = arguments(command) else {
            return error("Protocol error: expected an array of bulk strings");
        };
        match words.as_slice() {
            ["EVAL", text, number, rest @ ..] => {
                let by_digest = SCRIPTS.iter().find(|script| script.text() == *text);
                self.scripts.extend(by_digest.map(|script| script.digest()));
                if by_digest.is_none() && !BY_TEXT.contains(text) {
                    return error("a fake node executes the scripts of this crate alone");
                }
                self.evaluate(text, number, rest, now)
            }
            ["EVALSHA", digest, number, rest @ ..] => {
                let mut known = SCRIPTS.iter().filter(|_| self.scripts.contains(digest));
                match known.find(|script| script.digest() == *digest) {
                    Some(script) => self.evaluate(script.text(), number, rest, now),
                    None => refusal("NOSCRIPT No matching script. Please use EVAL."),
                }
            }
            words => self.command(words, now),
        }
    }

    pub(crate) fn evaluate(
        &mut self,
        script: &str,
        number: &str,
        rest: &[&str],
        now: Duration,
    ) -> Reply {
        let number = match integer(number) {
            Ok(number) => usize::try_from(number).ok(),
            Err(refusal) => return refusal,
        };
        let Some((keys, arguments)) = number.and_then(|number| rest.split_at_checked(number))
        else {
            return error("Number of keys can't be greater than number of args");
        };
        let mut run = |interpreter: &mlua::Result<Interpreter>| {
            let interpreter = interpreter.as_ref().map_err(Clone::clone)?;
            interpreter.run(script, [keys, arguments], self, now)
        };
        // A thread that ends may still give a lock back, and has no interpreter by then.
        let reply = INTERPRETER
            .try_with(&mut run)
            .unwrap_or_else(|_gone| run(&Interpreter::new()));
        reply.unwrap_or_else(|failure| error(&failure.to_string()))
    }
}

/// Reads a packed command: an array of bulk strings in canonical form, and nothing behind it. Strings that are not UTF-8
/// are refused: this crate sends them only to release a key of another program, and here such keys hold text.
pub(super) fn arguments(command: &[u8]) -> Option<Vec<&str>> {
    let words = resp::words(command)?.into_iter();
    words.map(|word| str::from_utf8(word).ok()).collect()
}

/// What a script finds in Redis, and what runs it. `redis.call` is written in Lua, because an error out of a Rust function is no
/// table.
const REDIS: &str = "
    local compiled = {}
    redis = {}
    function redis.call(...)
      local reply = redis.pcall(...)
      if type(reply) == 'table' and reply.err then error(reply) end
      return reply
    end
    function redis.status_reply(text) return {ok = text} end
    return function(script, keys, arguments, execute)
      KEYS, ARGV, redis.pcall = keys, arguments, execute
      compiled[script] = compiled[script] or assert(loadstring(script, '@user_script'))
      local is_done, reply = pcall(compiled[script])
      if not is_done and type(reply) == 'string' then reply = {err = 'ERR ' .. reply} end
      return reply
    end";

thread_local! {
    static INTERPRETER: mlua::Result<Interpreter> = Interpreter::new();
}

struct Interpreter {
    lua: Lua,
    run: Function,
}

impl Interpreter {
    fn new() -> mlua::Result<Self> {
        let libraries = StdLib::STRING | StdLib::TABLE | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::new().catch_rust_panics(false))?;
        let run = lua.load(REDIS).eval()?;
        Ok(Self { lua, run })
    }

    fn run(
        &self,
        script: &str,
        words: [&[&str]; 2],
        store: &mut Store,
        now: Duration,
    ) -> mlua::Result<Reply> {
        let list = |words: &[&str]| self.lua.create_sequence_from(words.iter().copied());
        let [keys, arguments] = words.map(list);
        let (keys, arguments) = (keys?, arguments?);
        self.lua.scope(|scope| {
            let execute = scope.create_function_mut(|lua, words: Variadic<Value>| {
                let words: Option<Vec<String>> = words.iter().map(word).collect();
                let reply = words.map(|words| {
                    let words: Vec<&str> = words.iter().map(String::as_str).collect();
                    store.command(&words, now)
                });
                let refused =
                    || error("Lua redis lib command arguments must be strings or integers");
                to_lua(lua, reply.unwrap_or_else(refused))
            })?;
            let reply: Value = self.run.call((script, keys, arguments, execute))?;
            of_lua(&self.lua, &reply)
        })
    }
}

/// A word of a command.
fn word(value: &Value) -> Option<String> {
    if let Some(text) = value.as_string() {
        return Some(text.to_str().ok()?.to_owned());
    }
    let whole = value.as_integer().map(|number| number.to_string());
    whole.or_else(|| value.as_number().map(|number| number.to_string()))
}

fn to_lua(lua: &Lua, reply: Reply) -> mlua::Result<Value> {
    let named = |name: &str, text: String| lua.create_table_from([(name, text)])?.into_lua(lua);
    match reply {
        Reply::Nil => Ok(Value::Boolean(false)),
        Reply::Okay => named("ok", "OK".to_owned()),
        Reply::Text(text) => named("ok", text),
        Reply::Int(number) => number.into_lua(lua),
        Reply::Bulk(text) => lua.create_string(text)?.into_lua(lua),
        Reply::Error(error) => named("err", format!("{} {}", error.code, error.message)),
        Reply::Array(items) => {
            let items = items.into_iter().map(|item| to_lua(lua, item));
            let items: mlua::Result<Vec<Value>> = items.collect();
            items?.into_lua(lua)
        }
    }
}

/// What Redis makes of the result of a script.
fn of_lua(lua: &Lua, value: &Value) -> mlua::Result<Reply> {
    Ok(if let Some(table) = value.as_table() {
        of_table(lua, table)?
    } else if let Some(text) = value.as_string() {
        Reply::Bulk(text.as_bytes().to_vec())
    } else if value.is_integer() || value.is_number() {
        Reply::Int(lua.unpack(value.clone())?)
    } else if value.as_boolean() == Some(true) {
        Reply::Int(1)
    } else {
        Reply::Nil
    })
}

fn of_table(lua: &Lua, table: &Table) -> mlua::Result<Reply> {
    if let Some(text) = table.raw_get::<Option<String>>("err")? {
        return Ok(refusal(&text));
    }
    if let Some(text) = table.raw_get::<Option<String>>("ok")? {
        return Ok(match text.as_str() {
            "OK" => Reply::Okay,
            _ => Reply::Text(text),
        });
    }
    let items = table.sequence_values::<Value>();
    let items = items.map(|item| of_lua(lua, &item?));
    Ok(Reply::Array(items.collect::<mlua::Result<_>>()?))
}
