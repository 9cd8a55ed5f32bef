//! The test of the layering itself: crates that are made up, each with one fault.

use super::tree::Tree;

const RANKS: [&[&str]; 4] = [&["error"], &["model"], &["store", "recorder"], &["layer"]];

fn upwards(sources: &[(&str, &str)]) -> Vec<String> {
    Tree::read(sources.iter().copied()).upwards(&RANKS)
}

fn circles(sources: &[(&str, &str)]) -> Vec<String> {
    Tree::read(sources.iter().copied()).circles()
}

#[test]
fn a_tree_in_order_has_no_fault() {
    let sources = [
        (
            "lib.rs",
            "mod error; mod model; mod store; pub use store::Store;",
        ),
        ("error.rs", "pub struct Error;"),
        (
            "model/mod.rs",
            "pub mod slice; pub mod batch; use slice::Slice; fn f() { batch::g() }",
        ),
        ("model/slice.rs", "use super::f; use crate::error::Error;"),
        (
            "model/batch.rs",
            "use super::slice::Slice; #[cfg(test)] mod tests { use super::*; }",
        ),
        (
            "store/mod.rs",
            "mod memory; pub struct Store; use std::sync::Arc; use self::memory::M;",
        ),
        (
            "store/memory.rs",
            "use super::Store; use crate::model::{batch::Batch, slice::{self, Slice}};",
        ),
        ("layer.rs", "use crate::store::Store;"),
    ];
    assert_eq!(upwards(&sources), [""; 0]);
    assert_eq!(circles(&sources), [""; 0]);
    assert_eq!(Tree::read(sources).edges(), 11);
}

#[test]
fn an_import_upwards() {
    for import in [
        "use crate::layer::Layer;",
        "use super::super::layer::Layer;",
        "use super::super::{model::X, layer::Layer};",
        "use crate::{model, layer::{self, Layer}};",
        "use crate as root; use root::layer::Layer;",
        "use super::super as root; fn f() -> root::layer::Layer { todo!() }\nuse root::layer;",
        "fn f() -> crate::layer::Layer { todo!() }",
        "fn f(x: &super::super::layer::Layer<'_>) {}",
        "mod inline { use super::super::super::layer::Layer; }",
        "mod inline { fn f() { super::super::super::layer::f() } }",
        "use crate::Layer;",
        "use crate::*; fn f() -> layer::Layer { todo!() }",
        "use crate::*; fn f() -> Layer { Layer::new() }",
        "mod inner { pub use crate::*; } use inner::*; fn f() { layer::f() }",
        "#[cfg(test)] mod tests { use crate::layer::Layer; }",
        "const TEXT: &str = \"//\"; use crate::layer::Layer;",
        "const QUOTE: char = '\"'; use crate::layer::Layer; const OTHER: char = '\"';",
        "const RAW: &str = r#\"\"\"#; use crate::layer::Layer;",
        "/* /* */ */ use crate::layer::Layer;",
    ] {
        let sources = [
            (
                "lib.rs",
                "mod layer; mod store; mod model; pub use layer::Layer;",
            ),
            ("model.rs", "pub struct X;"),
            ("layer.rs", "pub struct Layer;"),
            ("store/mod.rs", "mod memory;"),
            ("store/memory.rs", import),
        ];
        let expected = "store::memory imports layer, which is not below it";
        let faults = upwards(&sources);
        assert!(
            faults.contains(&expected.to_owned()),
            "{import}: {faults:?}"
        );
    }
}

#[test]
fn what_is_no_import() {
    for source in [
        "// use crate::layer::Layer;",
        "/// [`Layer`](crate::layer::Layer)\nfn f() {}",
        "//! use super::super::layer;",
        "/* use crate::layer::Layer; */",
        "const TEXT: &str = \"use crate::layer::Layer;\";",
        "const RAW: &str = r#\"\" use crate::layer::Layer;\"#;",
        "pub(in crate::layer) fn f<'a>(c: &'a char) -> bool { *c == '\"' || *c == '\\'' }",
        "use layer::Layer;",
        "fn crate_layer() { let layer = 1; }",
    ] {
        let sources = [
            ("layer.rs", "pub struct Layer;"),
            ("store/mod.rs", "mod memory;"),
            ("store/memory.rs", source),
        ];
        assert_eq!(upwards(&sources), [""; 0], "{source}");
    }
}

