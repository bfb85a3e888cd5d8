//! `pageset.h` says what the library has.

use std::fs;
use std::path::Path;

/// With `PAGESET_HEADER=write` in the environment the header is written anew.
#[test]
fn the_header_is_up_to_date() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).expect("cbindgen.toml");
    let mut builder = cbindgen::Builder::new().with_config(config);
    for name in ["error", "handle", "options", "calls", "counters"] {
        builder = builder.with_src(folder.join(format!("src/{name}.rs")));
    }
    let mut text = vec![];
    builder.generate().expect("bindings").write(&mut text);
    let text = String::from_utf8(text).expect("text");
    // What Rust code is asked for is said to C in the text of each function.
    let text: String = without_safety(&text);
    let path = folder.join("include/pageset.h");
    if std::env::var_os("PAGESET_HEADER").is_some_and(|value| value == "write") {
        fs::write(&path, &text).expect("the header");
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == text, "include/pageset.h is out of date; PAGESET_HEADER=write writes it anew:\n{text}");
}

/// Turns the headings `# Safety` into a word.
fn without_safety(text: &str) -> String {
    text.replace("// # Safety\n// ", "// Asked of the caller: ")
}
