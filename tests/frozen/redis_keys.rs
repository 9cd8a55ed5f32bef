//! Converts all keys of a Redis to text and back. Each key has a line with its type and whether it expires. Each field
//! has a line with its value. Unprintable bytes are escaped as in `\x00`.

use std::collections::BTreeMap;
use std::fmt::Write;

use redis::aio::MultiplexedConnection;
use redis::cmd;

use crate::rig::server::issue;

/// The time to live of restored keys that expire.
const TTL: i64 = 30 * 86_400;

/// A field with its value, or a member with its score. In a stream, the field begins with the entry's id.
type Field = (Vec<u8>, Vec<u8>);

#[derive(Debug, PartialEq)]
pub struct Key {
    kind: String,
    has_ttl: bool,
    pub fields: Vec<Field>,
}

pub type Keys = BTreeMap<Vec<u8>, Key>;

pub async fn read(conn: &mut MultiplexedConnection) -> Keys {
    let names: Vec<Vec<u8>> = issue(conn, "KEYS", "*").await;
    let mut keys = Keys::new();
    for name in names {
        let kind: String = issue(conn, "TYPE", &name).await;
        let key = Key {
            has_ttl: issue::<i64>(conn, "TTL", &name).await >= 0,
            fields: fields(conn, &kind, &name).await,
            kind,
        };
        keys.insert(name, key);
    }
    keys
}

async fn fields(conn: &mut MultiplexedConnection, kind: &str, name: &[u8]) -> Vec<Field> {
    let mut ask = match kind {
        "string" => cmd("GET"),
        "hash" => cmd("HGETALL"),
        "zset" => cmd("ZRANGE"),
        "stream" => cmd("XRANGE"),
        other => panic!("{other}: a kind of key that is not frozen yet"),
    };
    ask.arg(name);
    match kind {
        "string" => {
            let value: Vec<u8> = ask.query_async(conn).await.unwrap();
            return vec![(Vec::new(), value)];
        }
        "stream" => {
            let entries: Vec<(Vec<u8>, Vec<Field>)> =
                ask.arg("-").arg("+").query_async(conn).await.unwrap();
            let of_entry = |(id, fields): (Vec<u8>, Vec<Field>)| {
                let name = move |field: Vec<u8>| [&id[..], b" ", &field[..]].concat();
                let fields = fields.into_iter();
                fields.map(move |(field, value)| (name(field), value))
            };
            return entries.into_iter().flat_map(of_entry).collect();
        }
        "zset" => drop(ask.arg(0).arg(-1).arg("WITHSCORES")),
        _ => {}
    }
    let mut fields: Vec<Field> = ask.query_async(conn).await.unwrap();
    fields.sort();
    fields
}

pub async fn restore(conn: &mut MultiplexedConnection, keys: &Keys) {
    for (name, key) in keys {
        let mut entry = Vec::new();
        for (field, value) in &key.fields {
            let mut write = match &*key.kind {
                "string" => cmd("SET"),
                "hash" => cmd("HSET"),
                "zset" => cmd("ZADD"),
                _ => cmd("XADD"),
            };
            write.arg(name);
            match &*key.kind {
                "string" => write.arg(value),
                "hash" => write.arg(field).arg(value),
                "zset" => write.arg(value).arg(field),
                _ => {
                    entry.push((field, value));
                    continue;
                }
            };
            write.exec_async(conn).await.unwrap();
        }
        let id = |field: &[u8]| field.split(|byte| *byte == b' ').next().unwrap().to_vec();
        for of_entry in entry.chunk_by(|(a, _), (b, _)| id(a) == id(b)) {
            let id = id(of_entry[0].0);
            let mut write = cmd("XADD");
            write.arg(name).arg(&id);
            for (field, value) in of_entry {
                write.arg(&field[id.len() + 1..]).arg(value);
            }
            write.exec_async(conn).await.unwrap();
        }
        if key.has_ttl {
            let () = issue(conn, "EXPIRE", (name, TTL)).await;
        }
    }
}

pub fn to_text(keys: &Keys) -> String {
    let mut text = String::new();
    for (name, key) in keys {
        let expires = if key.has_ttl { "expires" } else { "stays" };
        writeln!(text, "{}\t{}\t{expires}", escaped(name), key.kind).unwrap();
        for (field, value) in &key.fields {
            writeln!(text, "  {}\t{}", escaped(field), escaped(value)).unwrap();
        }
    }
    text
}

pub fn from_text(text: &str) -> Keys {
    let (mut keys, mut last) = (Keys::new(), Vec::new());
    for line in text.lines() {
        match line.strip_prefix("  ") {
            None => {
                let words: Vec<&str> = line.split('\t').collect();
                let [name, kind, expires] = words[..] else {
                    panic!("{line}")
                };
                last = unescaped(name);
                let key = Key {
                    kind: kind.to_owned(),
                    has_ttl: expires == "expires",
                    fields: Vec::new(),
                };
                keys.insert(last.clone(), key);
            }
            Some(field) => {
                let (field, value) = field.split_once('\t').unwrap();
                let field = (unescaped(field), unescaped(value));
                keys.get_mut(&last).unwrap().fields.push(field);
            }
        }
    }
    keys
}

fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'\\' => text.push_str("\\\\"),
            b' '..=b'~' => text.push(char::from(*byte)),
            _ => write!(text, "\\x{byte:02x}").unwrap(),
        }
    }
    text
}

fn unescaped(text: &str) -> Vec<u8> {
    let (mut bytes, mut left) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let [first, tail @ ..] = left {
        let (byte, tail) = match (first, tail) {
            (b'\\', [b'x', digits @ ..]) => {
                let (digits, tail) = digits.split_at(2);
                let digits = std::str::from_utf8(digits).unwrap();
                (u8::from_str_radix(digits, 16).unwrap(), tail)
            }
            (b'\\', [_, tail @ ..]) => (b'\\', tail),
            (first, tail) => (*first, tail),
        };
        bytes.push(byte);
        left = tail;
    }
    bytes
}
