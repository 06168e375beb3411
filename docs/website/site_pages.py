"""The pages of the site, gathered in one folder and handed to zensical.

The pages of docs/ are written for a reader of the repository. On the way to the site links to source files become links
to coloured copies of them, `<!-- explorer: name -->` becomes a live graph, a picture is put into its page, and
`<details>` is told that there is Markdown in it.
"""

import os
import re
import shutil
import subprocess
import sys
from html import escape
from pathlib import Path
from time import perf_counter

from reference import reference_pages
from sources import Sources
from sweep import sweep_svg

from pellucid.explorer import examples
from pellucid.explorer.exploration import Exploration

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"
OTHERS = {"ARCHITECTURE.md": "architecture.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
LINK = re.compile(r"(?<!!)\[([^\]\n]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")
EXPLORER = re.compile(r"^<!-- explorer: ([\w-]+) -->$", re.MULTILINE)
PICTURE = re.compile(r"^!\[([^\]]*)\]\(([\w.-]+\.svg)\)$", re.MULTILINE)
FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
PICTURES = {"epsilon-sweep.svg": sweep_svg}


def build(folder: Path) -> Path:
    """Gather the pages in `folder`/docs and build `folder`/site."""
    began = perf_counter()
    pages = folder / "docs"
    gather(pages)
    gathered = perf_counter()
    shutil.copy(DOCS / "zensical.toml", folder / "zensical.toml")
    zensical = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    if subprocess.run(zensical, cwd=folder, check=False).returncode:
        sys.exit("the site was not built: see above")
    print(f"pages gathered in {gathered - began:.1f} s, site built in {perf_counter() - gathered:.1f} s")
    return folder / "site"


def gather(pages: Path) -> None:
    """Everything the site is made of, in one folder."""
    shutil.rmtree(pages, ignore_errors=True)
    sources = Sources(ROOT, pages / "source")
    names = explorer_pages(pages / "graphs")
    for path in sorted(DOCS.rglob("*.md")):
        place = path.relative_to(DOCS)
        write(pages / place, page_of(path, place, sources, names))
    for name, place in OTHERS.items():
        write(pages / place, page_of(ROOT / name, Path(place), sources, names))
    for name, text in reference_pages(sources).items():
        write(pages / "reference" / name, text)
    write(pages / "decisions" / "index.md", decisions_index())
    for name in ("style.css", "iframe-worker.js"):
        shutil.copy(DOCS / "website" / name, pages / name)
    sources.write()


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def page_of(path: Path, place: Path, sources: Sources, graphs: dict[str, str]) -> str:
    """A page of the repository as a page of the site; what stands in fences stays as it is."""
    parts = FENCED.split(path.read_text(encoding="utf-8"))
    return "".join(part if part.startswith("```") else mended(part, path, place, sources, graphs) for part in parts)


def mended(text: str, path: Path, place: Path, sources: Sources, graphs: dict[str, str]) -> str:
    up = "../" * (len(place.parts) - 1)
    text = LINK.sub(lambda link: f"[{link[1]}]({target(link[2], path, place, sources)}{link[3] or ''})", text)
    text = EXPLORER.sub(lambda mark: frame(mark[1], up, graphs, path), text)
    text = PICTURE.sub(lambda picture: figure(picture[2], picture[1]), text)
    return text.replace("<details>", '<details markdown="1">')


def target(link: str, path: Path, place: Path, sources: Sources) -> str:
    """Where a link of a page of the repository leads on the site."""
    if "://" in link or link.startswith("mailto:"):
        return link
    found = Path(os.path.normpath(path.parent / link))
    if found.is_relative_to(ROOT / "src"):
        there = "source/" + sources.page(found)
    elif found.parent == ROOT and found.name in OTHERS:
        there = OTHERS[found.name]
    elif found.is_relative_to(DOCS):
        there = found.relative_to(DOCS).as_posix() + ("/index.md" if found.is_dir() else "")
    else:
        sys.exit(f"{path}: the link {link} leads out of what is on the site")
    return os.path.relpath(there, place.parent)


def explorer_pages(folder: Path) -> dict[str, str]:
    """The explorer's ready examples, one file for each; their titles by name."""
    folder.mkdir(parents=True, exist_ok=True)
    for example in examples():
        Exploration(example).save_html(folder / f"{example['id']}.html")
    lines = ["# Graphs that move", "", "The explorer's examples. Each is one file that needs nothing else.", ""]
    lines += [f"- [{example['title']}]({example['id']}.html): {example['note']}" for example in examples()]
    write(folder / "index.md", "\n".join(lines) + "\n")
    return {example["id"]: example["title"] for example in examples()}


def frame(name: str, up: str, graphs: dict[str, str], path: Path) -> str:
    if name not in graphs:
        sys.exit(f"{path}: the explorer has no example {name}; there are {', '.join(graphs)}")
    title = escape(graphs[name], quote=True)
    return (
        f'<iframe class="graph" src="{up}graphs/{name}.html" title="{title}" loading="lazy"></iframe>\n'
        f'<p class="graph"><a href="{up}graphs/{name}.html">{title}: open it alone</a></p>'
    )


def figure(name: str, caption: str) -> str:
    return f"<figure>{PICTURES[name]()}<figcaption>{escape(caption)}</figcaption></figure>"


def decisions_index() -> str:
    """The decisions, by their titles."""
    lines = ["# Decisions", "", "Why things are as they are, each with the measurement that decided.", ""]
    for path in sorted((DOCS / "decisions").glob("*.md")):
        title = path.read_text(encoding="utf-8").split("\n", 1)[0].removeprefix("# ")
        lines.append(f"- [{title}]({path.name})")
    return "\n".join(lines) + "\n"
