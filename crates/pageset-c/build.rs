//! Names the shared library as programs ask for it at run time.

/// The number in the SONAME. Raised when programs have to be built anew: a function that goes or changes its arguments,
/// a structure that changes other than at its end. From the first release on: 0 promises nothing. The same as in no
/// other place: `install.sh` reads it from the library.
const ABI: u32 = 0;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libpageset.so.{ABI}");
}
