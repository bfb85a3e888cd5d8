"""Reads a study's table as its users do, and checks its Kubernetes manifest against the published schema.

Usage: study-readers.py TABLE MANIFEST CELLS. Every reader has to see the
same rows, machines and sums of three columns, and the schema has to refuse broken manifests.
"""

import copy
import json
import sys

import duckdb
import kubernetes_validate
import pandas
import polars

# Columns whose sums the readers compare: a score, a count and a value of `[set]`.
COLUMNS = ["score", "operations", "set_batch"]
KUBERNETES = "1.33"


def readers(table):
    """The number of rows, the sorted machines and the sums of columns, by reader."""
    sums = ", ".join(f"sum({name})" for name in COLUMNS)
    machines = duckdb.sql(f"select machine from '{table}' order by all").fetchall()
    totals = duckdb.sql(f"select {sums} from '{table}'").fetchall()[0]
    yield "duckdb", len(machines), [machine for machine, in machines], list(totals)
    frame = pandas.read_parquet(table)
    yield "pandas", len(frame), sorted(frame["machine"]), [frame[name].sum() for name in COLUMNS]
    frame = polars.read_parquet(table)
    yield "polars", len(frame), sorted(frame["machine"]), [frame[name].sum() for name in COLUMNS]


def is_valid(item):
    """Whether an object follows the schema of its kind, without unknown keys."""
    try:
        kubernetes_validate.validate(item, KUBERNETES, strict=True)
    except kubernetes_validate.ValidationError:
        return False
    return True


def broken(job):
    """Jobs that a cluster refuses: an unknown key, a number as text, a missing name, a rule without its action."""
    for path, value in [
        (["spec", "completionsMode"], "Indexed"),
        (["spec", "completions"], "eight"),
        (["spec", "template", "spec", "containers", 0, "name"], None),
        (["spec", "podFailurePolicy", "rules", 0, "action"], None),
    ]:
        wrong = copy.deepcopy(job)
        at = wrong
        for key in path[:-1]:
            at = at[key]
        if value is None:
            del at[path[-1]]
        else:
            at[path[-1]] = value
        yield ".".join(map(str, path)), wrong


def main(table, manifest, cells):
    seen = list(readers(table))
    (_, rows, machines, sums), rest = seen[0], seen[1:]
    assert rows == int(cells), f"{rows} rows in the table of {cells} cells"
    for name, other_rows, other_machines, other_sums in rest:
        near = all(abs(a - b) <= 1e-9 * abs(a) for a, b in zip(sums, other_sums))
        assert (other_rows, other_machines) == (rows, machines) and near, f"{name} and duckdb differ: {seen}"
    print(f"{rows} rows read by {', '.join(name for name, *_ in seen)}: the same machines and sums")
    with open(manifest) as file:
        items = json.load(file)["items"]
    for item in items:
        assert is_valid(item), f"the schema of Kubernetes {KUBERNETES} refuses the {item['kind']}"
    job = next(item for item in items if item["kind"] == "Job")
    wrong = list(broken(job))
    for path, item in wrong:
        assert not is_valid(item), f"the schema accepts a Job with a broken {path}"
    kinds = ", ".join(item["kind"] for item in items)
    print(f"{kinds} follow the schema of Kubernetes {KUBERNETES}, which refuses {len(wrong)} broken Jobs")


main(*sys.argv[1:])
