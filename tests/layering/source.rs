//! What one source file names: its inline modules, and the paths that it uses.

/// A name that a `use` brings into a module, and the path that it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    pub name: String,
    pub path: Vec<String>,
}

/// A module of a file: the file's own, or one in braces.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// The names of the modules in braces that it is in, outermost first.
    pub inline: Vec<String>,
    pub imports: Vec<Import>,
    /// Paths of more than one name outside of `use`.
    pub paths: Vec<Vec<String>>,
    /// The names of what is defined here.
    pub items: Vec<String>,
    /// The blocks `impl Type { … }`: the type, and the functions that it is given.
    pub methods: Vec<(Vec<String>, Vec<String>)>,
    /// The names of the methods that are called by `self.` and `Self::`.
    pub calls: Vec<String>,
}

/// Reads a source. Comments, doc comments and strings say nothing.
pub fn scopes(source: &str) -> Vec<Scope> {
    let tokens = tokens(source);
    let mut scopes = vec![Scope::default()];
    // The scopes that are open, each with the depth of its brace.
    let mut open = vec![(0, 0)];
    let (mut depth, mut at) = (0, 0);
    while at < tokens.len() {
        let scope = open.last().map_or(0, |(scope, _)| *scope);
        let word = |at: usize| tokens.get(at).map_or("", String::as_str);
        match word(at) {
            "{" => depth += 1,
            "}" => {
                if open.len() > 1 && open.last().is_some_and(|(_, at)| *at == depth) {
                    open.pop();
                }
                depth -= 1;
            }
            "mod" if word(at + 2) == "{" => {
                let mut inline = scopes[scope].inline.clone();
                inline.push(word(at + 1).to_owned());
                depth += 1;
                open.push((scopes.len(), depth));
                scopes.push(Scope {
                    inline,
                    ..Scope::default()
                });
                at += 2;
            }
            "use" => {
                let end = tokens[at..].iter().position(|token| token == ";");
                let end = end.map_or(tokens.len(), |end| at + end);
                tree(&mut &tokens[at + 1..end], &[], &mut scopes[scope].imports);
                at = end;
            }
            "impl" if at == 0 || matches!(word(at - 1), ";" | "}" | "{" | "]" | "unsafe") => {
                scopes[scope].methods.extend(methods(&tokens[at + 1..]));
            }
            "self" if word(at + 1) == "." && matches!(word(at + 3), "(" | "::") => {
                scopes[scope].calls.push(word(at + 2).to_owned());
            }
            "Self" if word(at + 1) == "::" => {
                scopes[scope].calls.push(word(at + 2).to_owned());
            }
            // `pub(in crate::admin)` uses nothing.
            "in" if at > 1 && word(at - 1) == "(" && word(at - 2) == "pub" => {
                while word(at) != ")" {
                    at += 1;
                }
            }
            "fn" | "struct" | "enum" | "union" | "trait" | "type" | "const" | "static"
                if is_name(word(at + 1)) =>
            {
                scopes[scope].items.push(word(at + 1).to_owned());
                at += 1;
            }
            name if is_name(name) && word(at + 1) == "::" => {
                let mut path = vec![name.to_owned()];
                while word(at + 1) == "::" && is_name(word(at + 2)) {
                    path.push(word(at + 2).to_owned());
                    at += 2;
                }
                scopes[scope].paths.push(path);
            }
            _ => {}
        }
        at += 1;
    }
    scopes
}

