//! Answers of a cluster's node that name another one. The answering node has not executed the command.

use super::address::Address;

/// The node that must execute a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Redirect {
    /// The node owns the slot now.
    Moved(Address),
    /// The slot is being moved to the node, which already has the key: only this command goes there, after ASKING.
    Ask(Address),
}

impl Redirect {
    /// Whether an error code is a redirect.
    pub(crate) fn is_one(code: &str) -> bool {
        matches!(code, "MOVED" | "ASK")
    }

    /// Parses an error such as `MOVED 3999 127.0.0.1:6381`. `None` if it is not a redirect, concerns another slot, or
    /// has no address. An empty host is that of the node which has answered.
    pub(crate) fn parse(code: &str, detail: &str, slot: u16, answered_by: &str) -> Option<Self> {
        if !Self::is_one(code) {
            return None;
        }
        let mut words = detail.split(' ');
        if words.next()?.parse() != Ok(slot) {
            return None;
        }
        // Some servers append the host name.
        let address = Address::parse(words.next()?, Some(answered_by))?;
        Some(match code {
            "MOVED" => Self::Moved(address),
            _ => Self::Ask(address),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_names_a_node_and_the_slot() {
        let parse = |code, detail| Redirect::parse(code, detail, 3999, "seed");
        let node = |host, port| Address::announced(host, port).expect("an address");
        let moved = Some(Redirect::Moved(node("127.0.0.1", 6381)));
        assert_eq!(parse("MOVED", "3999 127.0.0.1:6381"), moved);
        let same_host = Some(Redirect::Ask(node("seed", 6382)));
        assert_eq!(parse("ASK", "3999 :6382"), same_host);
        for (code, nonsense) in [
            ("MOVED", ""),
            ("MOVED", "3999"),
            ("MOVED", "4000 127.0.0.1:6381"),
            ("MOVED", "x 127.0.0.1:6381"),
            ("MOVED", "3999 127.0.0.1"),
            ("ASK", "3999 127.0.0.1:99999"),
            ("ASK", "3999 ?:6379"),
            ("ERR", "3999 127.0.0.1:6381"),
        ] {
            assert_eq!(parse(code, nonsense), None, "{code} {nonsense}");
        }
    }
}
