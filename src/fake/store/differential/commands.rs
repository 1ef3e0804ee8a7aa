//! Single commands, as scripts call them, on keys of every type.

use super::steps::{Step, lock, value};
use super::words::{Dice, Word};

/// `key` is a lock, `value` one of a client or of what is there, and `number` may be none.
const COMMANDS: [&str; 34] = [
    "GET key",
    "MGET key key key",
    "SET key value",
    "SET key value PX number",
    "SET key value NX PX number",
    "SET key value PX number XX",
    "SET key number",
    "STRLEN key",
    "INCR key",
    "DEL key key",
    "EXISTS key key key",
    "TYPE key",
    "PTTL key",
    "PEXPIRE key number",
    "PEXPIREAT key end",
    "SADD key value",
    "SADD key r",
    "SREM key r",
    "SISMEMBER key value",
    "RPUSH key value 1 1",
    "ZADD key score value",
    "ZADD key end value",
    "ZADD key NX end value",
    "ZREM key value",
    "ZSCORE key value",
    "ZCOUNT key end +inf",
    "ZCOUNT key -inf (end",
    "ZRANGE key -1 -1 WITHSCORES",
    "ZRANGEBYSCORE key end +inf WITHSCORES LIMIT 0 1",
    "ZRANGEBYSCORE key (end +inf LIMIT 1 2",
    "ZREMRANGEBYSCORE key -inf (end",
    "ZREMRANGEBYSCORE key score score",
    "TIME",
    "SET key value NX",
];

const NUMBERS: [&str; 9] = [
    "1",
    "2",
    "600000",
    "0",
    "-1",
    "9223372036854775807",
    "x",
    "",
    "05",
];

/// Redis takes more for a number here, and rounds large ones. No script sends those.
const SCORES: [&str; 6] = ["1", "2", "600000", "0", "-1", "x"];

pub(super) fn command(dice: &mut Dice<'_>) -> Step {
    let command = dice.pick(&COMMANDS);
    let mut text = |word: &str| -> Word {
        let lock = lock(dice);
        match word {
            "key" => lock.into(),
            "value" => value(dice, lock),
            "number" => dice.pick(&NUMBERS).into(),
            "score" => dice.pick(&SCORES).into(),
            "end" => Word::End("", dice.pick(&[-1, 0, 1, 60_000])),
            "(end" => Word::End("(", dice.pick(&[0, 1])),
            word => word.into(),
        }
    };
    Step::Command(command.split(' ').map(&mut text).collect())
}
