"""Asks Prometheus whether it has scraped `pageset top`, evaluates the rules, and answers the dashboard's queries.

Usage: monitoring.py URL DASHBOARD.json
"""

import json
import re
import sys
import time
import urllib.parse
import urllib.request

url, dashboard = sys.argv[1:]


def get(path, **query):
    with urllib.request.urlopen(f"{url}/api/v1/{path}?{urllib.parse.urlencode(query)}", timeout=10) as answer:
        return json.load(answer)["data"]


def wait_for(what, of, seconds=60):
    end = time.monotonic() + seconds
    while True:
        try:
            found = of()
            if found:
                return found
        except OSError as error:
            found = error
        if time.monotonic() > end:
            sys.exit(f"error: no {what} after {seconds} s: {found}")
        time.sleep(0.5)


wait_for("scrape", lambda: any(target["health"] == "up" for target in get("targets")["activeTargets"]))


def rules():
    all = [rule for group in get("rules")["groups"] for rule in group["rules"]]
    bad = [rule for rule in all if rule["health"] == "err"]
    if bad:
        sys.exit(f"error: a rule fails: {bad[0]['name']}: {bad[0]['lastError']}")
    return all if all and all_ok(all) else None


def all_ok(all):
    return all[0]["health"] == "ok" and {rule["health"] for rule in all} == {"ok"}


count = len(wait_for("evaluation of the rules", rules))
# Rates need two scrapes.
names = wait_for("metrics", lambda: (n := get("label/__name__/values")) and "pageset_kernel_info" in n and n)

with open(dashboard, encoding="utf-8") as file:
    board = json.load(file)
known = {variable["name"] for variable in board["templating"]["list"]}
queries = 0
places = set()
for panel in board["panels"]:
    place = (panel["gridPos"]["x"], panel["gridPos"]["y"])
    if place in places or not panel["title"] or not panel["description"]:
        sys.exit(f"error: the panel `{panel['title']}` has no title, no description, or the place of another one")
    places.add(place)
    for target in panel["targets"]:
        query = target["expr"]
        used = set(re.findall(r"\$\{?(\w+)", query)) - {"__rate_interval"}
        if used - known:
            sys.exit(f"error: unknown variables {used - known} in the panel `{panel['title']}`")
        query = query.replace("$__rate_interval", "1m").replace("$instance", ".*")
        # An unknown function or a syntax error is an HTTP error.
        get("query", query=query)
        for name in re.findall(r"pageset_\w+", query):
            # Waits are missing where the kernel has no BPF for us.
            if name not in names and "zone_lock_wait" not in name:
                sys.exit(f"error: the panel `{panel['title']}` asks for {name}, which `top` does not have")
        queries += 1
print(f"prometheus: {count} rules evaluated, {queries} queries of the dashboard answered")
