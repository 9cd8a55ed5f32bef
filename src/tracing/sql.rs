//! The name of a SQL statement: its verb and its first table, `sql SELECT users`. A name never has a part of a literal:
//! where the dialect decides what is a literal, the search for the table ends.

use super::names::Name;
use super::text::cut;

/// The part of a statement that is searched for a table, in bytes.
const SEARCHED: usize = 1_024;

/// What follows common table expressions.
const MAIN_VERBS: [&str; 5] = ["SELECT", "INSERT", "UPDATE", "DELETE", "MERGE"];

/// Words that may stand before a table.
const BEFORE_TABLES: [&str; 8] = [
    "ONLY", "LATERAL", "OR", "IGNORE", "REPLACE", "ABORT", "FAIL", "ROLLBACK",
];

/// The name of a statement, and whether it has its table or needs none. A summary of sqlx has the first four words of a
/// statement, followed by an ellipsis.
pub(super) fn name_of(statement: &str) -> (Name, bool) {
    let mut name = Name::from("sql");
    let statement = statement.strip_suffix('…').unwrap_or(statement);
    let mut tokens = Tokens::new(cut(statement, SEARCHED));
    let is_complete = write_name(&mut tokens, &mut name).is_some();
    (name, is_complete)
}

/// Appends the verb and the table. Returns `None` if the table is not found.
fn write_name(tokens: &mut Tokens<'_>, name: &mut Name) -> Option<()> {
    let mut verb = tokens.find_map(Token::word)?;
    let mut depth = tokens.depth;
    if is(verb, "WITH") {
        verb = tokens.word_at(depth, |word| is_any(word, &MAIN_VERBS))?;
    }
    name.push(" ");
    for letter in verb.bytes().take_while(u8::is_ascii_alphabetic).take(16) {
        name.push(char::from(letter.to_ascii_uppercase()).encode_utf8(&mut [0; 4]));
    }
    let before_table = match verb {
        verb if is(verb, "SELECT") || is(verb, "DELETE") => "FROM",
        verb if is_any(verb, &["INSERT", "REPLACE", "MERGE"]) => "INTO",
        verb if is(verb, "UPDATE") => "",
        _ => return Some(()),
    };
    loop {
        if !before_table.is_empty() {
            tokens.word_at(depth, |word| is(word, before_table))?;
        }
        let mut token = tokens.next()?;
        // A subquery, or a join in parentheses.
        while matches!(token, Token::Symbol(b'(')) {
            depth = tokens.depth;
            token = tokens.next()?;
        }
        while token
            .word()
            .is_some_and(|word| is_any(word, &BEFORE_TABLES))
        {
            token = tokens.next()?;
        }
        if token.word().is_some_and(|word| is(word, "SELECT")) {
            continue;
        }
        let mut table = token.identifier()?;
        // The last part of `schema.table`.
        while tokens.skip(b'.') {
            table = tokens.next()?.identifier()?;
        }
        // Tables that are numbered, such as by month, share a name.
        let parts = table.split(|c: char| c.is_ascii_digit());
        let parts = parts.filter(|part| !part.is_empty());
        for (at, part) in parts.enumerate() {
            name.push(if at == 0 { " " } else { "" });
            name.push(part);
        }
        return Some(());
    }
}

fn is(word: &str, keyword: &str) -> bool {
    word.eq_ignore_ascii_case(keyword)
}

fn is_any(word: &str, keywords: &[&str]) -> bool {
    keywords.iter().any(|keyword| is(word, keyword))
}

/// A part of a statement.
#[derive(Clone, Copy)]
enum Token<'a> {
    Word(&'a str),
    /// A text in double quotes or backticks, which is an identifier where a table is expected.
    Quoted(&'a str),
    /// Any other character, or a literal.
    Symbol(u8),
}

impl<'a> Token<'a> {
    fn word(self) -> Option<&'a str> {
        match self {
            Self::Word(word) => Some(word),
            _ => None,
        }
    }

    fn identifier(self) -> Option<&'a str> {
        match self {
            Self::Word(name) | Self::Quoted(name) => Some(name),
            Self::Symbol(_) => None,
        }
    }
}

/// The tokens of a statement, without comments. They end where a literal cannot be told from other text.
struct Tokens<'a> {
    text: &'a str,
    /// The number of open parentheses.
    depth: i32,
}

