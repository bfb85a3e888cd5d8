//! Builds and runs C and C++ programs with the compilers of this machine, against the shared and the static library.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// The folder of the libraries of this build. Cargo puts this test there too.
fn libraries() -> PathBuf {
    let exe = env::current_exe().expect("this test");
    exe.parent().expect("deps").to_owned()
}

fn run(command: &mut Command) -> Output {
    let out = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(out.status.success(), "{command:?}: {}\n{}{}", out.status, text(&out.stdout), text(&out.stderr));
    out
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|out| out.status.success())
}

/// The library, installed by `install.sh` in a temporary folder that takes the place of `/`.
struct Installed {
    root: TempDir,
}

/// The prefix of the installation.
const PREFIX: &str = "/opt/pageset";

impl Installed {
    fn new() -> Installed {
        let root = tempfile::tempdir().expect("a folder");
        let mut command = Command::new("sh");
        command.arg(crate_folder().join("install.sh")).arg(PREFIX);
        run(command.env("DESTDIR", root.path()).env("PAGESET_BUILT", libraries()));
        Installed { root }
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.root.path().join(&PREFIX[1..]).join(name)
    }
}

fn crate_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Link {
    Shared,
    Static,
}

struct Build<'b> {
    compiler: &'b str,
    source: &'b str,
    link: Link,
    flags: &'b [&'b str],
}

impl Build<'_> {
    /// Builds a program against the installed library, and returns its path.
    fn program(&self, installed: &Installed) -> PathBuf {
        let (program, libraries) = (installed.root.path().join("program"), installed.folder("lib"));
        let mut command = Command::new(self.compiler);
        command.args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-g"]).args(self.flags);
        command.arg("-I").arg(installed.folder("include")).arg(crate_folder().join(self.source));
        command.arg("-o").arg(&program).arg("-L").arg(&libraries);
        match self.link {
            Link::Shared => command.args(["-lpageset", &format!("-Wl,-rpath,{}", libraries.display())]),
            Link::Static => command.args(["-l:libpageset.a", "-lpthread", "-ldl", "-lm"]),
        };
        run(&mut command);
        program
    }

    /// Builds and runs the program, and returns its output. Returns `None` if the compiler is not installed.
    fn output(&self) -> Option<String> {
        if !is_installed(self.compiler) {
            println!("SKIPPED {}: no {}", self.source, self.compiler);
            return None;
        }
        let installed = Installed::new();
        let program = self.program(&installed);
        Some(text(&run(&mut Command::new(program)).stdout))
    }
}

const STRICT_C: &[&str] = &["-std=c11", "-D_POSIX_C_SOURCE=200809L"];

const C_OUTPUT: &str = "order 2 and 300 pages: 1245184 bytes in use\n0 bytes in use, some went back to the system\n";
const CPP_OUTPUT: &str = "0 bytes in use\ncannot build a pool of 0 bytes: the size is out of range; try 1 to ";

#[test]
fn the_examples_run_with_both_libraries() {
    for link in [Link::Shared, Link::Static] {
        let c = Build { compiler: "cc", source: "examples/buffers.c", link, flags: STRICT_C };
        assert!(c.output().is_none_or(|text| text == C_OUTPUT), "{link:?}");
        let cpp = Build { compiler: "c++", source: "examples/buffers.cpp", link, flags: &["-std=c++17"] };
        assert!(cpp.output().is_none_or(|text| text.starts_with(CPP_OUTPUT)), "{link:?}");
    }
}

