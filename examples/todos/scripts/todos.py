#!/usr/bin/env python3
"""Lists the TODO, FIXME and XXX notes of a project."""

import collections
import os
import re
import sys

NOTE = re.compile(r"\b(TODO|FIXME|XXX)\b[:( ]*(.*)")
LARGEST = 1 << 20


def files(top):
    for where, dirs, names in os.walk(top):
        dirs[:] = sorted(d for d in dirs if not d.startswith(".") and d not in ("node_modules", "__pycache__"))
        for name in sorted(names):
            path = os.path.join(where, name)
            if os.path.isfile(path) and not os.path.islink(path) and os.path.getsize(path) <= LARGEST:
                yield path


def notes(path):
    try:
        with open(path, encoding="utf-8") as f:
            for number, line in enumerate(f, 1):
                found = NOTE.search(line)
                if found:
                    yield number, found.group(1), found.group(2).strip()
    except (UnicodeDecodeError, PermissionError):
        return  # it is no text, or not ours


def main():
    top = sys.argv[1] if len(sys.argv) > 1 else "."
    kinds = collections.Counter()
    for path in files(top):
        for number, kind, text in notes(path):
            kinds[kind] += 1
            print(f"{os.path.relpath(path, top)}:{number}: {kind}: {text}")
    print(", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items())) or "nothing is left to do")


if __name__ == "__main__":
    main()
