//! A metric is declared once: only its table, its computation and tests name it.
//!
//! The programs and the reports go through the columns of a type of results (crate `pageset-columns`), so they show a new
//! column without a change. Words such as `count` have other meanings, so only names of two words or more are searched.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::Visit;

/// The crates that show results. All others compute them.
const SHOWING: [&str; 4] = ["pageset-cli", "pageset-lab", "pageset-report", "pageset-study"];

/// The files of these crates that name a metric, and why they do.
const ALLOWED: &[(&str, &str)] = &[
    ("pageset-cli/src/diff_cmd.rs", "computes the metrics of a recording"),
    ("pageset-cli/src/replay_cmd/identify.rs", "the kernel's amounts stand above the candidates'"),
    ("pageset-cli/src/report_cmd/card/replay.rs", "what the kernel did, without a replay"),
    ("pageset-cli/src/report_cmd/recording.rs", "computes a recording's amounts over time"),
    ("pageset-cli/src/report_cmd/results.rs", "the kernel's amounts are a bar next to those of the rules"),
    ("pageset-cli/src/top_cmd/history.rs", "computes means over time"),
    ("pageset-cli/src/top_cmd/plain.rs", "free blocks, whose table has the fragmentation index; movers per second"),
    ("pageset-cli/src/top_cmd/screen/", "columns with widths and short numbers of their own"),
    ("pageset-cli/src/trace_cmd/info.rs", "the bounds in a recording, not those in a look"),
    ("pageset-lab/src/kernels_cmd/", "computes the truth of the lab"),
    ("pageset-study/src/table.rs", "computes the rows of a study from its cells"),
];

/// The metrics that files declare, and the names that they use outside tests.
#[derive(Default)]
struct Names {
    declared: BTreeSet<String>,
    used: BTreeSet<String>,
}

impl Names {
    fn words(&mut self, text: &str) {
        let words = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        self.used.extend(words.filter(|word| word.contains('_')).map(str::to_owned));
    }
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    let is_cfg = |attribute: &syn::Attribute| match &attribute.meta {
        syn::Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string().contains("test"),
        meta => meta.path().is_ident("test"),
    };
    attributes.iter().any(is_cfg)
}

impl<'ast> Visit<'ast> for Names {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            syn::visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_test(&item.attrs) {
            syn::visit::visit_item_fn(self, item);
        }
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        let text = |attribute: &syn::Attribute| match &attribute.meta {
            syn::Meta::List(list) if list.path.is_ident("schemars") => list.tokens.to_string(),
            _ => String::new(),
        };
        let attributes: String = field.attrs.iter().map(text).collect();
        let is_shown =
            ["\"tables\"", "\"figure\"", "\"better\"", "\"metric\""].iter().any(|key| attributes.contains(key));
        let name = field.ident.as_ref().map(ToString::to_string).filter(|name| name.contains('_'));
        self.declared.extend(name.filter(|_| is_shown));
        syn::visit::visit_field(self, field);
    }

    fn visit_ident(&mut self, name: &'ast proc_macro2::Ident) {
        self.words(&name.to_string());
    }

    fn visit_lit_str(&mut self, text: &'ast syn::LitStr) {
        self.words(&text.value());
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        self.words(&item.tokens.to_string());
    }

    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
}

fn sources(dir: &Path, to: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if name == "tests" || name.ends_with("_tests") {
            continue;
        }
        match path.is_dir() {
            true => sources(&path, to),
            false => to.extend(Some(path).filter(|path| path.extension().is_some_and(|end| end == "rs"))),
        }
    }
}

#[test]
fn a_metric_is_named_in_its_table_and_its_computation_only() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of crates");
    let mut files = Vec::new();
    for of in fs::read_dir(crates).expect("the crates") {
        sources(&of.expect("a crate").path().join("src"), &mut files);
    }
    let mut names: BTreeMap<String, Names> = BTreeMap::new();
    for path in files {
        let text = fs::read_to_string(&path).expect("a source");
        let file = syn::parse_file(&text).expect("Rust");
        let mut found = Names::default();
        found.visit_file(&file);
        let name = path.strip_prefix(crates).expect("inside").to_string_lossy().into_owned();
        names.insert(name, found);
    }
    let metrics: BTreeSet<&String> = names.values().flat_map(|file| &file.declared).collect();
    assert!(metrics.len() > 30, "only {} metrics", metrics.len());
    let mut used = BTreeSet::new();
    let mut faults = Vec::new();
    for (file, found) in &names {
        if !SHOWING.iter().any(|of| file.starts_with(&format!("{of}/"))) {
            continue;
        }
        let named = metrics.iter().filter(|metric| found.used.contains(**metric) && !found.declared.contains(**metric));
        let named: Vec<&str> = named.map(|metric| metric.as_str()).collect();
        match ALLOWED.iter().find(|(allowed, _)| file.starts_with(allowed)) {
            Some((allowed, _)) if !named.is_empty() => drop(used.insert(*allowed)),
            None if !named.is_empty() => faults.push(format!("{file}: {}", named.join(", "))),
            _ => {}
        }
    }
    assert!(faults.is_empty(), "metrics outside their table and their computation:\n{}", faults.join("\n"));
    let unused: Vec<_> = ALLOWED.iter().map(|(file, _)| *file).filter(|file| !used.contains(file)).collect();
    assert!(unused.is_empty(), "these files name no metric any more: {unused:?}");
}
