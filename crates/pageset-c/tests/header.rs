//! The header `pageset.h` matches the library.

use std::fs;
use std::path::Path;

/// Regenerates the header if the environment has `PAGESET_HEADER=write`.
#[test]
fn the_header_is_up_to_date() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).expect("cbindgen.toml");
    let mut builder = cbindgen::Builder::new().with_config(config);
    for name in ["error", "handle", "options", "pages", "stats"] {
        builder = builder.with_src(folder.join(format!("src/{name}.rs")));
    }
    let mut text = vec![];
    builder.generate().expect("bindings").write(&mut text);
    let text = String::from_utf8(text).expect("text");
    // The heading of Rust's documentation says nothing to C programmers.
    let text = text.replace("// # Safety\n// ", "// Precondition: ");
    let path = folder.join("include/pageset.h");
    if std::env::var_os("PAGESET_HEADER").is_some_and(|value| value == "write") {
        fs::write(&path, &text).expect("a writable header");
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == text, "include/pageset.h is out of date; try PAGESET_HEADER=write to regenerate it:\n{text}");
}
