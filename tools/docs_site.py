"""Hooks of MkDocs: add pages from outside of docs/, rewrite links, refuse remote content.

The documents link to each other and to files of the repository, by relative paths. These links must
work where the repository is browsed, so they are rewritten here for the site.
"""

import os
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.plugins import get_plugin_logger
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
# Pages of the site whose source is not in docs/.
PAGES = {
    ROOT / "README.md": "project/readme.md",
    ROOT / "CONTRIBUTING.md": "project/contributing.md",
    ROOT / "SECURITY.md": "project/security.md",
    ROOT / "CHANGELOG.md": "project/changelog.md",
    ROOT / "benchmarks/README.md": "project/benchmarks.md",
}
LINK = re.compile(r"\[(?P<text>[^][]*)\]\((?!https?:|#)(?P<path>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")
REMOTE = re.compile(r'<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)="(?:https?:)?//[^"]*"')

log = get_plugin_logger(__name__)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the decisions to the navigation, so that a new one needs no line in mkdocs.yml."""
    pages = sorted(f"decisions/{path.name}" for path in (DOCS / "decisions").glob("*.md"))
    if config.nav is None:
        raise PluginError("mkdocs.yml has no nav")
    explanation = next(entry["Explanation"] for entry in config.nav if "Explanation" in entry)
    explanation.append({"Decisions": pages})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from outside of docs/."""
    for source, uri in PAGES.items():
        files.append(File.generated(config, uri, abs_src_path=str(source)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite the links that lead out of docs/."""
    source = Path(page.file.abs_src_path or DOCS / page.file.src_uri)
    here = DOCS / page.file.src_uri

    def rewrite(link: re.Match[str]) -> str:
        target = (source.parent / link["path"]).resolve()
        if not target.exists():
            log.warning("%s: the link to '%s' has no target", page.file.src_uri, link["path"])
        destination = page_of(target)
        if destination is None:
            return link["text"]
        path = os.path.relpath(destination, here.parent)
        return f"[{link['text']}]({path}{link['anchor'] or ''})"

    return LINK.sub(rewrite, markdown)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Check that a browser gets the page from the site alone."""
    for element in REMOTE.findall(output):
        log.warning("%s: loads content from another site: %s", page.file.src_uri, element)
    return output


def page_of(target: Path) -> Path | None:
    """Return the path in docs/ of the page about a file, or None for a file without a page."""
    if target.is_relative_to(DOCS):
        return target
    if target in PAGES:
        return DOCS / PAGES[target]
    for folder in (target, *target.parents):
        page = DOCS / "reference/api" / f"{folder.stem}.md"
        if folder.parent == ROOT / "src/jetbridge" and page.exists():
            return page
    return None
