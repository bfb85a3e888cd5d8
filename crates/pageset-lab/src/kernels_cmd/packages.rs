//! Debian packages: the tools of the lab, and kernels of other releases, which it unpacks but does not install.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::definition::{Kernel, Lab, Root, matches};
use super::tool::{at, output, remove_tree, run, write_whole};

const TOOLS: [&str; 5] = ["qemu-system-x86", "busybox-static", "e2fsprogs", "xz-utils", "mmdebstrap"];
/// The additional tools for arm64 kernels.
const ARM_TOOLS: [&str; 3] = ["qemu-system-arm", "gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"];

/// Installs missing tools, and those for arm64 only if a kernel needs them.
pub(super) fn install(kernels: &[&Kernel]) -> Result<Vec<&'static str>, String> {
    let arm = kernels.iter().any(|kernel| kernel.arch() == "arm64");
    let wanted = TOOLS.iter().chain(ARM_TOOLS.iter().filter(|_| arm));
    let missing: Vec<_> = wanted.copied().filter(|tool| run("dpkg", ["-s", tool]).is_err()).collect();
    if !missing.is_empty() {
        run("apt-get", ["update"])?;
        output(
            Command::new("apt-get")
                .args(["install", "-y", "--no-install-recommends"])
                .args(&missing)
                .env("DEBIAN_FRONTEND", "noninteractive"),
        )
        .map_err(|e| format!("{e}; try as root: apt-get install {}", missing.join(" ")))?;
    }
    if arm {
        run("rustup", ["target", "add", "aarch64-unknown-linux-gnu"])?;
    }
    Ok(missing)
}

/// apt with separate lists and sources, so that those of the machine do not change.
pub(super) struct Apt {
    root: PathBuf,
    names: Vec<String>,
}

impl Apt {
    /// Reads the lists of `suites` from the mirror that the machine uses.
    pub(super) fn new(root: &Path, suites: &[String]) -> Result<Apt, String> {
        for folder in ["lists/partial", "debs"] {
            at(root, fs::create_dir_all(root.join(folder)))?;
        }
        write_whole(&root.join("sources.list"), sources(&machine_sources()?, suites)?)?;
        let here = |name: &str| root.join(name).display().to_string();
        let conf = format!(
            "Dir::Etc::sourcelist \"{}\";\nDir::Etc::sourceparts \"-\";\nDir::State::lists \"{}\";\n\
             Dir::Cache::pkgcache \"\";\nDir::Cache::srcpkgcache \"\";\nAPT::Architectures {{ \"amd64\"; \"arm64\"; }};\n\
             Acquire::Languages \"none\";\nAPT::Sandbox::User \"root\";\n",
            here("sources.list"),
            here("lists")
        );
        write_whole(&root.join("apt.conf"), conf)?;
        let mut apt = Apt { root: root.to_owned(), names: Vec::new() };
        apt.apt("apt-get", &["update"])?;
        apt.names = apt.apt("apt-cache", &["pkgnames", "linux-"])?.lines().map(Into::into).collect();
        Ok(apt)
    }

    fn apt(&self, program: &str, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new(program);
        output(
            command.args(arguments).env("APT_CONFIG", self.root.join("apt.conf")).current_dir(self.root.join("debs")),
        )
    }

    pub(super) fn unpack(&self, package: &str, arch: &str, to: &Path) -> Result<(), String> {
        self.apt("apt-get", &["download", &format!("{package}:{arch}")])?;
        let debs = self.root.join("debs");
        let mut files = at(&debs, fs::read_dir(&debs))?.flatten().map(|entry| entry.path());
        let of_package = |path: &PathBuf| path.to_string_lossy().contains(&format!("/{package}_"));
        let deb = files.find(of_package).ok_or_else(|| format!("package {package} was not downloaded"))?;
        at(to, fs::create_dir_all(to))?;
        output(Command::new("dpkg-deb").arg("-x").args([&deb, to]))?;
        at(&deb, fs::remove_file(&deb))
    }

    /// Unpacks the newest package of a kernel, and the packages of its image and modules. Returns its release.
    pub(super) fn kernel(&self, kernel: &Kernel, to: &Path) -> Result<String, String> {
        let image = newest(&kernel.image, &self.names)
            .ok_or_else(|| format!("no package matches {}; try another suite in lab.toml", kernel.image))?;
        let release = &image["linux-image-".len()..];
        for kind in ["image", "binary", "modules"] {
            let package = format!("linux-{kind}-{release}");
            if self.names.contains(&package) {
                self.unpack(&package, kernel.arch(), to)?;
            }
        }
        Ok(release.to_owned())
    }
}

