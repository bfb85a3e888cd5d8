//! The header `pageset.h` matches the library.

use std::fs;
use std::path::Path;

/// The header of this library.
fn generated() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).expect("cbindgen.toml");
    let mut builder = cbindgen::Builder::new().with_config(config);
    for name in ["error", "handle", "options", "pages", "runs", "shared", "stats", "ticker"] {
        builder = builder.with_src(folder.join(format!("src/{name}.rs")));
    }
    let mut text = vec![];
    builder.generate().expect("bindings").write(&mut text);
    let text = String::from_utf8(text).expect("text");
    // The heading of Rust's documentation says nothing to C programmers.
    text.replace("// # Safety\n// ", "// Precondition: ")
}

/// Regenerates the header if the environment has `PAGESET_HEADER=write`.
#[test]
fn the_header_is_up_to_date() {
    let text = generated();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/pageset.h");
    if std::env::var_os("PAGESET_HEADER").is_some_and(|value| value == "write") {
        fs::write(&path, &text).expect("a writable header");
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == text, "include/pageset.h is out of date; try PAGESET_HEADER=write to regenerate it:\n{text}");
}

/// The header declares functions of this library only.
#[test]
fn every_declared_function_is_of_this_library() {
    let header = generated();
    let code = header.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    let functions: Vec<&str> = code.split('(').filter_map(function_name).collect();
    assert!(functions.len() > 25, "{functions:?}");
    for name in functions {
        assert!(name.starts_with("pageset_"), "the header declares {name}");
    }
    assert_eq!(function_name("#define X\nextern int pthread_setcancelstate"), Some("pthread_setcancelstate"));
    assert_eq!(function_name("#if defined"), None);
}

/// The name at the end of a text that stands before a parenthesis, unless the text is a line of the preprocessor.
fn function_name(text: &str) -> Option<&str> {
    let line = text.rsplit(['\n', ';']).next()?;
    let name = line.rsplit([' ', '*', ')']).next()?;
    (!line.trim_start().starts_with('#') && !name.is_empty()).then_some(name)
}
