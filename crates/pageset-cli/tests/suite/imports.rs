//! No two modules of a crate import each other, directly or through others.
//!
//! A module is a file or folder of `src`. A module may import its own children and its parent, because `mod.rs`
//! re-exports the items of its folder. Test code does not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::Visit;

/// The module paths of a crate, such as `zone::list`, and the modules that each imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// Collects the paths that begin with `crate`, `super` or `self` in a file.
#[derive(Default)]
struct Paths {
    found: Vec<Vec<String>>,
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    let names_test = |tokens: &proc_macro2::TokenStream| {
        let text = tokens.to_string();
        text.contains("test") && !text.contains("not (")
    };
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident("cfg") => names_test(&list.tokens),
        meta => meta.path().is_ident("test"),
    })
}

impl Paths {
    fn add_use(&mut self, tree: &syn::UseTree, before: &[String]) {
        let with = |name: &syn::Ident| before.iter().cloned().chain([name.to_string()]).collect::<Vec<_>>();
        match tree {
            syn::UseTree::Path(path) => self.add_use(&path.tree, &with(&path.ident)),
            syn::UseTree::Name(name) => self.found.push(with(&name.ident)),
            syn::UseTree::Rename(name) => self.found.push(with(&name.ident)),
            syn::UseTree::Glob(_) => self.found.push(before.to_vec()),
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.add_use(tree, before)),
        }
    }
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            syn::visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !is_test(&item.attrs) {
            self.add_use(&item.tree, &[]);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.found.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        syn::visit::visit_path(self, path);
    }
}

/// The files of a crate by the paths of their modules; the root is the empty path.
fn files(src: &Path, dir: &Path, found: &mut BTreeMap<String, PathBuf>) {
    for entry in fs::read_dir(dir).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(src, &path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let inside = path.strip_prefix(src).expect("inside").with_extension("");
            let mut parts: Vec<_> = inside.iter().map(|part| part.to_string_lossy().into_owned()).collect();
            if matches!(parts.last().map(String::as_str), Some("mod" | "lib" | "main")) {
                parts.pop();
            }
            let is_tests = |part: &String| part == "tests" || part.ends_with("_tests") || part == "models";
            if !parts.iter().any(is_tests) {
                found.insert(parts.join("::"), path);
            }
        }
    }
}

/// The module that a path names in a file of module `here`: the longest part of it that is a module.
fn resolve(path: &[String], here: &str, modules: &BTreeMap<String, PathBuf>) -> Option<String> {
    let mut at: Vec<&str> = here.split("::").filter(|part| !part.is_empty()).collect();
    let mut rest = path;
    match rest.first()?.as_str() {
        "crate" => at.clear(),
        "self" => {}
        "super" => {
            at.pop();
        }
        child if modules.contains_key(&join(here, child)) => at.push(child),
        _ => return None,
    }
    rest = &rest[1..];
    while rest.first().is_some_and(|part| part == "super") {
        at.pop();
        rest = &rest[1..];
    }
    for part in rest {
        at.push(part);
        if !modules.contains_key(&at.join("::")) {
            at.pop();
            break;
        }
    }
    Some(at.join("::"))
}

fn join(module: &str, child: &str) -> String {
    if module.is_empty() { child.to_owned() } else { format!("{module}::{child}") }
}

fn imports(src: &Path) -> Imports {
    let mut modules = BTreeMap::new();
    files(src, src, &mut modules);
    let mut imports = Imports::new();
    for (module, file) in &modules {
        let code = syn::parse_file(&fs::read_to_string(file).expect("a source")).expect("Rust");
        let mut paths = Paths::default();
        paths.visit_file(&code);
        let named = paths.found.iter().filter_map(|path| resolve(path, module, &modules));
        imports.entry(module.clone()).or_default().extend(named);
    }
    imports
}

/// The ancestors of two modules in their common folder: an import between `zone::list` and `buddy::free` counts as one
/// between `zone` and `buddy`. `None` if one module contains the other.
fn siblings(one: &str, other: &str) -> Option<(String, String)> {
    let (a, b): (Vec<_>, Vec<_>) = (one.split("::").collect(), other.split("::").collect());
    let common = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
    (common < a.len() && common < b.len() && !one.is_empty() && !other.is_empty())
        .then(|| (a[..=common].join("::"), b[..=common].join("::")))
}