#[test]
fn a_module_of_the_same_rank() {
    for import in [
        "use crate::recorder::cell::Cell;",
        "use super::recorder::Recorder;",
    ] {
        let sources = [
            ("recorder/mod.rs", "mod cell; pub struct Recorder;"),
            ("recorder/cell.rs", "pub struct Cell;"),
            ("store.rs", import),
        ];
        let faults = upwards(&sources);
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(
            faults[0].starts_with("store imports recorder"),
            "{faults:?}"
        );
    }
}

#[test]
fn a_module_without_a_rank_and_an_item_of_the_root() {
    let sources = [
        ("lib.rs", "mod extra; mod store; pub fn of_the_root() {}"),
        ("extra.rs", ""),
        ("store.rs", "use crate::of_the_root;"),
    ];
    let expected = ["extra has no rank", "store imports from the crate's root"];
    assert_eq!(upwards(&sources), expected);
}

#[test]
fn two_modules_that_import_each_other() {
    for (a, b) in [
        ("use super::b::B;", "use super::a::A;"),
        ("use crate::store::b::B;", "fn f() { super::a::f() }"),
        // Through what the parent has from the other one.
        ("use super::B;", "use super::{a::A};"),
        (
            "use super::inner::B;",
            "use super::a as other; use other::A;",
        ),
    ] {
        let sources = [
            (
                "store/mod.rs",
                "mod a; mod b; pub use b::B; mod inner { pub use super::b::B; }",
            ),
            ("store/a.rs", a),
            ("store/b.rs", b),
        ];
        assert_eq!(circles(&sources), ["store: a, b"], "{a} {b}");
    }
}

#[test]
fn a_module_that_calls_what_another_one_adds_to_its_type() {
    for (call, circle) in [
        ("self.clean();", true),
        ("Self::clean(self);", true),
        ("self.clean::<u8>();", true),
        ("self.sweep(); fn sweep() {}", false),
        ("clean(self); [0].iter().clean();", false),
    ] {
        let a =
            format!("pub struct Run<'a>(&'a u8); impl<'a> Run<'a> {{ fn f(&self) {{ {call} }} }}");
        let sources = [
            ("store/mod.rs", "mod a; mod b;"),
            ("store/a.rs", &*a),
            (
                "store/b.rs",
                "use super::a::Run; impl Run<'_> { pub fn clean(&self) {} fn sweep() {} }",
            ),
        ];
        let expected = if circle { vec!["store: a, b"] } else { vec![] };
        assert_eq!(circles(&sources), expected, "{call}");
    }
}

#[test]
fn a_circle_of_three_and_one_that_only_leads_there() {
    let sources = [
        ("error.rs", "use crate::model::M;"),
        ("model.rs", "use super::store::S;"),
        ("store.rs", "use crate::layer::inner::L;"),
        ("layer/mod.rs", "mod inner;"),
        ("layer/inner.rs", "use crate::model::M;"),
    ];
    assert_eq!(circles(&sources), ["crate: layer, model, store"]);
}

#[test]
fn a_circle_between_folders_beside_each_other() {
    // No two files import each other, but their folders do.
    let sources = [
        ("store/mod.rs", "mod a; mod b;"),
        ("store/a/mod.rs", "mod one; mod two;"),
        ("store/a/one.rs", "use super::super::b::three::X;"),
        ("store/a/two.rs", ""),
        ("store/b/mod.rs", "mod three; mod four;"),
        ("store/b/three.rs", ""),
        ("store/b/four.rs", "use super::super::a::two::Y;"),
    ];
    assert_eq!(circles(&sources), ["store: a, b"]);
}

#[test]
fn other_crates() {
    let sources = [
        ("lib.rs", "mod a; mod store; pub use redis::Client;"),
        (
            "a.rs",
            "use crate::store::redis::RedisStore; use redis_tools::X; // redis::Client",
        ),
        ("b.rs", "mod inner { fn f(client: redis::Client) {} }"),
        ("c.rs", "use ::redis::Client;"),
        (
            "d.rs",
            "use {std::sync::Arc, redis::{aio, Client as Other}};",
        ),
        (
            "store/mod.rs",
            "mod redis; use redis::RedisStore; fn f() { redis::open() }",
        ),
        ("store/redis.rs", "fn f() { redis::cmd() }"),
    ];
    let expected = ["b", "c", "crate", "d", "store::redis"];
    assert_eq!(Tree::read(sources).users_of("redis"), expected);
}
