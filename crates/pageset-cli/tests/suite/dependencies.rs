//! Who reads a recording does not compile the laboratory.

use std::process::Command;

/// `pageset` and the library that it shares with the laboratory depend on no simulator, no benchmark and no Parquet.
#[test]
fn the_product_does_not_depend_on_the_laboratory() {
    for package in ["pageset-cli", "pageset-report"] {
        let arguments = ["tree", "--offline", "--locked", "--edges", "normal,build", "--prefix", "none", "-p", package];
        let output =
            Command::new(env!("CARGO")).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        let names: Vec<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
        assert!(names.contains(&"pageset-trace"), "{text}");
        for other in ["pageset-sim", "pageset-study", "pageset-bench", "pageset-lab", "parquet"] {
            assert!(!names.contains(&other), "{package} depends on {other}");
        }
    }
}
