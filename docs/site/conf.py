"""Settings of the documentation site (`make docs`): pages of the repository as they are, nothing from another host.

The source folder is the repository, so a link between two pages leads to the same file here and on the site.
"""

import pace_async

project = "pace"
author = "The pace authors"
project_copyright = author
release = version = pace_async.__version__

extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "research/README.md",
    "docs/*.md",
    "docs/*/*.md",
    "tasks/*/README.md",
    "skills/*/SKILL.md",
]
exclude_patterns = ["docs/site/**"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 4
suppress_warnings = ["myst.header"]  # a page may begin its tables of settings with a lower heading

html_theme = "furo"
html_title = f"pace {release}"
html_copy_source = False
html_show_sourcelink = False
pygments_style = "friendly"
