//! The branches of the scripts that no sequence can take, each with the reason.

pub(super) const BRANCHES: [(&str, &[&str]); 4] = [
    (
        "only a server that executes no such command for this user, or not now, answers so: no memory, no permission (tests/servers/faults/full.rs, tests/servers/connecting/users.rs)",
        &[
            "for before = 1, place - 1 do redis.call('DEL', KEYS[free[before]]) end: 1 do",
            "if failure then return failure end: 1 then",
            "if last.err then return nil, string.find(last.err, 'WRONGTYPE', 1, true) and {-3} or last end: 3 or",
            "if not last then return nil, why_not.err and why_not or refusal(lock, redis.pcall('GET', lock)) end: 2 and",
            "if not last then return why_not.err and why_not or {-2} end: 2 and",
            "if not string.find(length.err, 'WRONGTYPE', 1, true) then return nil, {err = length.err .. ': STRLEN'} end: 1 then",
            "if page.err then return {err = page.err .. ': SCAN'} end: 1 then",
            "if row.err then return nil, row end: 1 then",
            "if set().err then: 1 then",
            "if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then return value end: 2 then",
            "return last, why_not and why_not.err and {err = why_not.err .. ': ZRANGE'}: 2 and",
            "return type(count) == 'table' and count or {left, count}: 1 and",
        ],
    ),
    (
        "`PEXPIREAT` of a key that is there, with such a number, is never refused",
        &[
            "elseif its < 0 then: 1 then",
            "if kept == 1 then return end: 2 no else",
            "if redis.call('PTTL', lock) == -1 then: 1 then",
        ],
    ),
    (
        "a node of a cluster, or a server that does not say who it is (tests/servers/faults/introduced.rs, tests/servers/fenced/trouble.rs)",
        &[
            "if not id and not why then id, why = field('replication', '\\nmaster_replid:') end: 1 and",
            "if not id and not why then id, why = field('replication', '\\nmaster_replid:') end: 2 then",
            "if not process_id then return {'UNKNOWN', why_not} end: 1 then",
            "if not run then return {'UNKNOWN', why_not} end: 1 then",
            "if string.find(info, '_mode:cluster', 1, true) then return nil, 'CLUSTER' end: 1 then",
            "if type(info) == 'table' then return nil, string.sub(info.err, 1, 200) end: 1 then",
            "if why_not == 'CLUSTER' then return redis.status_reply(why_not) end: 1 then",
        ],
    ),
    (
        "since Redis 7, an error within a script is no text, and no client sends what Lua can't compute",
        &["return {row, type(taken) == 'string' and {err = taken} or taken}: 1 and"],
    ),
];
