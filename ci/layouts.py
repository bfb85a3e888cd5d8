#!/usr/bin/env python3
"""How often the allocator asks for one of its layouts outside the layout's own files: lines and files, per layout.

    python3 ci/layouts.py [--most LINES] [--list]     # exit code 1 above LINES; --list prints each line

A place is a line of code that reads a field or calls a method of a layout, or a rule that switches it on. Comments, imports,
definitions and tests do not count, nor do the folders `store` and `policy`.
"""
import argparse
import re
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "crates/pageset/src"
# A layout: its own files, and the names of fields, methods and modules that ask for it.
LAYOUTS = {
    "bitmaps": (["zone/bitmaps", "zone/parts"], r"\w*bitmap\w*|free_whole|unlocked_pages|take_parts|take_whole|found_in|is_part|finish_moves|part_pages|has_parts|hides|Parts|Moves"),
    "regions": (
        ["zone/region"],
        r"regions|region_of|region_order|region_end|regions_from|pieces|lock_at|lock_each|"
        r"take_from_regions?|lock_region|try_lock_region|free_to_regions|free_own",
    ),
    "research": (
        ["research/", "zone/research", "pcp/research"],
        r"owners|owner_pages|waiting|remote|absorb|keeper|free_to_owner|claim_blocks|merge_blocks|merge_in|"
        r"take_fit|claimed_blocks|own_parts|audit_waiting|has_waiting|end_ownership|refill_by_claims|"
        r"nothing_waits|end_drain|check_owners|has_owners|merges_in_pageset|"
        r"clusters|in_flight|skips_merge|skips_merged|merge_skip|merge_skipped|wait_for_refills|put_in_cluster|"
        r"remove_from_cluster|refill_from_clusters|drain_by_old_rules|steal_before_615|count_skips|research|check_clusters|"
        r"note_put|put_unmerged|without_waiters|drain_by_research|has_skipped|is_at_rest|check_research|research_counts",
    ),
    "depot": (["zone/depot"], r"\w*depots?|depot_\w+|Batches"),
}


def places(own, names):
    """The lines that ask for a layout: file, number, text."""
    asks = re.compile(rf"(?:\.|::)(?:{names})\b")
    for path in sorted(SOURCE.rglob("*.rs")):
        name = str(path.relative_to(SOURCE))
        if name.startswith(("store/", "policy/", "models")) or "tests" in name or any(name.startswith(o) for o in own):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if line.startswith(("#[cfg(test)]", "#[cfg(all(test")):
                break
            code = re.sub(r'"[^"]*"', "", line).split("//")[0]
            if not re.match(r"\s*(pub(\(\w+\))? )?(use|mod) ", code) and asks.search(code):
                yield name, number, line.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--most", type=int, metavar="LINES", help="fail above so many lines")
    parser.add_argument("--list", action="store_true", help="print each line")
    arguments = parser.parse_args()
    everything = 0
    for layout, (own, names) in LAYOUTS.items():
        found = list(places(own, names))
        everything += len(found)
        print(f"{layout:20} {len(found):4} lines {len({name for name, _, _ in found}):4} files")
        if arguments.list:
            for name, number, line in found:
                print(f"    {name}:{number}: {line}")
    print(f"{'all':20} {everything:4} lines")
    return arguments.most is not None and everything > arguments.most


if __name__ == "__main__":
    sys.exit(main())
