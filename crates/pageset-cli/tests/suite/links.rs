//! Links in the documentation have a target: a file of the repository, and a heading in that file.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// Folders without documentation of ours.
const SKIPPED: [&str; 3] = ["target", ".git", "data"];

fn documents(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let (name, kind) = (entry.file_name().into_string().unwrap(), entry.file_type().unwrap());
        if kind.is_dir() && !SKIPPED.contains(&name.as_str()) {
            documents(&entry.path(), found);
        } else if kind.is_file() && name.ends_with(".md") {
            found.push(entry.path());
        }
    }
}

/// The destinations of a document's links, and the anchors of its headings.
fn links_and_anchors(text: &str) -> (Vec<String>, Vec<String>) {
    let (mut links, mut anchors, mut heading) = (Vec::new(), Vec::new(), None::<String>);
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                links.push(dest_url.into_string())
            }
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => anchors.push(anchor(&heading.take().unwrap_or_default())),
            Event::Text(text) | Event::Code(text) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&text);
                }
            }
            _ => {}
        }
    }
    (links, anchors)
}

/// The anchor that common forges derive from a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase();
    kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).collect::<String>().replace(' ', "-")
}

#[test]
fn every_link_has_a_target() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let mut files = Vec::new();
    documents(&root, &mut files);
    assert!(files.len() > 20, "{} documents", files.len());
    let documents: HashMap<PathBuf, (Vec<String>, Vec<String>)> = files
        .into_iter()
        .map(|path| {
            let parts = links_and_anchors(&fs::read_to_string(&path).unwrap());
            (path, parts)
        })
        .collect();
    let (mut broken, mut seen) = (Vec::new(), 0);
    for (path, (links, own)) in &documents {
        let inside = links.iter().filter(|link| !link.contains("://") && !link.starts_with("mailto:"));
        for link in inside {
            seen += 1;
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = path.parent().unwrap().join(file);
            let anchors = match target.canonicalize() {
                _ if file.is_empty() => Some(own),
                Ok(target) => match documents.get(&target) {
                    Some((_, anchors)) => Some(anchors),
                    None if anchor.is_empty() => continue,
                    None => None,
                },
                Err(_) => None,
            };
            if anchors.is_none_or(|anchors| !anchor.is_empty() && !anchors.iter().any(|known| known == anchor)) {
                broken.push(format!("{}: {link}", path.strip_prefix(&root).unwrap().display()));
            }
        }
    }
    assert!(seen > 100, "{seen} links");
    broken.sort();
    assert!(broken.is_empty(), "links without a target:\n{}", broken.join("\n"));
}

#[test]
fn links_and_headings_are_found() {
    let (links, anchors) =
        links_and_anchors("# Rules of `6.18`, and *why*\n\n[a](b.md#c) ![d](e.svg)\n\n```\n[f](g)\n```\n");
    assert_eq!(links, ["b.md#c", "e.svg"]);
    assert_eq!(anchors, ["rules-of-618-and-why"]);
}
