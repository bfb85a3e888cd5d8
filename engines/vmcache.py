#!/usr/bin/env python3
"""The table and the pictures of engines/README.md for vmcache: vmcache.py FOLDER reads vmcache.csv and vmcache-resident.csv there."""
import csv
import math
import statistics
import sys

folder = sys.argv[1]
phases, samples = (list(csv.DictReader(open(f"{folder}/{name}.csv"))) for name in ("vmcache", "vmcache-resident"))
memories = list(dict.fromkeys(row["memory"] for row in phases))
COLOURS = ["#1f77b4", "#17becf", "#d62728", "#9467bd", "#2ca02c", "#7f7f7f"]


def values(threads, memory, phase, value):
    return [value(row) for row in phases if (row["threads"], row["memory"], row["phase"]) == (threads, memory, phase)]


def rate(row):
    """Thousand fixes in a second of CPU time."""
    return int(row["fixes"]) / int(row["cpu_ms"])


def us(name):
    return lambda row: int(row[name]) / 1000


def ratio(row):
    return int(row["resident_bytes"]) / int(row["budget_bytes"])


def cell(found, digits):
    """The median, and the smallest and the largest."""
    return f"{statistics.median(found):,.{digits}f} ({min(found):,.{digits}f} to {max(found):,.{digits}f})"


print("| memory | thousand fixes per CPU s: all | a tenth | p50, all, µs | p99 | p99.9 | resident at the end / budget |")
print("| --- | --: | --: | --: | --: | --: | --: |")
for threads in "1", "2":
    for memory in memories:
        of = lambda phase, value: values(threads, memory, phase, value)
        middle = lambda name: f"{statistics.median(of('all', us(name))):,.2f}"
        print(
            f"| {memory}, {threads} thread{'s' * (threads == '2')} | {cell(of('all', rate), 0)} | {cell(of('tenth', rate), 0)} "
            f"| {middle('p50_ns')} | {middle('p99_ns')} | {middle('p999_ns')} | {cell(of('tenth', ratio), 2)} |"
        )


class Picture:
    """An SVG of one panel for each number of threads, with axes and a legend."""

    def __init__(self, title):
        self.parts = [
            '<svg xmlns="http://www.w3.org/2000/svg" width="900" height="380" viewBox="0 0 900 380" font-family="sans-serif" font-size="12">',
            '<rect width="900" height="380" fill="white"/>',
            f'<text x="450" y="22" text-anchor="middle" font-size="15">{title}</text>',
        ]
        for at, memory in enumerate(memories):
            self.text(90 + 140 * at, 368, memory, "start")
            self.parts.append(f'<rect x="{70 + 140 * at}" y="358" width="14" height="10" fill="{COLOURS[at]}"/>')

    def text(self, x, y, text, anchor="middle"):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>')

    def axes(self, left, title, labels, value_at):
        self.text(left + 190, 48, title)
        for at in range(5):
            y = 310 - 245 * at / 4
            self.parts.append(f'<path d="M{left} {y:.1f}h380" stroke="#ddd"/>')
            self.text(left - 5, y + 4, f"{value_at(at / 4):,.3g}", "end")
        for x, label in labels:
            self.text(left + x, 328, label)

    def write(self, name):
        open(f"{folder}/{name}.svg", "w").write("\n".join(self.parts + ["</svg>"]) + "\n")


def bars(name, title, measure, shown, low_end=None):
    """With a low end, the scale is logarithmic. Medians of a measure, in groups of a phase, with the smallest and the largest as a line."""
    picture = Picture(title)
    for panel, threads in enumerate("12"):
        left = 60 + 440 * panel
        groups = [[values(threads, memory, phase, value) for memory in memories] for _, phase, value in shown]
        top = 1.05 * max(max(found) for group in groups for found in group)
        width = 380 / len(groups)
        labels = [(width * (at + 0.5), label) for at, (label, _, _) in enumerate(shown)]
        if low_end:
            part = lambda value: math.log(value / low_end) / math.log(top / low_end)
            value_at = lambda at: low_end * (top / low_end) ** at
        else:
            part, value_at = lambda value: value / top, lambda at: top * at
        picture.axes(left, f"{threads} thread{'s' * panel}: {measure}", labels, value_at)
        for at, group in enumerate(groups):
            for bar, found in enumerate(group):
                wide = (width - 20) / len(memories)
                x = left + width * at + 10 + wide * bar
                low, high, height = (245 * part(value) for value in (min(found), max(found), statistics.median(found)))
                picture.parts.append(
                    f'<rect x="{x:.1f}" y="{310 - height:.1f}" width="{wide - 2:.1f}" height="{height:.1f}" fill="{COLOURS[bar]}"/>'
                    f'<path d="M{x + wide / 2 - 1:.1f} {310 - high:.1f}V{310 - low:.1f}" stroke="black"/>'
                )
    picture.write(name)


def curves(name, title):
    """Resident memory over time, of the first round."""
    picture = Picture(title)
    mine = [row for row in samples if row["round"] == samples[0]["round"]]
    right = max(int(row["ms"]) for row in mine)
    top = max(int(row["resident_bytes"]) for row in mine) / 2**20 * 1.05
    for panel, threads in enumerate("12"):
        left = 60 + 440 * panel
        labels = [(380 * at / 4, f"{right * at / 4000:.1f} s") for at in range(5)]
        picture.axes(left, f"{threads} thread{'s' * panel}: MiB", labels, lambda at: top * at)
        lines = [(memory, "resident_bytes", COLOURS[at]) for at, memory in enumerate(memories)]
        for memory, key, colour in [*lines, (memories[0], "budget_bytes", "black")]:
            points = " ".join(
                f"{left + 380 * int(row['ms']) / right:.1f},{310 - 245 * int(row[key]) / 2**20 / top:.1f}"
                for row in mine
                if (row["memory"], row["threads"]) == (memory, threads)
            )
            dash = ' stroke-dasharray="4 3"' if key == "budget_bytes" else ""
            picture.parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"{dash}/>')
    picture.write(name)


rates = [("all", "all", rate), ("a tenth", "tenth", rate)]
bars("vmcache-throughput", "Fixes of a buffer manager", "thousand fixes per CPU second", rates)
tails = [(label, "all", us(key)) for label, key in (("p50", "p50_ns"), ("p99", "p99_ns"), ("p99.9", "p999_ns"))]
bars("vmcache-latency", "Time of a fix, working set 1.25 times the budget", "µs, logarithmic", tails, 0.01)
curves("vmcache-resident", "Resident memory of the process; dashed: the budget")
