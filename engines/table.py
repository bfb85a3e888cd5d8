#!/usr/bin/env python3
"""The table of engines/README.md: table.py speedtest1.csv shrink.csv."""
import csv
import statistics
import sys

speed, shrink = (list(csv.DictReader(open(path))) for path in sys.argv[1:3])


def middle(rows, key):
    return statistics.median(float(row[key]) for row in rows)


def rate(rows):
    """Thousand calls in a second of CPU time."""
    return sum(int(row["calls"]) for row in rows) / sum(int(row["cpu_ms"]) for row in rows)


print("| cache | speed test, CPU s | thousand calls per CPU s: all | a tenth | resident at the end |")
print("| --- | --: | --: | --: | --: |")
for threads in "1", "2":
    for cache in dict.fromkeys(row["cache"] for row in speed):
        here = [row for row in shrink if row["cache"] == cache and row["threads"] == threads]
        # The second half of each phase: the first fills the cache.
        phases = [[row for row in here if row["phase"] == phase] for phase in ("all", "tenth")]
        full, tenth = (rows[len(rows) // 2 :] for rows in phases)
        seconds = f"{middle([row for row in speed if row['cache'] == cache], 'cpu_seconds'):.2f}" if threads == "1" else ""
        last = here[-1]
        ratio = int(last["resident_bytes"]) / int(last["working_set_bytes"])
        print(
            f"| {cache}, {threads} thread{'s' * (threads == '2')} | {seconds} | {rate(full):,.0f} "
            f"| {rate(tenth):,.0f} | {int(last['resident_bytes']) / 2**20:.0f} MiB, {ratio:.2f} x |"
        )