/// Lines `URI SUITE`: the package sources of this machine.
fn machine_sources() -> Result<String, String> {
    run("apt-get", ["indextargets", "--format", "$(REPO_URI) $(RELEASE)", "Created-By: Packages"])
}

/// Unpacks a suite with packages below `tree`. It mounts the machine's devices there, in a namespace of its own: so they are gone after
/// a kill, and nobody removes them with the tree.
fn bootstrap(suite: &str, packages: &str, tree: &Path, list: &Path) -> Result<(), String> {
    let mut command = Command::new("unshare");
    command.args([
        "--mount",
        "mmdebstrap",
        "--mode=root",
        "--variant=minbase",
        &format!("--include={packages}"),
        suite,
    ]);
    output(command.args([tree, list])).map(drop)
}

/// The image of the root file system, which is built if it is missing. A changed list of packages takes a removed image.
pub(super) fn root_image(root: &Root, dir: &Path) -> Result<PathBuf, String> {
    let image = dir.join("root.ext4");
    if image.exists() {
        return Ok(image);
    }
    let [list, tree, part] = ["root.list", "root", "root.part"].map(|name| dir.join(name));
    write_whole(&list, sources(&machine_sources()?, &root.suites)?)?;
    remove_tree(&tree)?;
    bootstrap(root.suites.first().map_or("", String::as_str), &root.packages.join(","), &tree, &list)?;
    let _ = fs::remove_file(&part);
    output(Command::new("mke2fs").args(["-q", "-t", "ext4", "-d"]).args([&tree, &part]).arg("6G"))?;
    remove_tree(&tree)?;
    at(&image, fs::rename(&part, &image))?;
    Ok(image)
}

/// `sources.list` for the suites, from the lines `URI SUITE` that the machine's apt prints.
fn sources(targets: &str, suites: &[String]) -> Result<String, String> {
    let pairs = || targets.lines().filter_map(|line| line.split_once(' '));
    let archive = pairs().find(|(_, suite)| !suite.contains('-')).map(|(uri, _)| uri);
    let security = pairs().find(|(_, suite)| suite.ends_with("-security")).map(|(uri, _)| uri);
    let line = |suite: &String| {
        let uri = if suite.ends_with("-security") { security } else { archive };
        let uri = uri.ok_or_else(|| format!("this machine's apt has no source for suite {suite}; add one to it"))?;
        // The release file of the oldest suite may have expired.
        Ok(format!("deb [check-valid-until=no] {uri} {suite} main\n"))
    };
    suites.iter().map(line).collect()
}

/// The newest of the names that match. `*` stands for anything but `-`.
fn newest<'n>(pattern: &str, names: &'n [String]) -> Option<&'n str> {
    let names = names.iter().filter(|name| matches(pattern, name, |c| c != '-'));
    names.max_by_key(|name| version_key(name)).map(String::as_str)
}

/// A sort key that compares the numbers in a name by value: pairs of a text and the number after it.
fn version_key(name: &str) -> Vec<(String, u64)> {
    let mut key = vec![(String::new(), 0u64)];
    let mut in_number = false;
    for c in name.chars() {
        let digit = c.to_digit(10);
        if in_number && digit.is_none() {
            key.push((String::new(), 0));
        }
        in_number = digit.is_some();
        let part = key.last_mut().expect("the key starts with one part");
        match digit {
            Some(digit) => part.1 = part.1.saturating_mul(10).saturating_add(digit.into()),
            None => part.0.push(c),
        }
    }
    key
}

/// An unpacked kernel.
pub(super) struct Unpacked {
    pub(super) image: PathBuf,
    pub(super) modules: PathBuf,
}