/// Builds both examples with the flags of pkg-config for an installation outside `/`, dynamically and statically linked.
#[test]
fn an_installed_library_is_found_by_pkg_config() {
    if !is_installed("pkg-config") || !is_installed("cc") || !is_installed("c++") {
        return println!("SKIPPED an_installed_library_is_found_by_pkg_config: no pkg-config, cc or c++");
    }
    let installed = Installed::new();
    let ask = |what: &[&str]| {
        let mut command = Command::new("pkg-config");
        command.env("PKG_CONFIG_LIBDIR", installed.folder("lib/pkgconfig"));
        command.env("PKG_CONFIG_SYSROOT_DIR", installed.root.path());
        text(&run(command.args(what).arg("pageset")).stdout).trim().to_owned()
    };
    assert_eq!(ask(&["--modversion"]), env!("CARGO_PKG_VERSION"));
    let file = fs::read_to_string(installed.folder("lib/pkgconfig/pageset.pc")).expect("a file");
    assert!(file.starts_with(&format!("prefix={PREFIX}\nlibdir={PREFIX}/lib\n")), "{file}");
    for (compiler, source, output) in [("cc", "buffers.c", C_OUTPUT), ("c++", "buffers.cpp", CPP_OUTPUT)] {
        for wholly_static in [false, true] {
            let flags = ask(if wholly_static { &["--static", "--cflags", "--libs"] } else { &["--cflags", "--libs"] });
            let program = installed.root.path().join("program");
            let mut command = Command::new(compiler);
            command.arg(crate_folder().join("examples").join(source)).args(wholly_static.then_some("-static"));
            run(command.args(flags.split_whitespace()).arg("-o").arg(&program));
            let mut command = Command::new(program);
            if !wholly_static {
                command.env("LD_LIBRARY_PATH", installed.folder("lib"));
            }
            let out = text(&run(&mut command).stdout);
            assert!(out.starts_with(output), "{source}, static: {wholly_static}: {out}");
        }
    }
}

/// A program finds the library with CMake, in a folder that stands for `/`, and links both libraries.
#[test]
fn an_installed_library_is_found_by_cmake() {
    if !is_installed("cmake") || !is_installed("cc") {
        return println!("SKIPPED an_installed_library_is_found_by_cmake: no cmake or cc");
    }
    let installed = Installed::new();
    let folder = tempfile::tempdir().expect("a folder");
    let project = |version: &str, target: &str| {
        let text = format!(
            "cmake_minimum_required(VERSION 3.13)\nproject(program C)\nfind_package(pageset {version} REQUIRED)\n\
             add_executable(program {}/examples/buffers.c)\ntarget_link_libraries(program PRIVATE {target})\n",
            crate_folder().display()
        );
        fs::write(folder.path().join("CMakeLists.txt"), text).expect("a project");
        let mut configure = Command::new("cmake");
        configure.arg("-S").arg(folder.path()).arg("-B").arg(folder.path().join("build"));
        configure.arg(format!("-DCMAKE_PREFIX_PATH={}", installed.folder("").display()));
        configure
    };
    for target in ["pageset::pageset", "pageset::static"] {
        run(&mut project(env!("CARGO_PKG_VERSION"), target));
        run(Command::new("cmake").arg("--build").arg(folder.path().join("build")));
        assert_eq!(text(&run(&mut Command::new(folder.path().join("build/program"))).stdout), C_OUTPUT, "{target}");
    }
    for version in ["0.2", "1.0"] {
        let out = project(version, "pageset::pageset").output().expect("cmake");
        assert!(!out.status.success() && text(&out.stderr).contains("compatible"), "{version}: {}", text(&out.stderr));
    }
}

/// The commands of the README's consoles, one text for each console.
fn readme_consoles() -> Vec<String> {
    let readme = fs::read_to_string(crate_folder().join("README.md")).expect("the README");
    let consoles = readme.split("```console\n").skip(1).map(|rest| rest.split("```").next().expect("a console"));
    consoles.map(|text| text.lines().map(|line| line.trim_start_matches("$ ").to_owned() + "\n").collect()).collect()
}