/// A cycle among the modules, if there is one.
fn cycle(imports: &Imports) -> Option<Vec<String>> {
    let mut edges = Imports::new();
    for (module, named) in imports {
        for (from, to) in named.iter().filter_map(|named| siblings(module, named)) {
            edges.entry(from).or_default().insert(to);
        }
    }
    fn visit(at: &str, edges: &Imports, way: &mut Vec<String>, done: &mut BTreeSet<String>) -> Option<Vec<String>> {
        if let Some(start) = way.iter().position(|module| module == at) {
            way.push(at.to_owned());
            return Some(way[start..].to_vec());
        }
        if !done.insert(at.to_owned()) {
            return None;
        }
        way.push(at.to_owned());
        let found = edges.get(at).into_iter().flatten().find_map(|next| visit(next, edges, way, done));
        way.pop();
        found
    }
    let mut done = BTreeSet::new();
    edges.keys().find_map(|module| visit(module, &edges, &mut Vec::new(), &mut done))
}

#[test]
fn no_module_imports_itself_through_others() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut seen = 0;
    let mut cycles = Vec::new();
    for entry in fs::read_dir(crates).expect("the crates") {
        let src = entry.expect("a crate").path().join("src");
        if src.is_dir() {
            seen += 1;
            if let Some(way) = cycle(&imports(&src)) {
                cycles.push(format!("{}: {}", src.display(), way.join(" -> ")));
            }
        }
    }
    assert!(seen >= 7, "{seen} crates");
    assert_eq!(cycles, Vec::<String>::new(), "modules import each other");
}

/// The layers of the allocator, bottom to top. Each imports only those before it.
const LAYERS: [&str; 11] =
    ["sync", "frame", "machine", "policy", "zone", "buddy", "store", "pcp", "alloc", "admin", "research"];

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| module.split("::").next() == Some(layer))
}

fn allocator() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../pageset/src")
}

#[test]
fn the_allocator_imports_downwards() {
    let imports = imports(&allocator());
    assert!(imports.len() > 40, "{} modules", imports.len());
    for (module, named) in imports.iter().filter(|(module, _)| !module.is_empty()) {
        let own = layer(module).unwrap_or_else(|| panic!("{module} is in no layer"));
        let above: Vec<_> = named.iter().filter(|named| layer(named).is_some_and(|layer| layer > own)).collect();
        assert_eq!(above, Vec::<&String>::new(), "{module} imports layers above it");
    }
}

/// Types that have methods of their own in a layer above theirs, and why. Such methods can be called from below without an import.
const METHODS_ABOVE: [(&str, &str, &str); 16] = [
    ("Allocator", "admin", "the calls of rare operations"),
    ("CachedZone", "alloc", "the fast path reads the zone's words"),
    ("CachedZone", "research", "the seam of `research`"),
    ("CompactionState", "admin", "the counters of what a compaction did"),
    ("List", "zone", "`research`: clusters are cut off a list and joined to one"),
    ("PageRange", "alloc", "the checks of a configuration"),
    ("Pageset", "alloc", "the fast path reads the pageset's words"),
    ("PcpGuard", "alloc", "the fast path changes the pageset's words"),
    ("Zone", "buddy", "locks that complete deferred frees first, and what a fallback finds"),
    ("Zone", "admin", "suitability for a compaction, and skip bits"),
    ("Zone", "research", "the seam of `research`"),
    ("ZoneGuard", "buddy", "all that changes free lists, with the lock of a region held"),
    ("ZoneGuard", "store", "drains to free lists, with the lock of a region held"),
    ("ZoneGuard", "admin", "steps of ranges and of memory that comes and goes, with the lock of a region held"),
    ("ZoneGuard", "research", "the seam of `research`"),
    ("ZoneView", "research", "the call that merges what skipped merging"),
];

/// The types that a file defines, and the types that have methods in it.
#[derive(Default)]
struct Types {
    defined: BTreeSet<String>,
    with_methods: BTreeSet<String>,
}

