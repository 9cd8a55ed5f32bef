//! Writes `src/guide/objects.md`, the guide's page of the objects of the API, for `make objects`. A test fails if the
//! page is out of date.
//!
//! The page describes the structs and enums of `crates/` to which `src/guide/api.md` links, each followed by the types
//! of its fields. The descriptions are the first paragraphs of the docs of types, fields and variants. Serde's
//! attributes determine the name of a field, whether the field may be absent, and whether it is flattened. For a
//! flattened field, the page omits the first sentence of the docs. If serialization is written by hand, the docs of a
//! field that may be absent or null must contain the word *absent* or *null*. The sources are read line by line,
//! because rustfmt writes each field on its own line.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

const HEAD: &str = include_str!("../head.md");
/// Units of numbers, and the words for them in the docs.
const UNITS: [(&str, &str); 3] = [
    ("moment", ", in Unix seconds"),
    ("seconds", ", in seconds"),
    ("share", ", 0 to 1"),
];

fn main() -> Result<(), Box<dyn Error>> {
    Ok(fs::write(root().join("src/guide/objects.md"), page()?)?)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page() -> Result<String, Box<dyn Error>> {
    let mut types = Types::new();
    read(&root().join("crates"), &mut types)?;
    let api = fs::read_to_string(root().join("src/guide/api.md"))?;
    let links = api.match_indices("`](crate::guide::objects#");
    let names = links.filter_map(|(end, _)| Some(api[..end].rsplit_once('`')?.1.to_owned()));
    let (mut page, mut next, mut done) = (HEAD.to_owned(), names.collect::<Vec<_>>(), vec![]);
    while !next.is_empty() {
        let name = next.remove(0);
        if !done.contains(&name) {
            let lines = types.get(&name).ok_or(format!("no type {name}"))?;
            let (first, body) = (&lines[0], &lines[1..]);
            page += &format!("\n## `{name}`\n\n{}\n\n", first.docs());
            let mut named = Vec::new();
            page.extend(body.iter().map(|line| line.describe(first, &mut named)));
            next.splice(..0, named);
            done.push(name);
        }
    }
    Ok(page)
}

/// Types by name: the first line, and the lines of fields or variants.
type Types = BTreeMap<String, Vec<Line>>;

/// Adds the types of all files of a folder. If several types have the same name, adds the type that serde serializes.
fn read(folder: &Path, types: &mut Types) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            read(&path, types)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let mut lines = lines(&fs::read_to_string(&path)?).into_iter();
            while let Some(line) = lines.next() {
                let code = line.code.trim_start();
                let end = line.code.replace(code, "}");
                let header = code.trim_start_matches("pub ").strip_suffix(" {");
                let words = header.and_then(|header| header.split_once(' '));
                let Some(("struct" | "enum", name)) = words else {
                    continue;
                };
                if line.has("Serialize") || !types.contains_key(name) {
                    let name = name.to_owned();
                    let body = lines.by_ref().take_while(|line| line.code != end);
                    types.insert(name, [line].into_iter().chain(body).collect());
                }
            }
        }
    }
    Ok(())
}

/// A line of code, with the lines of docs and the attributes above it.
#[derive(Default)]
struct Line {
    docs: Vec<String>,
    attributes: String,
    code: String,
}

fn lines(text: &str) -> Vec<Line> {
    let (mut lines, mut line) = (Vec::new(), Line::default());
    let mut is_attribute = false;
    for code in text.lines() {
        if let Some(docs) = code.trim().strip_prefix("///") {
            line.docs.push(docs.trim().to_owned());
        } else if is_attribute || code.trim().starts_with("#[") {
            line.attributes += code.trim();
            is_attribute = !code.ends_with(']');
        } else {
            line.code = code.to_owned();
            lines.push(std::mem::take(&mut line));
        }
    }
    lines
}

impl Line {
    fn has(&self, attribute: &str) -> bool {
        self.attributes.contains(attribute)
    }

    /// The value that an attribute assigns to a word such as `rename`.
    fn value(&self, word: &str) -> Option<&str> {
        let (_, value) = self.attributes.split_once(&format!("{word} = \""))?;
        value.split('"').next()
    }

    /// The first paragraph of the docs without links. `None` becomes `null` or *absent*.
    fn docs(&self) -> String {
        let lines = self.docs.iter().take_while(|line| !line.is_empty());
        let docs = lines.map(|line| &line[..]).collect::<Vec<_>>().join(" ");
        let (mut text, mut remaining) = (String::new(), &docs[..]);
        while let Some((before, link)) = remaining.split_once('[') {
            let (shown, after) = link.split_once(']').unwrap_or((link, ""));
            text += before;
            text += shown;
            let target = after
                .strip_prefix('(')
                .and_then(|link| link.split_once(')'));
            remaining = target.map_or(after, |(_, after)| after);
        }
        let none = ["`null`", "absent"][usize::from(self.is_skipped_if_none())];
        (text + remaining).replace("`None`", none)
    }