/// A folder with `program.c`, from which the README's commands find `install.sh`.
fn folder_of_a_program() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::copy(crate_folder().join("examples/buffers.c"), folder.path().join("program.c")).expect("a copy");
    let crates = crate_folder().parent().expect("crates");
    std::os::unix::fs::symlink(crates, folder.path().join("crates")).expect("a link");
    folder
}

/// A shell that runs in `folder` as a user's shell does: without the folders in which cargo finds libraries.
fn shell(folder: &Path) -> Command {
    let mut command = Command::new("sh");
    command.current_dir(folder).env("PAGESET_BUILT", libraries()).env("HOME", folder).env_remove("LD_LIBRARY_PATH");
    command
}

/// The README's commands for a folder of one's own, word for word.
#[test]
fn the_documented_installation_into_a_folder_works() {
    if !is_installed("pkg-config") || !is_installed("cc") {
        return println!("SKIPPED the_documented_installation_into_a_folder_works: no pkg-config or cc");
    }
    let folder = folder_of_a_program();
    let commands = &readme_consoles()[1];
    let out = text(&run(shell(folder.path()).arg("-euc").arg(commands)).stdout);
    let lib = folder.path().join("pageset/lib");
    assert!(out.starts_with(&format!("installed {}/libpageset.so.0\n\nThe loader", lib.display())), "{out}");
    assert!(out.contains(&format!("-Wl,-rpath,{} -o program\n", lib.display())), "{out}");
    assert!(out.ends_with(C_OUTPUT), "{out}");
}

/// The README's commands for all users, word for word. A mount namespace has its own /etc and /usr/local.
#[test]
fn the_documented_installation_for_all_users_works() {
    if !is_installed("pkg-config") || !is_installed("cc") || !is_installed("unshare") {
        return println!("SKIPPED the_documented_installation_for_all_users_works: no pkg-config, cc or unshare");
    }
    let folder = folder_of_a_program();
    let script = format!(
        // An ordinary user cannot read some files of /etc. The loader and the compiler need none of them.
        "mkdir local && cp -r -P /etc etc 2>/dev/null; mount --bind local /usr/local && mount --bind etc /etc || exit 7\n\
         set -eu\n{}ldconfig -p | grep libpageset\n",
        readme_consoles()[0]
    );
    let mut command = Command::new("unshare");
    let inner = shell(folder.path());
    command.args(["--mount", "--map-root-user", "sh", "-c", &script]).current_dir(folder.path());
    command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?)))).env_remove("LD_LIBRARY_PATH");
    let out = command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").output().expect("unshare");
    let (stdout, stderr) = (text(&out.stdout), text(&out.stderr));
    if stdout.is_empty() && (out.status.code() == Some(7) || stderr.starts_with("unshare")) {
        return println!("SKIPPED the_documented_installation_for_all_users_works: {stderr}");
    }
    assert!(out.status.success(), "{stdout}{stderr}");
    let updated = "installed /usr/local/lib/libpageset.so.0, and updated the loader's cache\n";
    assert!(stdout.starts_with(&format!("{updated}{C_OUTPUT}")), "{stdout}{stderr}");
    assert!(stdout.contains("libpageset.so.0 (libc6,x86-64) => /usr/local/lib/libpageset.so.0"), "{stdout}");
}

