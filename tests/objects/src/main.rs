//! Writes `src/guide/objects.md`, the guide's page of the objects of the API, for `make objects`. A test fails when the
//! page is out of date.
//!
//! The page has the structs and the enums of `crates/` to which `src/guide/api.md` links, each followed by the types
//! that it names. It shows the first paragraph of the docs of each type, field and variant. Serde's attributes say how
//! a field is called, whether it may be absent, and whether it is flattened: the first sentence of a flattened field's
//! docs is left out. If serialization is written by hand, the docs must contain the word *absent* for a field that may
//! be absent, and *null* for one that may be null. The sources are read line by line, as rustfmt writes each field on a
//! line of its own.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

/// The beginning of the page.
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

/// The page, as it should be.
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
            let of = types.get(&name).ok_or(format!("no type {name}"))?;
            page += &format!("\n## `{name}`\n\n{}\n\n", of[0].docs());
            let mut named = Vec::new();
            page.extend(of[1..].iter().map(|part| part.describe(&of[0], &mut named)));
            next.splice(..0, named);
            done.push(name);
        }
    }
    Ok(page)
}

/// For the name of each type: the line that begins it, and the lines of its fields or variants.
type Types = BTreeMap<String, Vec<Line>>;

/// Adds the types of all files of a folder. Among types of the same name, the one that serde serializes is used.
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
                let of_type = code.trim_start_matches("pub ").strip_suffix(" {");
                let Some(("struct" | "enum", name)) = of_type.and_then(|of| of.split_once(' '))
                else {
                    continue;
                };
                if line.has("Serialize") || !types.contains_key(name) {
                    let (name, within) = (name.to_owned(), lines.by_ref());
                    let within = within.take_while(|line| line.code != end);
                    types.insert(name, [line].into_iter().chain(within).collect());
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

    /// The value that an attribute assigns to a word.
    fn value(&self, word: &str) -> Option<&str> {
        let (_, value) = self.attributes.split_once(&format!("{word} = \""))?;
        value.split('"').next()
    }

    /// The first paragraph of the docs without links. `None` becomes `null` or *absent*.
    fn docs(&self) -> String {
        let lines = self.docs.iter().take_while(|line| !line.is_empty());
        let docs = lines.map(|line| &line[..]).collect::<Vec<_>>().join(" ");
        let (mut text, mut rest) = (String::new(), &docs[..]);
        while let Some((before, link)) = rest.split_once('[') {
            let (shown, after) = link.split_once(']').unwrap_or((link, ""));
            text += before;
            text += shown;
            let target = after.strip_prefix('(').and_then(|of| of.split_once(')'));
            rest = target.map_or(after, |(_, after)| after);
        }
        let none = ["`null`", "absent"][usize::from(self.is_left_out())];
        (text + rest).replace("`None`", none)
    }

    fn is_left_out(&self) -> bool {
        self.has("skip_serializing_if")
    }

    /// Describes a field or a variant of a type, and adds the names of its types to `named`.
    fn describe(&self, of: &Self, named: &mut Vec<String>) -> String {
        let mut docs = self.docs();
        let code = self.code.trim_start();
        let is_within = self.code.len() - code.len() > of.code.find("pub").unwrap_or(0) + 4;
        let indent = if is_within { "  " } else { "" };
        let code = code.trim_end_matches([',', ' ', '{']);
        if self.has("(skip)") || ["", ";", "}"].contains(&code) || code.starts_with("//") {
            return String::new();
        }
        let Some((name, of_rust)) = code.split_once(": ") else {
            let (name, within) = code.split_once(['(', ' ']).unwrap_or((code, ""));
            let shown = match of.has("untagged") {
                true => linked(&json(within.trim_end_matches(')'), named)),
                false => format!("`{}`", renamed(name, of.value("rename_all"))),
            };
            return format!("- {shown}: {docs}\n");
        };
        let of_json = json(of_rust, named);
        if self.has("flatten") {
            let further = docs.split_once(". ").map_or("", |(_, further)| further);
            let line = format!("- {} {further}", linked(&format!("...{of_json}")));
            return line.trim_end().to_owned() + "\n";
        }
        let mut of_json = of_json.trim_end_matches('?');
        let is_said = |word| docs.split([' ', ',', '.', ';']).any(|said| said == word);
        let mark = |is| if is { "?" } else { "" };
        let absent = mark(self.is_left_out() || is_said("absent"));
        let is_option = of_rust.starts_with("Option<") && !self.is_left_out();
        let null = mark(is_option || is_said("null"));
        if self.has("serialize_with") {
            of_json = "object";
        }
        let unit = UNITS.iter().find(|(_, said)| docs.contains(said));
        if let Some((unit, said)) = unit.filter(|_| ["integer", "number"].contains(&of_json)) {
            (of_json, docs) = (unit, docs.replacen(said, "", 1));
        }
        let name = name.rsplit(' ').next().unwrap_or(name);
        let name = self.value("rename").unwrap_or(name);
        let of_json = linked(&format!("{of_json}{null}"));
        format!("{indent}- `{name}{absent}` {of_json}: {docs}\n")
    }
}

/// The name in JSON of a variant of an enum.
fn renamed(variant: &str, form: Option<&str>) -> String {
    let is_snake = form == Some("snake_case");
    let chars = variant.char_indices().flat_map(|(at, c)| {
        let between = at > 0 && is_snake && c.is_uppercase();
        between.then_some('_').into_iter().chain(c.to_lowercase())
    });
    chars.collect()
}

/// Returns the type in JSON of a type in Rust, and adds the types that the page must describe to `named`.
fn json(of: &str, named: &mut Vec<String>) -> String {
    let generic = of.strip_suffix('>').and_then(|of| of.split_once('<'));
    if let Some((around, within)) = generic {
        let within = json(within, named);
        return match around {
            "Option" => within + "?",
            "Vec" => within + "[]",
            _ => within,
        };
    }
    let tuple = of.strip_prefix('(').and_then(|of| of.strip_suffix(')'));
    if let Some(tuple) = tuple {
        let values: Vec<_> = tuple.split(", ").map(|of| json(of, named)).collect();
        return format!("[{}]", values.join(", "));
    }
    let of_json = match of {
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
    of_json.to_owned()
}

/// A type in JSON, with a link to the object in it.
fn linked(of: &str) -> String {
    let mut words = of.split(|c: char| !c.is_alphanumeric());
    match words.find(|word| word.starts_with(char::is_uppercase)) {
        Some(name) => format!("[`{of}`](#{})", name.to_lowercase()),
        None if of.contains('[') => format!("`{of}`"),
        None => of.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_of_the_types() {
        let written = fs::read_to_string(root().join("src/guide/objects.md")).expect("the page");
        let page = page().expect("the types");
        let mut lines = written.lines().zip(page.lines());
        let first = lines.find(|(is, should)| is != should);
        assert!(
            written == page,
            "objects.md is not of the types: run `make objects`; {first:#?}"
        );
    }
}
