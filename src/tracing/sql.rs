//! The name of a SQL statement: its verb and its first table, `sql SELECT users`. A name never has a part of a literal:
//! where the dialect decides what is a literal, the search for the table ends.

use std::fmt::Write;

use super::names::Name;

/// Words that may stand between `UPDATE`, `FROM` or `INTO` and a table.
const BEFORE_TABLE: [&str; 4] = ["ONLY", "OR", "IGNORE", "REPLACE"];

/// The name of a statement, and whether the name is complete. A summary of sqlx has the first four words of a
/// statement, followed by an ellipsis.
pub(super) fn name_of(statement: &str) -> (Name, bool) {
    let mut name = Name::of(format_args!("sql"));
    let text = statement.trim_end_matches('…');
    let is_complete = write_name(&mut Tokens { text, depth: 0 }, &mut name);
    (name, is_complete.is_some())
}

/// Appends the verb and the table. Returns `None` if either is not found. A name that is too long is cut.
fn write_name(tokens: &mut Tokens<'_>, name: &mut Name) -> Option<()> {
    let mut verb = tokens.find(|token| is_identifier(token))?;
    let mut depth = tokens.depth;
    if is(verb, &["WITH"]) {
        // The main statement follows the common table expressions.
        verb = tokens.word_at(depth, &["SELECT", "INSERT", "UPDATE", "DELETE", "MERGE"])?;
    }
    let _ = name.write_char(' ');
    for letter in verb.chars().take_while(char::is_ascii_alphabetic).take(16) {
        let _ = name.write_char(letter.to_ascii_uppercase());
    }
    let before_table: &[&str] = match verb {
        verb if is(verb, &["SELECT", "DELETE"]) => &["FROM"],
        verb if is(verb, &["INSERT", "REPLACE", "MERGE"]) => &["INTO"],
        verb if is(verb, &["UPDATE"]) => &[],
        _ => return Some(()),
    };
    let mut table = "SELECT";
    while is(table, &["SELECT"]) {
        if !before_table.is_empty() {
            tokens.word_at(depth, before_table)?;
        }
        // A parenthesis begins a subquery or a join.
        table = tokens.find(|token| *token != "(" && !is(token, &BEFORE_TABLE))?;
        depth = tokens.depth;
    }
    // The last part of `schema.table`.
    while is_identifier(table) && tokens.text.starts_with('.') {
        table = tokens.nth(1)?;
    }
    if !is_identifier(table) {
        return None;
    }
    let _ = name.write_char(' ');
    // Tables that are numbered, such as by month, share a name.
    let is_kept = |c: &char| !matches!(c, '"' | '`' | '0'..='9');
    for letter in table.chars().filter(is_kept) {
        let _ = name.write_char(letter);
    }
    Some(())
}

fn is(word: &str, keywords: &[&str]) -> bool {
    let mut keywords = keywords.iter();
    keywords.any(|keyword| word.eq_ignore_ascii_case(keyword))
}

/// Whether a token is a word, or an identifier in quotes.
fn is_identifier(token: &str) -> bool {
    let is_start = |c: char| c.is_alphabetic() || matches!(c, '_' | '"' | '`');
    token.starts_with(is_start)
}

/// The tokens of a statement, without comments: a word, an identifier or a literal in quotes, or a single character.
/// They end where a literal cannot be told from other text.
struct Tokens<'a> {
    text: &'a str,
    /// The number of open parentheses.
    depth: i32,
}

impl<'a> Tokens<'a> {
    /// The next of these keywords outside of inner parentheses.
    fn word_at(&mut self, depth: i32, keywords: &[&str]) -> Option<&'a str> {
        loop {
            let token = self.next()?;
            if self.depth == depth && is(token, keywords) {
                return Some(token);
            }
        }
    }

    /// Takes this many bytes, which end between characters.
    fn take_bytes(&mut self, length: usize) -> &'a str {
        let (taken, left) = self.text.split_at(length);
        self.text = left;
        taken
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        loop {
            self.text = self.text.trim_start();
            let text = self.text;
            let first = text.chars().next()?;
            let length = match first {
                '-' if text.starts_with("--") => {
                    self.take_bytes(text.find('\n')?);
                    continue;
                }
                '/' if text.starts_with("/*") => {
                    self.take_bytes(text.find("*/")? + 2);
                    continue;
                }
                '\'' | '"' | '`' => text[1..].find(first)? + 2,
                _ => text
                    .find(|c: char| !is_word(c))
                    .unwrap_or(text.len())
                    .max(first.len_utf8()),
            };
            let token = self.take_bytes(length);
            self.depth += i32::from(token == "(") - i32::from(token == ")");
            let is_quoted = length > 1 && !is_word(first);
            // Whether a backslash or a second quote escapes differs between dialects, and a dollar may begin a literal.
            let is_unclear = is_quoted && (token.contains('\\') || self.text.starts_with(first));
            let is_dollar = token == "$" && !self.text.starts_with(|c: char| c.is_ascii_digit());
            return (!is_unclear && !is_dollar).then_some(token);
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
            ("SELECT_VERY_LONG_VERB_1; DROP", "sql SELECT"),
        ] {
            let (named, is_complete) = name_of(statement);
            assert_eq!((named.as_str(), is_complete), (name, true), "{statement}");
        }
    }

    #[test]
    fn a_statement_without_a_table_or_with_unclear_literals_is_named_by_its_verb() {
        for (statement, name) in [
            ("SELECT id, name FROM …", "sql SELECT"),
            ("SELECT 1", "sql SELECT"),
            ("SELECT 'it\\'s FROM secret' FROM a", "sql SELECT"),
            ("SELECT 'it''s FROM secret' FROM a", "sql SELECT"),
            ("SELECT $$a FROM secret$$ FROM a", "sql SELECT"),
            ("SELECT $x$a FROM secret$x$ FROM a", "sql SELECT"),
            ("SELECT 'FROM secret", "sql SELECT"),
            ("SELECT 1 FROM 'secret'", "sql SELECT"),
            ("SELECT 1 FROM 2024", "sql SELECT"),
            ("UPDATE", "sql UPDATE"),
            ("-- SELECT 1 FROM secret", "sql"),
            ("", "sql"),
        ] {
            let (named, is_complete) = name_of(statement);
            assert_eq!((named.as_str(), is_complete), (name, false), "{statement}");
        }
        let (long, _) = name_of(&format!("SELECT 1 FROM {}", "é".repeat(99)));
        assert_eq!(long.as_str(), format!("sql SELECT {}", "é".repeat(26)));
    }
}
