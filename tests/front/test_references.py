# SPDX-License-Identifier: BSD-2-Clause
"""References of the tree resolve: file names, paths, Markdown links, source keys; README keeps its limits.

Prose is the comments and docstrings of code (Python, C, BPF, bpftrace, shell, make, TOML), and Markdown.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path, PurePosixPath

import pytest

TREE = Path(__file__).resolve().parents[2]
README_LINES = 130
README_COLUMNS = 100
# A file name with one of the tree's suffixes, with or without folders; {a,b} and * stand for several.
_NAME = re.compile(
    r"(?<![\w./*$~{<>:@%-])((?:\.\./)*(?:[\w.*{},-]+/)*(?!\.)[\w.*{},-]*\w\.(?:py|bpf\.c|c|h|sh|bt|md|toml|j2))(?![\w/])"
)
# A folder of the tree and something in it, with or without a suffix.
_PATH = re.compile(
    r"(?<![\w./*$~{<>@%-])((?:analysis|bpf|collectors|workloads|tests|docs)/[\w.*{},/-]*[\w*}/])(?![\w$<])"
)
_KEY = re.compile(r"(?<![\w/-])((?:bryant|stepan|btrfs|webcache|gus|barford|lockmeter)(?:19|20)\d\d)(?!\w)")
_LINK = re.compile(r"(?<!\\)\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
# Folders of the Linux kernel's and of xfsprogs' sources: prose cites files below them.
_KERNEL = {
    "arch",
    "asm",
    "asm-generic",
    "block",
    "drivers",
    "fs",
    "include",
    "kernel",
    "lib",
    "linux",
    "mkfs",
    "mm",
    "net",
}
# Files of the kernel, libbpf and libc that prose cites by name alone.
OF_OTHERS = {
    "dirent.h", "perf_event.h", "bpf_tracing.h", "bpf_helper_defs.h", "vmlinux.h", "rwsem.c",
}  # fmt: skip
UNKNOWN_ON_PURPOSE = {"btrfs2008"}  # tests of messages about names that do not exist


@cache
def tracked() -> tuple[str, ...]:
    """All files of the tree that git has, or would take."""
    git = ["git", "-c", f"safe.directory={TREE}", "ls-files", "-z"]
    options = ["--cached", "--others", "--exclude-standard"]
    done = subprocess.run([*git, *options], cwd=TREE, capture_output=True, check=True)
    return tuple(name for name in done.stdout.decode().split("\0") if name and (TREE / name).is_file())


@cache
def known() -> tuple[frozenset[str], frozenset[str]]:
    """Every file and folder of the tree by path, and every file by its name alone."""
    paths = set(tracked())
    for name in tracked():
        paths |= {str(folder) for folder in PurePosixPath(name).parents}
    return frozenset(paths), frozenset(PurePosixPath(name).name for name in tracked())


def prose(name: str) -> str:
    """Return the comments and docstrings of a file; all of a Markdown file but its code blocks; else ''."""
    text = (TREE / name).read_text(errors="replace")
    path = PurePosixPath(name)
    if path.suffix == ".md":
        return re.sub(r"(?m)^(?:    |\t).*$|```[\s\S]*?```", "", text)
    if path.suffix == ".py":
        return "\n".join(_python(text))
    if path.suffix in (".c", ".h"):
        return "\n".join(re.findall(r"/\*[\s\S]*?\*/|//[^\n]*", re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', text)))
    if path.suffix == ".bt":
        return "\n".join(re.findall(r"(?m)^\s*//.*$", text))
    if path.suffix in (".sh", ".toml", ".mix", ".mixes") or path.name in ("Makefile", "run", ".gitignore"):
        return "\n".join(re.findall(r"(?m)(?:^|\s)#[^!].*$", text))
    return ""


def _python(text: str) -> Iterator[str]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield ast.get_docstring(node, clean=False) or ""


def alternatives(name: str) -> list[str]:
    """Return what a{b,c}d stands for: abd, acd."""
    found = re.search(r"\{([^{}]*)\}", name)
    if not found:
        return [name]
    return [
        each
        for part in found[1].split(",")
        for each in alternatives(name[: found.start()] + part + name[found.end() :])
    ]


def resolves(reference: str, source: str) -> bool:
    """Whether a reference of the file source names something in the tree.

    A path counts from the root of the tree or from the folder of source; a name alone may be anywhere.
    """
    paths, names = known()
    for name in alternatives(reference.rstrip("/")):
        bare = name.removeprefix("./")
        below = _normal(PurePosixPath(source).parent / bare)
        candidates = {bare, below}
        if bare in OF_OTHERS or _is_placeholder(bare):
            continue
        if candidates & paths or ("/" not in bare and bare in names):
            continue
        if any(path.endswith("/" + bare) for path in paths):
            continue
        if "*" in bare and any(fnmatch(path, pattern) for pattern in candidates for path in paths):
            continue
        if "*" in bare and "/" not in bare and any(fnmatch(path, bare) for path in names):
            continue
        first, _, rest = bare.partition("/")
        if rest and first in _KERNEL and bare.endswith((".c", ".h")):
            continue
        return False
    return True


def _is_placeholder(name: str) -> bool:
    """Whether a name stands for any: collectors/NAME/collector.py, test_WHAT.py."""
    return re.search(r"[A-Z]{3,}", name) is not None and not name.endswith(".md")


def _normal(path: PurePosixPath) -> str:
    parts: list[str] = []
    for part in path.parts:
        if part == ".." and parts:
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def test_every_file_cited_in_prose_exists() -> None:
    wrong = []
    for source in tracked():
        text = prose(source)
        for reference in sorted({*_NAME.findall(text), *_PATH.findall(text)}):
            if not resolves(reference, source):
                wrong.append(f"{source}: {reference}")
    assert not wrong, "\n".join(wrong)


def test_every_relative_link_resolves() -> None:
    wrong = []
    for source in tracked():
        if source.endswith(".md"):
            for link in _LINK.findall((TREE / source).read_text()):
                if "://" not in link and not (TREE / source).parent.joinpath(link).exists():
                    wrong.append(f"{source}: {link}")
    assert not wrong, "\n".join(wrong)


def test_every_source_key_is_in_sources_md() -> None:
    page = (TREE / "docs/SOURCES.md").read_text()
    keys = set(re.findall(r"(?m)^\| `([a-z0-9]+)` \|", page))
    wrong = []
    for source in tracked():
        if (TREE / source).suffix in (".gz", ".png", ".svg"):
            continue
        for key in sorted(set(_KEY.findall((TREE / source).read_text(errors="replace")))):
            if key not in keys | UNKNOWN_ON_PURPOSE:
                wrong.append(f"{source}: {key}")
    assert not wrong, "\n".join(wrong)


def test_readme_is_at_most_130_lines_of_100_columns() -> None:
    lines = (TREE / "README.md").read_text().splitlines()
    assert len(lines) <= README_LINES
    assert [line for line in lines if len(line) > README_COLUMNS] == []


@pytest.mark.parametrize("name", ["README.md", "docs/README.md"])
def test_index_page_names_every_page_of_docs(name: str) -> None:
    text = (TREE / name).read_text()
    pages = {PurePosixPath(page).name for page in tracked() if fnmatch(page, "docs/*.md")} - {"README.md"}
    assert [page for page in sorted(pages) if page not in text] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see measures/block/seeks.py for it", ["measures/block/seeks.py"]),
        ("`hold_state.h` (open holds)", ["hold_state.h"]),
        ("raw/recorder/*.rec and run.json", []),
        ("../generators/pgmeter.c", ["../generators/pgmeter.c"]),
        ("/usr/include/linux/foo.h", []),
        ("https://example.org/page.md", []),
    ],
)
def test_file_name_pattern_matches_file_names_only(text: str, expected: list[str]) -> None:
    assert _NAME.findall(text) == expected