impl<'ast> Visit<'ast> for Types {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        match item {
            syn::Item::Mod(module) if is_test(&module.attrs) => return,
            syn::Item::Struct(item) => drop(self.defined.insert(item.ident.to_string())),
            syn::Item::Enum(item) => drop(self.defined.insert(item.ident.to_string())),
            syn::Item::Impl(item) if item.trait_.is_none() && !is_test(&item.attrs) => {
                if let syn::Type::Path(path) = &*item.self_ty {
                    self.with_methods.extend(path.path.segments.last().map(|segment| segment.ident.to_string()));
                }
            }
            _ => {}
        }
        syn::visit::visit_item(self, item);
    }
}

#[test]
fn methods_are_in_the_layer_of_their_type() {
    let src = allocator();
    let mut modules = BTreeMap::new();
    files(&src, &src, &mut modules);
    let (mut defined, mut methods) = (BTreeMap::new(), BTreeSet::new());
    for (module, file) in modules.iter().filter(|(module, _)| !module.is_empty()) {
        let code = syn::parse_file(&fs::read_to_string(file).expect("a source")).expect("Rust");
        let (mut types, own) = (Types::default(), layer(module).expect("a layer"));
        types.visit_file(&code);
        defined.extend(types.defined.into_iter().map(|name| ((name, own), ())));
        methods.extend(types.with_methods.into_iter().map(|name| (name, own)));
    }
    let layer_of = |name: &str| (0..LAYERS.len()).find(|&layer| defined.contains_key(&(name.to_owned(), layer)));
    let is_above = |(name, own): &(String, usize)| {
        !defined.contains_key(&(name.clone(), *own)) && layer_of(name).is_some_and(|layer| layer < *own)
    };
    let above: Vec<_> = methods.iter().filter(|at| is_above(at)).map(|(name, own)| (&**name, LAYERS[*own])).collect();
    let mut allowed: Vec<_> = METHODS_ABOVE.iter().map(|&(name, layer, _)| (name, layer)).collect();
    allowed.sort_by_key(|&(name, above)| (name, layer(above)));
    assert_eq!(above, allowed, "methods above the layer of their type; METHODS_ABOVE lists them with the reason");
}

#[test]
fn a_cycle_is_found() {
    let imports = |edges: &[(&str, &str)]| {
        let mut imports = Imports::new();
        edges.iter().for_each(|(from, to)| {
            imports.entry((*from).to_owned()).or_default().insert((*to).to_owned());
        });
        imports
    };
    assert_eq!(cycle(&imports(&[("a", "b"), ("b::x", "b"), ("b", "b::x")])), None, "a parent and its child");
    let found = cycle(&imports(&[("a::x", "b"), ("b", "c::y"), ("c::z", "a")])).expect("a cycle");
    assert_eq!(found, ["a", "b", "c", "a"]);
    assert!(cycle(&imports(&[("a::x", "a::y"), ("a::y", "a::x")])).is_some());
}

/// Prints the layers of the allocator, their modules and their imports as a graph for Graphviz:
/// `cargo test -p pageset-cli --test suite -- --ignored --nocapture drawing | sed -n '/^digraph/,/^}/p' | tred | dot -Tsvg`
#[test]
#[ignore = "prints a drawing"]
fn drawing() {
    let imports = imports(&allocator());
    let layer = |module: &str| module.split("::").next().unwrap_or_default().to_owned();
    let mut modules = BTreeMap::<String, Vec<String>>::new();
    let mut edges = BTreeSet::new();
    for (module, named) in imports.iter().filter(|(module, _)| !module.is_empty()) {
        let inside = modules.entry(layer(module)).or_default();
        inside.extend(module.split("::").nth(1).map(str::to_owned));
        inside.dedup();
        let used = named.iter().map(|named| layer(named)).filter(|used| !used.is_empty() && *used != layer(module));
        edges.extend(used.map(|used| (layer(module), used)));
    }
    println!("digraph pageset {{\nnode [shape=record, fontname=\"Helvetica\", fontsize=11];\nrankdir=TB;");
    for (layer, inside) in &modules {
        let lines: Vec<String> = inside.chunks(4).map(|some| some.join("  ")).collect();
        println!("{layer} [label=\"{{{layer}|{}}}\"];", lines.join("\\n"));
    }
    edges.iter().for_each(|(from, to)| println!("{from} -> {to};"));
    println!("}}");
}