/// The linker and programs find the library by its names, and it exports only its functions.
#[test]
fn the_shared_library_has_a_soname_and_only_its_functions() {
    if !is_installed("nm") || !is_installed("readelf") {
        return println!("SKIPPED the_shared_library_has_a_soname_and_only_its_functions: no nm or readelf");
    }
    let installed = Installed::new();
    let linker = installed.folder("lib/libpageset.so");
    let soname = fs::read_link(&linker).expect("a link");
    assert_eq!(soname, Path::new("libpageset.so.0"));
    let file = fs::read_link(installed.folder("lib").join(&soname)).expect("a link");
    assert_eq!(file, Path::new(&format!("libpageset.so.{}", env!("CARGO_PKG_VERSION"))));
    let dynamic = text(&run(Command::new("readelf").arg("-d").arg(&linker)).stdout);
    assert!(dynamic.contains("Library soname: [libpageset.so.0]"), "{dynamic}");
    let symbols = text(&run(Command::new("nm").args(["-D", "--defined-only"]).arg(&linker)).stdout);
    let names = symbols.lines().filter_map(|line| line.split_whitespace().last());
    let functions: Vec<&str> = names.filter_map(|name| name.strip_suffix("@@PAGESET_0")).collect();
    // Everything that is exported has the version; the version's own name is a symbol too.
    assert_eq!(functions.len() + 1, symbols.lines().count(), "{symbols}");
    let header = fs::read_to_string(crate_folder().join("include/pageset.h")).expect("the header");
    for name in &functions {
        assert!(header.contains(&format!("{name}(")), "the library exports {name}, which is not in the header");
    }
    let declared = header.lines().filter(|line| !line.starts_with("//")).flat_map(|line| line.split([' ', '*', ';']));
    for name in declared.filter_map(|word| word.split_once('(').map(|(name, _)| name)) {
        let is_function = name.starts_with("pageset_");
        assert!(!is_function || functions.contains(&name), "pageset.map does not have {name}, which is in the header");
    }
}

#[test]
fn bad_use_from_c_is_refused() {
    let build = Build { compiler: "cc", source: "tests/bad_use.c", link: Link::Shared, flags: STRICT_C };
    let Some(text) = build.output() else { return };
    assert_eq!(text, "all refused as documented\n");
}

/// The program survives `dlclose`, whether or not the C library unloads the library.
#[test]
fn a_program_survives_unloading() {
    if !is_installed("cc") {
        return println!("SKIPPED a_program_survives_unloading: no cc");
    }
    let installed = Installed::new();
    let program = installed.root.path().join("program");
    let mut command = Command::new("cc");
    command.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-I"]).arg(installed.folder("include"));
    run(command.arg(crate_folder().join("tests/unload.c")).arg("-o").arg(&program).arg("-ldl"));
    let out = text(&run(Command::new(program).arg(installed.folder("lib/libpageset.so"))).stdout);
    assert!(["unloaded\n", "still loaded\n"].contains(&out.as_str()), "{out}");
    println!("{out}");
}

