//! The name of a SQL statement: its verb and its first table, `sql SELECT users`. A name never has a part of a literal:
//! the search for the table ends at a word that may be within a literal or a comment.

use super::names::Name;

/// The statements that may follow common table expressions.
const AFTER_WITH: [&str; 5] = ["SELECT", "INSERT", "UPDATE", "DELETE", "MERGE"];

/// Words that may stand between the keyword and the table.
const BEFORE_TABLE: [&str; 4] = ["ONLY", "OR", "IGNORE", "REPLACE"];

/// The name has a table only if the table is certain.
pub(super) fn name_of(statement: &str) -> Name {
    let mut name = Name::cut("sql");
    let text = without_comments(statement);
    let _ = write_name(&mut Words { text, depth: 0 }, &mut name);
    name
}

fn without_comments(statement: &str) -> &str {
    let mut text = statement.trim_start();
    while let Some((begin, end)) = [("--", "\n"), ("/*", "*/")]
        .into_iter()
        .find(|(begin, _)| text.starts_with(begin))
    {
        let after = text[begin.len()..].split_once(end);
        text = after.map_or("", |(_, after)| after).trim_start();
    }
    text
}

/// Appends the verb and the table, as far as they are found.
fn write_name(words: &mut Words<'_>, name: &mut Name) -> Option<()> {
    let mut verb = words.next()?.0.trim_start_matches('(');
    if is(verb, &["WITH"]) {
        verb = find(words, &AFTER_WITH)?;
    }
    let letters = verb.bytes().take_while(u8::is_ascii_alphabetic).count();
    name.add(" ");
    name.add_uppercase(&verb[..letters.min(16)]);
    let before_table = match verb {
        verb if is(verb, &["SELECT", "DELETE"]) => Some("FROM"),
        verb if is(verb, &["INSERT", "REPLACE", "MERGE"]) => Some("INTO"),
        verb if is(verb, &["UPDATE"]) => None,
        _ => return Some(()),
    };
    let mut table = "SELECT";
    // In `FROM (SELECT`, the table is that of the subquery.
    while is(table, &["SELECT"]) {
        if let Some(keyword) = before_table {
            find(words, &[keyword])?;
        }
        let mut words = words.by_ref().map(|(word, _)| word.trim_start_matches('('));
        table = words.find(|word| !word.is_empty() && !is(word, &BEFORE_TABLE))?;
    }
    // The last part of `schema.table`.
    let is_part = |byte: &u8| !matches!(byte, b'(' | b')' | b',' | b';');
    let table = &table[..table.bytes().take_while(is_part).count()];
    let table = table.rsplit('.').next()?.trim_matches(['"', '`']);
    if !table.starts_with(|c: char| c.is_alphabetic() || c == '_') {
        return None;
    }
    name.add(" ");
    // Tables that are numbered, such as by month, share a name.
    let letters = table.split(|letter: char| letter.is_ascii_digit());
    letters.for_each(|letters| name.add(letters));
    Some(())
}

/// The next of these keywords, outside of parentheses that open after this call.
fn find<'a>(words: &mut Words<'a>, keywords: &[&str]) -> Option<&'a str> {
    let depth = words.depth;
    let found = words.find(|(word, before)| *before == depth && is(word, keywords));
    Some(found?.0)
}

fn is(word: &str, keywords: &[&str]) -> bool {
    let mut keywords = keywords.iter();
    keywords.any(|keyword| word.eq_ignore_ascii_case(keyword))
}

/// The words of a statement, each with the number of parentheses that are open before it. Ends at a word that may
/// contain a comment, or a literal that does not end in the word. Looks at each byte once, because this loop takes most
/// of the time of [`name_of`].
struct Words<'a> {
    text: &'a str,
    depth: i32,
}

