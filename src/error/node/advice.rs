//! Pure: what an operator can do about an error that a server answered, or about a connection that can't be made.

/// The advice for an operator about an error that a server answered.
pub(super) fn advice(code: &str, message: &str) -> &'static str {
    match code {
        "ERR" | "@user_script:" if is_forbidden(code, message) => advice("NOPERM", message),
        "NOAUTH" => " (the server demands a password, and none was given: give one)",
        "WRONGPASS" => {
            " (the user or the password is wrong, or a restart has forgotten the user: ACL SETUSER alone does not last)"
        }
        "NOPERM" if is_about_a_key(message) => {
            " (the user's ACL forbids it: allow the key pattern ~PREFIX*, where PREFIX is the key_prefix; a pattern that is longer leaves out the keys that are kept beside the locks)"
        }
        "NOPERM" if message.ends_with(": SCAN") || message.ends_with(": STRLEN") => {
            " (the user's ACL forbids it: to list locks, allow SCAN and STRLEN)"
        }
        "NOPERM" => {
            " (the user's ACL forbids it: allow SET, EVAL, EVALSHA, GET, DEL, PTTL, PEXPIRE and, with Protocol::Fenced, MGET, TIME and INFO; read locks need TIME, TYPE, PEXPIREAT and commands of sorted sets as well)"
        }
        "READONLY" => " (this is a replica: every node has to be an independent master)",
        "LOADING" => " (the server is loading its data: it votes once that is done)",
        "CROSSSLOT" => {
            " (this is a Redis Cluster: give several names one hash tag, as {account}:1 and {account}:2, or better each node a server of its own)"
        }
        "MOVED" | "ASK" | "CLUSTERDOWN" => {
            " (this is a Redis Cluster: every node has to be an independent master)"
        }
        "ERR" if is_needed(message) => UNKNOWN_COMMAND,
        "ERR" if message.starts_with(TOO_MANY) => {
            " (the server has no room for a further client: end idle ones, or raise its maxclients)"
        }
        "DENIED" => {
            " (the server takes no clients of other machines, because its default user needs no password: close that user by ACL SETUSER default reset, or set requirepass there)"
        }
        "OOM" => " (the server is out of memory)",
        "MISCONF" => " (the server refuses writes because it can't save to disk)",
        _ => "",
    }
}

/// Returns the part of a server's message that is for its clients. Most of the message of protected mode is for people at its own
/// machine.
pub(super) fn for_clients<'m>(code: &str, message: &'m str) -> &'m str {
    let first = message.split(". ").next().unwrap_or_default();
    if code == "DENIED" { first } else { message }
}

/// The message of a server that has too many clients and closes a further connection.
pub(crate) const TOO_MANY: &str = "max number of clients reached";

/// The messages if the server closes a connection at once, without and with TLS.
pub(crate) const ENDED_PLAIN: &str = "before the first answer";
pub(crate) const ENDED_TLS: &str = "before the first answer over TLS";

/// Returns the advice for this message about a connection, or an empty text. The words about certificates are those of rustls.
pub(super) fn on_connection(said: &str) -> &'static str {
    let advice = ON_CONNECTIONS.iter().find(|(text, _)| said.contains(text));
    advice.map_or("", |(_, advice)| advice)
}

/// Words of messages, each with its advice. The first entry that fits is used.
const ON_CONNECTIONS: [(&str, &str); 9] = [
    ("UnknownIssuer", NO_ROOT),
    // Another root certificate has the same name.
    ("BadSignature", NO_ROOT),
    (
        "not valid for name",
        " (give a name in the server's certificate by Tls::server_name, --tls-name or the URL)",
    ),
    (
        "CaUsedAsEndEntity",
        " (the server shows the certificate of an authority: give it one of its own, with CA:FALSE)",
    ),
    (
        "invalid peer certificate",
        " (the server's certificate can't be used: give it a valid one, and check the clocks)",
    ),
    ("CertificateRequired", ASKS_FOR_A_CERTIFICATE),
    (ENDED_TLS, ASKS_FOR_A_CERTIFICATE),
    (
        "corrupt message",
        " (this port does not speak TLS: use redis://, or give the port with TLS)",
    ),
    (
        ENDED_PLAIN,
        " (if the port expects TLS, use rediss://; or a proxy does not reach its server)",
    ),
];

const NO_ROOT: &str = " (the root certificate of the server is missing: give it by Tls::root_certificates, --tls-ca or SSL_CERT_FILE)";

const ASKS_FOR_A_CERTIFICATE: &str = " (the server may ask for a certificate: give one by Tls::client_certificate, or --tls-cert and --tls-key)";

/// Whether the user's ACL is the reason. For a refusal within a script, Redis has no error code: Redis 7 answers ERR, Redis 6
/// the name and line of the script.
pub(super) fn is_forbidden(code: &str, message: &str) -> bool {
    let refusals = ["can't run this command", "ACL failure", "can't access"];
    let is_of_script = matches!(code, "ERR" | "@user_script:");
    code == "NOPERM" || is_of_script && refusals.iter().any(|words| message.contains(words))
}

/// Whether a server refuses the key, and not the command: "No permissions to access a key", "… no permissions to access
/// one of the keys used as arguments", "… can't access at least one of the keys mentioned in the command arguments".
pub(super) fn is_about_a_key(message: &str) -> bool {
    message.contains("access") && message.contains(" key")
}

/// The advice where a server does not know a command that every lock needs.
const UNKNOWN_COMMAND: &str = " (this is the port of a sentinel, or the server has renamed the command: every node has to be an independent master)";

/// Whether a server says that it does not know a command that every lock needs. A sentinel has none of them.
fn is_needed(message: &str) -> bool {
    let named = message.strip_prefix("unknown command ");
    let name = named.map(|name| name.trim_matches(['\'', '`', ',', ' ']));
    let needed = ["SET", "EVAL", "EVALSHA", "SELECT", "GET"];
    name.is_some_and(|name| needed.iter().any(|known| name.eq_ignore_ascii_case(known)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_of_a_lock_are_told_apart_in_the_words_of_every_version() {
        for (message, expected) in [
            ("unknown command 'SET'", true),
            ("unknown command `EVAL`, ", true),
            ("unknown command 'evalsha'", true),
            ("unknown command 'SELECT'", true),
            ("unknown command", false),
            ("unknown command 'SCAN'", false),
            ("syntax error", false),
        ] {
            assert_eq!(is_needed(message), expected, "{message}");
        }
    }
}
