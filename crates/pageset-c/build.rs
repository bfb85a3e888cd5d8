//! Sets the SONAME of the shared library.

/// The number in the SONAME.
///
/// It rises when programs must be rebuilt: a function disappears or changes its arguments, or a structure changes other
/// than at its end. This rule starts with the first release; 0 guarantees nothing. `install.sh` reads the number from
/// the library.
const ABI: u32 = 0;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libpageset.so.{ABI}");
}
