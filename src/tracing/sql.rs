//! The name of a SQL statement: its verb and its first table, `sql SELECT users`. A name never has a part of a literal:
//! the search for the table ends at a word that may be within a literal or a comment.

use std::fmt::Write;

use super::names::Name;

/// The statements that may follow common table expressions.
const AFTER_WITH: [&str; 5] = ["SELECT", "INSERT", "UPDATE", "DELETE", "MERGE"];

/// Words that may stand before a table.
const BEFORE_TABLE: [&str; 4] = ["ONLY", "OR", "IGNORE", "REPLACE"];

/// The name of a statement, and whether the name is complete. A summary of sqlx has the first four words of a
/// statement, followed by an ellipsis.
pub(super) fn name_of(statement: &str) -> (Name, bool) {
    let mut name = Name::of(format_args!("sql"));
    let words = without_comments(statement).split_ascii_whitespace();
    let is_complete = write_name(&mut words.take_while(|word| is_clear(word)), &mut name);
    (name, is_complete.is_some())
}

/// Skips the comments before a statement.
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

/// Appends the verb and the table. Returns `None` if either is not found. A name that is too long is cut.
fn write_name<'a>(words: &mut impl Iterator<Item = &'a str>, name: &mut Name) -> Option<()> {
    let mut verb = words.next()?.trim_start_matches('(');
    if is(verb, &["WITH"]) {
        verb = find(words, &AFTER_WITH)?;
    }
    let _ = name.write_char(' ');
    for letter in verb.chars().take_while(char::is_ascii_alphabetic).take(16) {
        let _ = name.write_char(letter.to_ascii_uppercase());
    }
    let before_table = match verb {
        verb if is(verb, &["SELECT", "DELETE"]) => Some("FROM"),
        verb if is(verb, &["INSERT", "REPLACE", "MERGE"]) => Some("INTO"),
        verb if is(verb, &["UPDATE"]) => None,
        _ => return Some(()),
    };
    let mut table = "SELECT";
    // A parenthesis begins a subquery or a join.
    while is(table, &["SELECT"]) {
        if let Some(keyword) = before_table {
            find(words, &[keyword])?;
        }
        let mut words = words.by_ref().map(|word| word.trim_start_matches('('));
        table = words.find(|word| !word.is_empty() && !is(word, &BEFORE_TABLE))?;
    }
    // The last part of `schema.table`.
    let table = table.split(['(', ')', ',', ';']).next()?;
    let table = table.rsplit('.').next()?.trim_matches(['"', '`']);
    if !table.starts_with(|c: char| c.is_alphabetic() || c == '_') {
        return None;
    }
    let _ = name.write_char(' ');
    // Tables that are numbered, such as by month, share a name.
    for letter in table.chars().filter(|c| !c.is_ascii_digit()) {
        let _ = name.write_char(letter);
    }
    Some(())
}

/// The next of some keywords outside of parentheses.
fn find<'a>(words: &mut impl Iterator<Item = &'a str>, keywords: &[&str]) -> Option<&'a str> {
    let mut depth = 0;
    words.find(|word| {
        let is_outside = depth == 0;
        depth += word.matches('(').count() as i32 - word.matches(')').count() as i32;
        is_outside && is(word, keywords)
    })
}

fn is(word: &str, keywords: &[&str]) -> bool {
    let mut keywords = keywords.iter();
    keywords.any(|keyword| word.eq_ignore_ascii_case(keyword))
}

/// Whether the words after this one are surely not within a literal or a comment, in any dialect.
fn is_clear(word: &str) -> bool {
    if !word.contains(['\'', '"', '`', '$', '\\', '-', '/', '#']) {
        return true;
    }
    let is_closed = |quote: char| word.matches(quote).count().is_multiple_of(2);
    let is_parameter = |after: &str| after.starts_with(|c: char| c.is_ascii_digit());
    ['\'', '"', '`'].into_iter().all(is_closed)
        && word.split('$').skip(1).all(is_parameter)
        && !["\\", "--", "/*", "#"].iter().any(|odd| word.contains(odd))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_names<const N: usize>(is_complete: bool, statements: [(&str, &str); N]) {
        for (statement, name) in statements {
            let (named, complete) = name_of(statement);
            assert_eq!(named.as_str(), name, "{statement}");
            assert_eq!(complete, is_complete, "{statement}");
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
        assert_names(true, statements);
        let (long, _) = name_of(&format!("SELECT 1 FROM {}", "é".repeat(99)));
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
        assert_names(false, statements);
    }
}