/// The type and the functions of a block, behind its `impl`. `None` for that of a trait.
fn methods(tokens: &[String]) -> Option<(Vec<String>, Vec<String>)> {
    let body = tokens.iter().position(|token| token == "{")?;
    let (head, body) = tokens.split_at(body);
    if head.iter().any(|token| token == "for") {
        return None;
    }
    let (mut name, mut angles) = (Vec::new(), 0);
    for token in head {
        match token.as_str() {
            "<" => angles += 1,
            ">" => angles -= 1,
            "where" => break,
            token if angles == 0 && is_name(token) => name.push(token.to_owned()),
            _ => {}
        }
    }
    let (mut functions, mut depth) = (Vec::new(), 0);
    for pair in body.windows(2) {
        match pair[0].as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            "fn" if depth == 1 => functions.push(pair[1].clone()),
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    Some((name, functions))
}

/// The imports of one tree of a `use`: `a::{b, c as d, e::*}`.
fn tree(tokens: &mut &[String], before: &[String], imports: &mut Vec<Import>) {
    let mut path = before.to_vec();
    loop {
        match tokens.split_first() {
            Some((token, rest)) if token == "{" => {
                *tokens = rest;
                while let Some(token) = tokens.first() {
                    match token.as_str() {
                        "}" => {
                            *tokens = &tokens[1..];
                            return;
                        }
                        "," => *tokens = &tokens[1..],
                        _ => tree(tokens, &path, imports),
                    }
                }
                return;
            }
            Some((token, rest)) if token == "::" => *tokens = rest,
            Some((token, rest)) if token == "as" => {
                let (name, rest) = rest.split_first().expect("a name behind `as`");
                *tokens = rest;
                let name = name.clone();
                imports.push(Import { name, path });
                return;
            }
            Some((token, rest)) if token == "*" || is_name(token) => {
                *tokens = rest;
                // `a::{self}` is `a`.
                if token != "self" || path.is_empty() {
                    path.push(token.clone());
                }
                let next = tokens.first().map(String::as_str);
                if !matches!(next, Some("::" | "as")) {
                    let name = path.last().cloned().unwrap_or_default();
                    imports.push(Import { name, path });
                    return;
                }
            }
            _ => return,
        }
    }
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Names, `::`, and every other sign by itself.
fn tokens(source: &str) -> Vec<String> {
    let signs: Vec<char> = source.chars().collect();
    let sign = |at: usize| signs.get(at).copied().unwrap_or('\0');
    let is_of_a_name = |c: char| c.is_alphanumeric() || c == '_';
    let (mut tokens, mut at) = (Vec::new(), 0);
    while at < signs.len() {
        match sign(at) {
            '/' if sign(at + 1) == '/' => {
                while at < signs.len() && sign(at) != '\n' {
                    at += 1;
                }
            }
            '/' if sign(at + 1) == '*' => {
                let mut depth = 0;
                loop {
                    match (sign(at), sign(at + 1)) {
                        ('/', '*') => (depth, at) = (depth + 1, at + 2),
                        ('*', '/') => (depth, at) = (depth - 1, at + 2),
                        _ => at += 1,
                    }
                    if depth == 0 || at >= signs.len() {
                        break;
                    }
                }
            }
            '"' => at = end_of_string(&signs, at),
            'r' if raw_hashes(&signs, at + 1).is_some() => at = end_of_raw(&signs, at + 1),
            'b' if sign(at + 1) == 'r' && raw_hashes(&signs, at + 2).is_some() => {
                at = end_of_raw(&signs, at + 2);
            }
            // A character, and not a lifetime.
            '\'' if sign(at + 1) == '\\' => {
                at += 3;
                while at < signs.len() && sign(at) != '\'' {
                    at += 1;
                }
                at += 1;
            }
            '\'' if sign(at + 2) == '\'' => at += 3,
            ':' if sign(at + 1) == ':' => {
                tokens.push("::".to_owned());
                at += 2;
            }
            c if is_of_a_name(c) => {
                let start = at;
                while is_of_a_name(sign(at)) {
                    at += 1;
                }
                tokens.push(signs[start..at].iter().collect());
            }
            c => {
                if !c.is_whitespace() {
                    tokens.push(c.to_string());
                }
                at += 1;
            }
        }
    }
    tokens
}

fn end_of_string(signs: &[char], start: usize) -> usize {
    let mut at = start + 1;
    while at < signs.len() && signs[at] != '"' {
        at += if signs[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

/// How many `#` a raw string begins with, if that is what begins here.
fn raw_hashes(signs: &[char], at: usize) -> Option<usize> {
    let hashes = signs[at.min(signs.len())..].iter();
    let hashes = hashes.take_while(|c| **c == '#').count();
    (signs.get(at + hashes) == Some(&'"')).then_some(hashes)
}

fn end_of_raw(signs: &[char], start: usize) -> usize {
    let hashes = raw_hashes(signs, start).unwrap_or(0);
    let mut at = start + hashes + 1;
    while at < signs.len() {
        let behind = signs[at + 1..].iter().take_while(|c| **c == '#').count();
        if signs[at] == '"' && behind >= hashes {
            return at + 1 + hashes;
        }
        at += 1;
    }
    at
}
