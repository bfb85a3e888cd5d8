#!/usr/bin/env python3
"""Readability of the hand-written pages and of the comments in the code, per folder: length of sentences, share of long ones,
share in passive voice.

    python3 -m venv target/readability && target/readability/bin/pip install markdown-it-py==4.2.0 pysbd==0.3.4
    target/readability/bin/python ci/readability.py [FILE ...]     # with files: a row per file, long sentences listed

Code blocks, tables and headings are left out. Inline code counts as one word. A list item is at least one sentence.
A sentence is passive when a form of "be" stands before a participle (-ed, or one of the irregular forms below) with at
most one word between; this is the rule of `write-good`, and it also counts states such as "is based on".
"""
import re
import subprocess
import sys
from collections import defaultdict

import pysbd
from markdown_it import MarkdownIt

LONG = 25
IRREGULAR = """begun bent bound bought bred broken brought built burnt caught chosen cleft come cut dealt done drawn
driven drunk eaten fallen fed felt flown forgotten fought found frozen given gone got ground grown had handed heard held
hidden hit hung hurt kept known laid led left lent lit lost made meant met mown overrun paid put read ridden risen rung
run said sawn seen sent set sewn shaken shed shot shown shut slain slept smelt sought spent spilt split spoken spread
spun stolen stood struck stuck sung sunk swept sworn taken taught thought thrown told torn understood woken won worn
wound woven written""".split()
PASSIVE = re.compile(
    r"\b(?:is|are|was|were|be|been|being|isn't|aren't)\s+(?:(?:not|\w+ly|\w+)\s+)?(?:\w+ed|"
    + "|".join(IRREGULAR)
    + r")\b",
    re.IGNORECASE,
)
NOT_PARTICIPLES = re.compile(r"\b(?:is|are|was|were|be|been|being)\s+(?:not\s+)?(?:indeed|need|speed|unlimited)\b", re.I)


def blocks(text):
    """The text of each paragraph and list item, without code, tables and headings."""
    skip = 0
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.type in ("table_open", "heading_open"):
            skip += 1
        elif token.type in ("table_close", "heading_close"):
            skip -= 1
        elif token.type == "inline" and not skip:
            parts = []
            for child in token.children:
                if child.type == "text":
                    parts.append(child.content)
                elif child.type == "code_inline":
                    parts.append("CODE")
                elif child.type in ("softbreak", "hardbreak"):
                    parts.append(" ")
            yield "".join(parts)


def comments(code):
    """The comments of Rust code as Markdown: lines that follow each other with the same marker are one text."""
    marker, lines = None, []
    for line in code.splitlines() + [""]:
        found = re.match(r"\s*(//[/!]?)(?: (.*))?$", line)
        if (found.group(1) if found else None) != marker:
            if marker:
                yield "\n".join(lines)
            marker, lines = found.group(1) if found else None, []
        if found:
            lines.append(found.group(2) or "")


def measure(text, segmenter):
    """For each sentence: its number of words, whether it is passive, and the sentence."""
    for block in blocks(text):
        for sentence in segmenter.segment(block):
            words = re.findall(r"[\w][\w'.,%/+-]*", sentence)
            if words:
                passive = PASSIVE.search(sentence) and not NOT_PARTICIPLES.search(sentence)
                yield len(words), bool(passive), sentence.strip()


def main():
    given = sys.argv[1:]
    files = given or subprocess.check_output(["git", "ls-files", "*.md", "crates/*/src/*.rs"], text=True).split()
    segmenter = pysbd.Segmenter(language="en", clean=False)
    groups = defaultdict(list)
    for file in files:
        if "/tests/" in file:
            continue
        folder = file if given or "/" not in file else file.rsplit("/", 1)[0]
        folder = "crates/*/README.md" if re.fullmatch(r"crates/[\w-]+", folder) else folder
        with open(file, encoding="utf-8") as opened:
            text = opened.read()
        if file.endswith(".rs"):
            folder = file if given else "comments of " + "/".join(file.split("/")[:2])
            for comment in comments(text):
                groups[folder].extend(measure(comment, segmenter))
        else:
            groups[folder].extend(measure(text, segmenter))
    print(f"{'':36} sentences  mean words  over {LONG}  passive")
    groups["all"] = [row for rows in list(groups.values()) for row in rows]
    for folder, rows in groups.items():
        count = max(len(rows), 1)
        print(
            f"{folder:36} {len(rows):9}  {sum(row[0] for row in rows) / count:10.1f}"
            f"  {100 * sum(row[0] > LONG for row in rows) / count:5.1f} %  {100 * sum(row[1] for row in rows) / count:5.1f} %"
        )
    if given:
        for words, passive, sentence in groups["all"]:
            if words > LONG or passive:
                print(f"{words:4} {'passive' if passive else '       '}  {sentence}")


if __name__ == "__main__":
    main()