    fn is_skipped_if_none(&self) -> bool {
        self.has("skip_serializing_if")
    }

    /// Describes a field or a variant of the type that begins with the line `parent`. Adds to `named` the types in the
    /// description.
    fn describe(&self, parent: &Self, named: &mut Vec<String>) -> String {
        let mut docs = self.docs();
        let code = self.code.trim_start();
        let is_in_variant = self.code.len() - code.len() > parent.code.find("pub").unwrap_or(0) + 4;
        let indent = if is_in_variant { "  " } else { "" };
        let code = code.trim_end_matches([',', ' ', '{']);
        if self.has("(skip)") || ["", ";", "}"].contains(&code) || code.starts_with("//") {
            return String::new();
        }
        let Some((name, rust_type)) = code.split_once(": ") else {
            let (name, content) = code.split_once(['(', ' ']).unwrap_or((code, ""));
            let shown = match parent.has("untagged") {
                true => linked(&json(content.trim_end_matches(')'), named)),
                false => format!("`{}`", renamed(name, parent.value("rename_all"))),
            };
            return format!("- {shown}: {docs}\n");
        };
        let json_type = json(rust_type, named);
        if self.has("flatten") {
            let further = docs.split_once(". ").map_or("", |(_, further)| further);
            let line = format!("- {} {further}", linked(&format!("...{json_type}")));
            return line.trim_end().to_owned() + "\n";
        }
        let mut json_type = json_type.trim_end_matches('?');
        let docs_have = |word| docs.split([' ', ',', '.', ';']).any(|other| other == word);
        let suffix = |is_optional| if is_optional { "?" } else { "" };
        let absent = suffix(self.is_skipped_if_none() || docs_have("absent"));
        let is_option = rust_type.starts_with("Option<") && !self.is_skipped_if_none();
        let null = suffix(is_option || docs_have("null"));
        if self.has("serialize_with") {
            json_type = "object";
        }
        let unit = UNITS.iter().find(|(_, words)| docs.contains(words));
        if let Some((unit, words)) = unit.filter(|_| ["integer", "number"].contains(&json_type)) {
            (json_type, docs) = (unit, docs.replacen(words, "", 1));
        }
        let name = name.rsplit(' ').next().unwrap_or(name);
        let name = self.value("rename").unwrap_or(name);
        let json_type = linked(&format!("{json_type}{null}"));
        format!("{indent}- `{name}{absent}` {json_type}: {docs}\n")
    }
}

/// The JSON name of an enum's variant.
fn renamed(variant: &str, rename_all: Option<&str>) -> String {
    let is_snake = rename_all == Some("snake_case");
    let chars = variant.char_indices().flat_map(|(at, c)| {
        let begins_word = at > 0 && is_snake && c.is_uppercase();
        let underscore = begins_word.then_some('_');
        underscore.into_iter().chain(c.to_lowercase())
    });
    chars.collect()
}

/// Returns the JSON type of a Rust type. Adds to `named` the types that the page must describe.
fn json(rust_type: &str, named: &mut Vec<String>) -> String {
    let generic = rust_type.strip_suffix('>');
    if let Some((outer, inner)) = generic.and_then(|generic| generic.split_once('<')) {
        let inner = json(inner, named);
        return match outer {
            "Option" => inner + "?",
            "Vec" => inner + "[]",
            _ => inner,
        };
    }
    let tuple = rust_type.strip_prefix('(');
    if let Some(tuple) = tuple.and_then(|tuple| tuple.strip_suffix(')')) {
        let values = tuple.split(", ").map(|value| json(value, named));
        return format!("[{}]", values.collect::<Vec<_>>().join(", "));
    }
    let json_type = match rust_type {
        "&'static str" | "str" | "String" | "Condition" => "text",
        "bool" => "boolean",
        "f32" | "f64" => "number",
        "i64" | "u8" | "u16" | "u32" | "u64" | "usize" => "integer",
        "Outcomes" => "counts",
        "Losses" => "object",
        name => {
            named.push(name.to_owned());
            name
        }
    };
    json_type.to_owned()
}

/// A JSON type, as a link to the object that it names.
fn linked(json_type: &str) -> String {
    let mut words = json_type.split(|c: char| !c.is_alphanumeric());
    match words.find(|word| word.starts_with(char::is_uppercase)) {
        Some(name) => format!("[`{json_type}`](#{})", name.to_lowercase()),
        None if json_type.contains('[') => format!("`{json_type}`"),
        None => json_type.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_up_to_date() {
        let written = fs::read_to_string(root().join("src/guide/objects.md")).expect("the page");
        let page = page().expect("the types");
        let mut lines = written.lines().zip(page.lines());
        let first = lines.find(|(is, should)| is != should);
        assert!(
            written == page,
            "objects.md is out of date: run `make objects`. The first difference: {first:#?}"
        );
    }
}