/// Downloads every missing kernel. Prints a line for each that fails.
pub(super) fn fetch(
    lab: &Lab,
    kernels: &[&Kernel],
    dir: &Path,
    again: bool,
    say: &mut dyn FnMut(String),
) -> Result<(), String> {
    let missing: Vec<_> = kernels.iter().filter(|kernel| again || unpacked(dir, &kernel.name).is_err()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    say("reading package lists".into());
    let apt = Apt::new(&dir.join("apt"), &lab.suites)?;
    for (index, kernel) in missing.iter().enumerate() {
        say(format!("kernel {} ({} of {})", kernel.name, index + 1, missing.len()));
        let folder = dir.join("kernels").join(&kernel.name);
        remove_tree(&folder)?;
        let release = apt.kernel(kernel, &folder);
        at(&folder, fs::create_dir_all(&folder))?;
        match release {
            Ok(release) => write_whole(&folder.join("release"), release)?,
            Err(reason) => write_whole(&folder.join("reason"), reason)?,
        }
    }
    let compiler = dir.join("tcc");
    if !compiler.exists() {
        // The package comes from the host's suite, so that it runs with the host's C library.
        at(&compiler, fs::create_dir_all(&compiler))?;
        if run("sh", ["-c", &format!("cd '{}' && apt-get download tcc && dpkg-deb -x tcc_*.deb .", compiler.display())])
            .is_err()
        {
            say("no package tcc; workload `compile` will fail".into());
        }
    }
    Ok(())
}

/// A root file system in which a module of a fetched kernel can be built: the headers of its release with the compiler and the tools
/// that they depend on, of its suites. Returns the root, and the folder of the headers in it.
pub(super) fn build_root(kernel: &Kernel, dir: &Path) -> Result<(PathBuf, String), String> {
    let folder = dir.join("kernels").join(&kernel.name);
    let release = at(&folder.join("release"), fs::read_to_string(folder.join("release")))?;
    let headers = format!("linux-headers-{release}");
    let [list, root, complete] = ["build.list", "build", "build.complete"].map(|name| folder.join(name));
    if !complete.exists() {
        remove_tree(&root)?;
        write_whole(&list, sources(&machine_sources()?, &kernel.headers)?)?;
        let suite =
            kernel.headers.first().ok_or_else(|| format!("kernel {} names no suites for headers", kernel.name))?;
        bootstrap(suite, &format!("make,binutils,{headers}"), &root, &list)?;
        // Type information takes tools that a module does without.
        let _ = fs::remove_file(root.join("usr/src").join(&headers).join("vmlinux"));
        write_whole(&complete, "")?;
    }
    Ok((root, format!("/usr/src/{headers}")))
}

/// The kernel of that name, or why it is missing.
pub(super) fn unpacked(dir: &Path, name: &str) -> Result<Unpacked, String> {
    let folder = dir.join("kernels").join(name);
    let release = fs::read_to_string(folder.join("release")).map_err(|_| {
        fs::read_to_string(folder.join("reason")).unwrap_or_else(|_| format!("kernel {name} was not fetched"))
    })?;
    let modules = ["usr/lib/modules", "lib/modules"].map(|path| folder.join(path).join(&release));
    let modules = modules.into_iter().find(|path| path.exists()).unwrap_or_else(|| folder.join("lib/modules"));
    let images = [folder.join(format!("boot/vmlinuz-{release}")), modules.join("vmlinuz")];
    let image = images.into_iter().find(|path| path.exists());
    let image = image.ok_or_else(|| format!("the packages of kernel {name} hold no image"))?;
    Ok(Unpacked { image, modules })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_package() {
        let names = [
            "linux-image-6.12.95+deb12-amd64",
            "linux-image-6.12.117+deb12-amd64",
            "linux-image-6.12.117+deb13-amd64",
            "linux-image-6.12.120+deb13-cloud-amd64",
            "linux-image-6.1.0-9-amd64",
            "linux-image-6.1.0-56-amd64",
            "linux-image-6.1.0-0.deb11.52-amd64",
        ]
        .map(String::from);
        assert_eq!(newest("linux-image-6.12.*-amd64", &names), Some("linux-image-6.12.117+deb13-amd64"));
        assert_eq!(newest("linux-image-6.1.0-*-amd64", &names), Some("linux-image-6.1.0-56-amd64"));
        assert_eq!(newest("linux-image-9.*-amd64", &names), None);
    }

    #[test]
    fn sources_of_the_machines_mirror() {
        let targets = "http://m.example/debian-security/ bookworm-security\nhttp://m.example/debian/ bookworm\n";
        let suites = ["sid", "bullseye-security"].map(String::from);
        let lines = "deb [check-valid-until=no] http://m.example/debian/ sid main\n\
                     deb [check-valid-until=no] http://m.example/debian-security/ bullseye-security main\n";
        assert_eq!(sources(targets, &suites).unwrap(), lines);
        assert!(sources("", &suites).unwrap_err().contains("no source for suite sid"));
    }

    #[test]
    fn a_kernel_that_is_not_there() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(unpacked(dir.path(), "k").err().unwrap(), "kernel k was not fetched");
        let folder = dir.path().join("kernels/k");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("reason"), "no package matches x").unwrap();
        assert_eq!(unpacked(dir.path(), "k").err().unwrap(), "no package matches x");
        fs::write(folder.join("release"), "6.1.0-1-amd64").unwrap();
        assert_eq!(unpacked(dir.path(), "k").err().unwrap(), "the packages of kernel k hold no image");
    }
}
