//! The modules of a crate, and what is wrong with the imports between them.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{self, Import};

/// A module: the names from the crate's root down to it.
type Path = Vec<String>;

/// A file imports from another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Edge {
    from: Path,
    to: Path,
}

/// All modules of a crate.
#[derive(Debug, Default)]
pub struct Tree {
    /// The modules that have a file of their own.
    files: BTreeSet<Path>,
    /// What each module uses; those in braces are modules of their own here.
    scopes: BTreeMap<Path, source::Scope>,
    edges: BTreeSet<Edge>,
}

impl Tree {
    /// Reads a crate: the path of each file below `src/`, and its source.
    pub fn read<'a>(sources: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut tree = Self::default();
        for (file, source) in sources {
            let file = file.trim_end_matches(".rs");
            let mut path: Path = file.split('/').map(str::to_owned).collect();
            if matches!(path.last().map(String::as_str), Some("mod" | "lib")) {
                path.pop();
            }
            tree.files.insert(path.clone());
            for scope in source::scopes(source) {
                let path = [&path[..], &scope.inline].concat();
                let known = tree.scopes.entry(path).or_default();
                known.imports.extend(scope.imports);
                known.paths.extend(scope.paths);
                known.items.extend(scope.items);
                known.methods.extend(scope.methods);
                known.calls.extend(scope.calls);
            }
        }
        for (module, scope) in &tree.scopes {
            let imports = scope.imports.iter().map(|import| &import.path);
            for path in imports.chain(&scope.paths) {
                let Some(to) = tree.resolve(module, path, 0) else {
                    continue;
                };
                let (from, to) = (tree.file_of(module), tree.file_of(&to));
                if from != to {
                    tree.edges.insert(Edge { from, to });
                }
            }
        }
        let methods: Vec<_> = tree.calls_of_given_methods().collect();
        tree.edges.extend(methods);
        tree
    }

    /// A file that calls a method which another one gives to a type of its own needs that one, though it
    /// does not name it.
    fn calls_of_given_methods(&self) -> impl Iterator<Item = Edge> {
        let given = self.scopes.iter().flat_map(|(module, scope)| {
            let given = scope.methods.iter();
            given.map(move |(name, functions)| (module, name, functions))
        });
        given.filter_map(|(giver, name, functions)| {
            let of = self.resolve(giver, name, 0)?;
            let (from, to) = (self.file_of(&of), self.file_of(giver));
            let scope = self.scopes.get(&of)?;
            let is_called =
                |name: &String| scope.calls.contains(name) && !scope.items.contains(name);
            (from != to && functions.iter().any(is_called)).then_some(Edge { from, to })
        })
    }

    /// How many files import from how many others.
    pub fn edges(&self) -> usize {
        self.edges.len()
    }

    /// The files that name another crate.
    pub fn users_of(&self, name: &str) -> Vec<String> {
        let names = |path: &Path| path.first().is_some_and(|first| first == name);
        let users = self.scopes.iter().filter(|(module, scope)| {
            let imports = scope.imports.iter().map(|import| &import.path);
            let mut paths = imports.chain(&scope.paths).filter(|path| names(path));
            paths.any(|path| self.resolve(module, path, 0).is_none())
        });
        let users: BTreeSet<_> = users
            .map(|(module, _)| shown(&self.file_of(module)))
            .collect();
        users.into_iter().collect()
    }

    /// The module that has what a path names within a module: where it is defined, and not where it is
    /// only named on the way. `None` for other crates.
    fn resolve(&self, module: &Path, path: &[String], depth: usize) -> Option<Path> {
        // Globs or names that stand for each other.
        if depth > 8 {
            return None;
        }
        let (first, mut rest) = path.split_first()?;
        let mut at = match first.as_str() {
            "crate" => Path::new(),
            "self" => module.clone(),
            "super" => self.above(module),
            _ => {
                let child = below(module, first);
                if !self.scopes.contains_key(&child) {
                    return self.imported(module, path, depth);
                }
                child
            }
        };
        while let Some((name, left)) = rest.split_first() {
            let child = below(&at, name);
            if name == "super" {
                at = self.above(&at);
            } else if self.scopes.contains_key(&child) {
                at = child;
            } else {
                // An item: of this module, or one that it has from elsewhere.
                return Some(self.imported(&at, rest, depth).unwrap_or(at));
            }
            rest = left;
        }
        Some(at)
    }

    /// The module that has what a path names whose first name a `use` brings into a module.
    fn imported(&self, module: &Path, path: &[String], depth: usize) -> Option<Path> {
        let (name, rest) = path.split_first()?;
        let scope = self.scopes.get(module)?;
        if name == "*" || scope.items.contains(name) {
            return None;
        }
        let is_itself = |import: &&Import| import.path.first() == Some(name);
        let mut named = scope.imports.iter().filter(|import| import.name == *name);
        if let Some(import) = named.find(|import| !is_itself(import)) {
            return self.resolve(module, &[&import.path, rest].concat(), depth + 1);
        }
        let globs = scope.imports.iter().filter(|import| import.name == "*");
        globs
            .filter(|import| !is_itself(import))
            .filter_map(|import| self.resolve(module, &import.path, depth + 1))
            .find_map(|from| {
                let child = below(&from, name);
                if self.scopes.contains_key(&child) {
                    let path = ["self".to_owned(), name.clone()];
                    return self.resolve(&from, &[&path, rest].concat(), depth + 1);
                }
                let is_defined = self.scopes.get(&from)?.items.contains(name);
                match is_defined {
                    true => Some(from),
                    false => self.imported(&from, path, depth + 1),
                }
            })
    }

    fn above(&self, module: &Path) -> Path {
        module[..module.len().saturating_sub(1)].to_vec()
    }

    /// The nearest module around it that has a file.
    fn file_of(&self, module: &Path) -> Path {
        let mut module = module.clone();
        while !self.files.contains(&module) && !module.is_empty() {
            module.pop();
        }
        module
    }

    /// Imports of top-level modules from one that is not below it. Those of one rank do not import each
    /// other. The crate's root is above all.
    pub fn upwards(&self, ranks: &[&[&str]]) -> Vec<String> {
        let rank = |module: &str| ranks.iter().position(|rank| rank.contains(&module));
        let mut faults = BTreeSet::new();
        for module in self.files.iter().filter_map(|path| path.first()) {
            if rank(module).is_none() {
                faults.insert(format!("{module} has no rank"));
            }
        }
        for Edge { from, to } in &self.edges {
            let (Some(above), Some(below)) = (from.first(), to.first()) else {
                if !from.is_empty() {
                    faults.insert(format!("{} imports from the crate's root", shown(from)));
                }
                continue;
            };
            if above != below && rank(below) >= rank(above) {
                let (from, to) = (shown(from), shown(to));
                faults.insert(format!("{from} imports {to}, which is not below it"));
            }
        }
        faults.into_iter().collect()
    }

    /// The circles: modules beside each other that import each other, be it through others, each with all
    /// that is below it. A module and its own children are one thing: a child may use what its parent has,
    /// and the parent what its children have.
    pub fn circles(&self) -> Vec<String> {
        let mut beside = BTreeMap::<Path, BTreeMap<String, BTreeSet<String>>>::new();
        for Edge { from, to } in &self.edges {
            let common = from.iter().zip(to).take_while(|(a, b)| a == b).count();
            // Unless one of them is in the other.
            if let (Some(a), Some(b)) = (from.get(common), to.get(common)) {
                let siblings = beside.entry(from[..common].to_vec()).or_default();
                siblings.entry(a.clone()).or_default().insert(b.clone());
            }
        }
        let mut circles = Vec::new();
        for (parent, imports) in &beside {
            let reached: BTreeMap<_, _> = imports
                .keys()
                .map(|module| (module, reachable(imports, module)))
                .collect();
            let mut seen = BTreeSet::new();
            for (module, reach) in &reached {
                if !reach.contains(*module) || seen.contains(module) {
                    continue;
                }
                let circle = reached.iter().filter(|(other, from_other)| {
                    reach.contains(**other) && from_other.contains(*module)
                });
                let circle: Vec<_> = circle.map(|(other, _)| *other).collect();
                seen.extend(circle.iter().copied());
                let names = circle.iter().map(|name| name.as_str());
                let names: Vec<_> = names.collect();
                circles.push(format!("{}: {}", shown(parent), names.join(", ")));
            }
        }
        circles
    }
}

fn below(module: &Path, name: &String) -> Path {
    [module.as_slice(), std::slice::from_ref(name)].concat()
}

/// All that a module imports, directly or through others.
fn reachable(imports: &BTreeMap<String, BTreeSet<String>>, module: &str) -> BTreeSet<String> {
    let (mut found, mut next) = (BTreeSet::new(), vec![module.to_owned()]);
    while let Some(module) = next.pop() {
        for import in imports.get(&module).into_iter().flatten() {
            if found.insert(import.clone()) {
                next.push(import.clone());
            }
        }
    }
    found
}

fn shown(path: &Path) -> String {
    match path.is_empty() {
        true => "crate".to_owned(),
        false => path.join("::"),
    }
}