impl<'a> Iterator for Words<'a> {
    type Item = (&'a str, i32);

    fn next(&mut self) -> Option<Self::Item> {
        let text = self.text.trim_ascii_start();
        let depth = self.depth;
        let mut is_plain = true;
        let is_end = |byte: u8| {
            // Most bytes are letters.
            if byte.is_ascii_alphabetic() {
                return false;
            }
            match byte {
                b'(' => self.depth += 1,
                b')' => self.depth -= 1,
                b'\'' | b'"' | b'`' | b'$' | b'\\' | b'-' | b'/' | b'#' => is_plain = false,
                _ => {}
            }
            byte.is_ascii_whitespace()
        };
        let length = text.bytes().position(is_end).unwrap_or(text.len());
        let (word, after) = text.split_at(length);
        self.text = after;
        (length > 0 && (is_plain || is_closed(word))).then_some((word, depth))
    }
}

/// Whether, in any dialect of SQL, each literal of the word also ends in the word, and no comment begins there.
fn is_closed(word: &str) -> bool {
    let is_even = |quote: char| word.matches(quote).count().is_multiple_of(2);
    let is_parameter = |after: &str| after.starts_with(|c: char| c.is_ascii_digit());
    ['\'', '"', '`'].into_iter().all(is_even)
        && word.split('$').skip(1).all(is_parameter)
        && !["\\", "--", "/*", "#"].iter().any(|odd| word.contains(odd))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_names<const N: usize>(statements: [(&str, &str); N]) {
        for (statement, name) in statements {
            assert_eq!(name_of(statement).as_str(), name, "{statement}");
        }
    }

    #[test]
    fn a_statement_is_named_by_its_verb_and_first_table() {
        let statements = [
            ("SELECT name FROM users WHERE id = $1", "sql SELECT users"),
            ("\n\nselect * from\n\tusers\n", "sql SELECT users"),
            ("SELECT * FROM users …", "sql SELECT users"),
            (r#"SELECT "a"."id" FROM "a" LIMIT 1"#, "sql SELECT a"),
            ("SELECT `id` FROM `shop`.`a_2024`", "sql SELECT a_"),
            ("SELECT 1 FROM public.users, orders", "sql SELECT users"),
            ("SELECT (SELECT count(*) FROM b) FROM a;", "sql SELECT a"),
            ("SELECT extract(year FROM at) FROM a", "sql SELECT a"),
            (
                "SELECT 1 FROM (SELECT 1 FROM (SELECT 1 FROM x) y) z",
                "sql SELECT x",
            ),
            ("(SELECT 1 FROM a) UNION (SELECT 2 FROM b)", "sql SELECT a"),
            ("SELECT * FROM ( a JOIN b USING (id))", "sql SELECT a"),
            ("SELECT * FROM ONLY a", "sql SELECT a"),
            ("WITH x AS (SELECT 1 FROM b) DELETE FROM a", "sql DELETE a"),
            ("INSERT INTO users(id) VALUES (1)", "sql INSERT users"),
            ("INSERT OR REPLACE INTO users SELECT 1", "sql INSERT users"),
            ("UPDATE users SET name = 'x'", "sql UPDATE users"),
            ("UPDATE OR IGNORE users SET name = 'x'", "sql UPDATE users"),
            ("delete from users", "sql DELETE users"),
            ("-- it's\n/* FROM x */ SELECT 1 FROM a", "sql SELECT a"),
            ("SELECT 'x', $1, \"z\" FROM a", "sql SELECT a"),
            ("SELECT 1 FROM größe", "sql SELECT größe"),
            ("BEGIN", "sql BEGIN"),
            ("ROLLBACK TO SAVEPOINT _sqlx_savepoint_1", "sql ROLLBACK"),
            ("PRAGMA foreign_keys = ON", "sql PRAGMA"),
            ("SELECT_VERY_LONG_VERB_1; DROP", "sql SELECT"),
        ];
        assert_names(statements);
        let long = name_of(&format!("SELECT 1 FROM {}", "é".repeat(99)));
        assert_eq!(long.as_str(), format!("sql SELECT {}", "é".repeat(26)));
    }

    #[test]
    fn a_statement_without_a_table_or_with_unclear_literals_is_named_by_its_verb() {
        let statements = [
            ("SELECT id, name FROM …", "sql SELECT"),
            ("SELECT 1", "sql SELECT"),
            (r"SELECT 'it\' FROM secret' FROM a", "sql SELECT"),
            ("SELECT 'it''s FROM secret' FROM a", "sql SELECT"),
            ("SELECT \"x FROM secret\" FROM a", "sql SELECT"),
            ("SELECT $$a FROM secret$$ FROM a", "sql SELECT"),
            ("SELECT $x$a FROM secret$x$ FROM a", "sql SELECT"),
            ("SELECT 1 -- FROM secret\nFROM a", "sql SELECT"),
            ("SELECT 1 FROM 'secret'", "sql SELECT"),
            ("SELECT 1 FROM 2024", "sql SELECT"),
            ("UPDATE", "sql UPDATE"),
            ("-- SELECT 1 FROM secret", "sql"),
            ("", "sql"),
        ];
        assert_names(statements);
    }
}