impl<'a> Tokens<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, depth: 0 }
    }

    /// The next word at a depth that has a property.
    fn word_at(&mut self, depth: i32, is_it: impl Fn(&'a str) -> bool) -> Option<&'a str> {
        loop {
            let word = self.next()?.word();
            if let Some(word) = word.filter(|word| self.depth == depth && is_it(word)) {
                return Some(word);
            }
        }
    }

    /// Skips a character, if it is next.
    fn skip(&mut self, byte: u8) -> bool {
        let is_next = self.text.as_bytes().first() == Some(&byte);
        if is_next {
            self.take(1);
        }
        is_next
    }

    /// Takes this many bytes, which end at the boundary of a character.
    fn take(&mut self, length: usize) -> &'a str {
        let (taken, left) = self.text.split_at(length);
        self.text = left;
        taken
    }

    /// Takes a text up to a quote, after the quote that opens it.
    fn take_quoted(&mut self, quote: u8) -> Option<&'a str> {
        self.take(1);
        let quoted = self.take(self.text.bytes().position(|byte| byte == quote)?);
        self.take(1);
        // Whether a backslash or a second quote escapes differs between dialects.
        let is_plain = !quoted.contains('\\') && self.text.bytes().next() != Some(quote);
        is_plain.then_some(quoted)
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80;
        loop {
            self.text = self.text.trim_ascii_start();
            let bytes = self.text.as_bytes();
            let first = *bytes.first()?;
            match first {
                b'-' if bytes.starts_with(b"--") => {
                    self.take(self.text.find('\n')?);
                }
                b'/' if bytes.starts_with(b"/*") => {
                    self.take(self.text.find("*/")? + 2);
                }
                b'\'' => {
                    self.take_quoted(first)?;
                    return Some(Token::Symbol(first));
                }
                b'"' | b'`' => return self.take_quoted(first).map(Token::Quoted),
                // A dollar without a digit begins a literal of Postgres.
                b'$' if !bytes.get(1).is_some_and(u8::is_ascii_digit) => return None,
                byte if is_word(byte) => {
                    let end = bytes.iter().position(|byte| !is_word(*byte));
                    return Some(Token::Word(self.take(end.unwrap_or(bytes.len()))));
                }
                byte => {
                    self.depth += i32::from(byte == b'(') - i32::from(byte == b')');
                    self.take(1);
                    return Some(Token::Symbol(byte));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_named_by_its_verb_and_first_table() {
        for (statement, name) in [
            ("SELECT name FROM users WHERE id = $1", "sql SELECT users"),
            ("\n\nselect * from\n\tusers\n", "sql SELECT users"),
            ("SELECT * FROM users …", "sql SELECT users"),
            (
                "SELECT \"users\".\"id\" FROM \"users\" LIMIT 1",
                "sql SELECT users",
            ),
            (
                "SELECT `id` FROM `shop`.`orders_2024`",
                "sql SELECT orders_",
            ),
            ("SELECT 1 FROM public.users, orders", "sql SELECT users"),
            ("SELECT (SELECT count(*) FROM b) FROM a", "sql SELECT a"),
            ("SELECT extract(year FROM at) FROM a", "sql SELECT a"),
            (
                "SELECT * FROM (SELECT * FROM (SELECT 1 FROM x) y) z",
                "sql SELECT x",
            ),
            ("(SELECT 1 FROM a) UNION (SELECT 2 FROM b)", "sql SELECT a"),
            ("SELECT * FROM (a JOIN b USING (id))", "sql SELECT a"),
            ("SELECT * FROM ONLY a", "sql SELECT a"),
            ("WITH x AS (SELECT 1 FROM b) DELETE FROM a", "sql DELETE a"),
            ("INSERT INTO users (id) VALUES (1)", "sql INSERT users"),
            ("INSERT OR REPLACE INTO users SELECT 1", "sql INSERT users"),
            ("UPDATE users SET name = 'x'", "sql UPDATE users"),
            ("UPDATE OR IGNORE users SET name = 'x'", "sql UPDATE users"),
            ("delete from users", "sql DELETE users"),
            ("/* FROM x */ SELECT 1 -- FROM y\nFROM a", "sql SELECT a"),
            ("SELECT 'x FROM y', \"z FROM z\" FROM a", "sql SELECT a"),
            ("SELECT 1 FROM größe", "sql SELECT größe"),
            ("BEGIN", "sql BEGIN"),
            ("ROLLBACK TO SAVEPOINT _sqlx_savepoint_1", "sql ROLLBACK"),
            ("PRAGMA foreign_keys = ON", "sql PRAGMA"),
            ("CREATE TABLE x (id integer)", "sql CREATE"),
        ] {
            let (named, is_complete) = name_of(statement);
            assert_eq!((named.as_str(), is_complete), (name, true), "{statement}");
        }
    }

    #[test]
    fn a_statement_without_a_table_or_with_odd_literals_is_named_by_its_verb() {
        let long = format!("SELECT {} FROM users", "x, ".repeat(400));
        for (statement, name) in [
            ("SELECT id, name FROM …", "sql SELECT"),
            ("SELECT 1", "sql SELECT"),
            (&*long, "sql SELECT"),
            ("SELECT 'it\\'s FROM secret' FROM a", "sql SELECT"),
            ("SELECT 'it''s FROM secret' FROM a", "sql SELECT"),
            ("SELECT $$a FROM secret$$ FROM a", "sql SELECT"),
            ("SELECT $x$a FROM secret$x$ FROM a", "sql SELECT"),
            ("SELECT 'FROM secret", "sql SELECT"),
            ("SELECT 1 FROM 'secret'", "sql SELECT"),
            ("UPDATE", "sql UPDATE"),
            ("-- SELECT 1 FROM secret", "sql"),
            ("", "sql"),
        ] {
            let (named, is_complete) = name_of(statement);
            assert_eq!((named.as_str(), is_complete), (name, false), "{statement}");
        }
        let (named, _) = name_of("SELECT 1 FROM 2024");
        assert_eq!(named.as_str(), "sql SELECT");
        let (named, _) = name_of(&format!("SELECT 1 FROM {}", "é".repeat(99)));
        assert_eq!(named.as_str(), format!("sql SELECT {}", "é".repeat(26)));
        let odd = "SELECT_VERY_LONG_VERB_1; DROP";
        assert_eq!(name_of(odd).0.as_str(), "sql SELECT");
    }
}