#[test]
fn bad_use_from_c_is_refused_under_address_sanitizer() {
    let flags = [STRICT_C, &["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]].concat();
    let build = Build { compiler: "cc", source: "tests/bad_use.c", link: Link::Static, flags: &flags };
    let Some(text) = build.output() else { return };
    assert_eq!(text, "all refused as documented\n");
}

const FEATURES_OUTPUT: &str = "all features work as documented\n";

#[test]
fn features_work_with_both_libraries() {
    for link in [Link::Shared, Link::Static] {
        let build = Build { compiler: "cc", source: "tests/features.c", link, flags: STRICT_C };
        assert!(build.output().is_none_or(|text| text == FEATURES_OUTPUT), "{link:?}");
    }
}

#[test]
fn features_work_under_address_sanitizer() {
    let flags = [STRICT_C, &["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]].concat();
    let build = Build { compiler: "cc", source: "tests/features.c", link: Link::Static, flags: &flags };
    assert!(build.output().is_none_or(|text| text == FEATURES_OUTPUT));
}

const SHARED_OUTPUT: &str = "another process read and wrote the pages\n";

/// Another process maps shared memory. The static library runs under address sanitizer.
#[test]
fn shared_memory_works_with_both_libraries() {
    for (link, flags) in [
        (Link::Shared, &["-std=gnu11"][..]),
        (Link::Static, &["-std=gnu11", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]),
    ] {
        let build = Build { compiler: "cc", source: "tests/shared.c", link, flags };
        assert!(build.output().is_none_or(|text| text == SHARED_OUTPUT), "{link:?}");
    }
}

/// A later filter of system calls causes no internal error and no message of a panic.
#[test]
fn a_filter_of_system_calls_is_survived() {
    if !is_installed("cc") {
        return println!("SKIPPED a_filter_of_system_calls_is_survived: no cc");
    }
    let installed = Installed::new();
    let build = Build { compiler: "cc", source: "tests/seccomp.c", link: Link::Shared, flags: &["-std=gnu11"] };
    let program = build.program(&installed);
    for refused in ["membarrier", "all"] {
        let out = run(Command::new(&program).arg(refused));
        let out = (text(&out.stdout), text(&out.stderr));
        if out.0.starts_with("SKIPPED") {
            return println!("{}", out.0);
        }
        assert_eq!(out, ("the pool works under the filter\n".to_owned(), String::new()), "{refused}");
    }
}

#[test]
fn bad_use_and_the_example_run_under_valgrind() {
    if !is_installed("valgrind") || !is_installed("cc") {
        return println!("SKIPPED bad_use_and_the_example_run_under_valgrind: no valgrind, or no cc");
    }
    for source in ["tests/bad_use.c", "tests/features.c", "examples/buffers.c"] {
        let installed = Installed::new();
        let program = Build { compiler: "cc", source, link: Link::Shared, flags: STRICT_C }.program(&installed);
        let mut command = Command::new("valgrind");
        command.args(["--error-exitcode=3", "--quiet", "--leak-check=full"]).arg(program);
        // Valgrind itself needs address space, so the program sets no limits.
        run(command.env("PAGESET_NO_LIMITS", "1"));
    }
}

#[test]
fn calls_for_programs_work_with_both_libraries() {
    for link in [Link::Shared, Link::Static] {
        let build = Build { compiler: "cc", source: "tests/for_programs.c", link, flags: STRICT_C };
        assert!(build.output().is_none_or(|text| text == "all calls work as documented\n"), "{link:?}");
    }
}

/// Runs `tests/planted.c` under a checker: it reports each error, and the program without errors runs in silence.
fn check_planted(flags: &[&str], runner: &[&str], report: &str, errors: &[&str]) {
    if !is_installed("cc") {
        return println!("SKIPPED planted errors under {runner:?} {flags:?}: no cc");
    }
    for link in [Link::Shared, Link::Static] {
        let installed = Installed::new();
        let flags = [STRICT_C, flags].concat();
        let program = Build { compiler: "cc", source: "tests/planted.c", link, flags: &flags }.program(&installed);
        let command = |planted| {
            let mut words = runner.iter().map(std::ffi::OsStr::new).chain([program.as_os_str()]);
            let mut command = Command::new(words.next().expect("a program"));
            command.args(words).arg(planted);
            command
        };
        let out = run(&mut command("correct"));
        assert_eq!((text(&out.stdout), text(&out.stderr)), ("done\n".to_owned(), String::new()), "{link:?}");
        for planted in errors {
            let out = command(planted).output().expect("a program that starts");
            let found = text(&out.stderr);
            assert!(!out.status.success() && found.contains(report), "{planted}, {link:?}, is not reported: {found}");
        }
    }
}

/// Errors that address sanitizer and memcheck find.
const PLANTED: &[&str] = &["use-after-free", "use-after-deferred-free", "beyond-a-run"];

#[test]
fn address_sanitizer_reports_planted_errors() {
    check_planted(&["-fsanitize=address"], &[], "use-after-poison", PLANTED);
}

#[test]
fn thread_sanitizer_reports_a_planted_race() {
    check_planted(&["-fsanitize=thread"], &[], "data race", &["race"]);
}

#[test]
fn memcheck_reports_planted_errors() {
    if !is_installed("valgrind") {
        return println!("SKIPPED memcheck_reports_planted_errors: no valgrind");
    }
    check_planted(&[], &["valgrind", "--quiet", "--error-exitcode=3"], "Invalid", PLANTED);
}
