"""The prompts as Jinja2 files: those of the package, each of which a task or a user may replace.

A template is looked for in `prompts.folder`, then in the task's folder `prompts`, then in the set of `prompts.set`,
then in the set `full`. It runs in a sandbox, and a name that it uses and nobody gives is an error. Values are inserted
as they are and never read as templates, so text of models and programs stays data.

The files are read once, so what a run asks does not change under it. The digest covers every file that may be used. A
run's row keeps it.
"""

import hashlib
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jinja2 import FunctionLoader, StrictUndefined, TemplateError, TemplateSyntaxError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from pace_async.config import PromptsConfig
from pace_async.errors import UsageError

PACKAGED = Path(__file__).parent / "templates"
SETS = ("full", "paper")
OWN = "prompts"
"""The folder of a task's own templates, in the task's folder."""
ADVISORS = ("system", "context", "one", "propose", "assess", "select", "again")
IMPLEMENTERS = ("implementer_system", "implement")
WRITERS = ("write_system", "write")
"""Of an advisor that writes the code itself."""
SHARED = ("edit_form",)
"""Parts of several templates."""
BESIDE = ("notes_system", "notes", "pool_system", "pool")
"""Of what a model writes beside the search."""
NAMES = (*ADVISORS, *IMPLEMENTERS, *WRITERS, *BESIDE, *SHARED)


class Templates:
    """The templates of one run. Equal sources have equal digests."""

    def __init__(self, folders: tuple[Path, ...]) -> None:
        self.folders = folders
        self._sources = {f"{name}.j2": (self.file(name).read_bytes(), str(self.file(name))) for name in NAMES}
        self._environment = ImmutableSandboxedEnvironment(
            loader=FunctionLoader(self._source),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            autoescape=False,
            keep_trailing_newline=False,
        )

    @classmethod
    def of(cls, settings: PromptsConfig, task_folder: Path | None = None) -> "Templates":
        """The templates of a run. Raises UsageError for a folder that is not there, or that holds a file which no
        prompt uses."""
        chosen = [PACKAGED / name for name in dict.fromkeys((settings.set, "full"))]
        own = task_folder / OWN if task_folder is not None else None
        if own is not None and own.is_dir():
            chosen.insert(0, own)
        if settings.folder is not None:
            chosen.insert(0, Path(settings.folder))
        for folder in chosen:
            if not folder.is_dir():
                raise UsageError(f"prompts.folder {folder} is no folder: `pace prompts init FOLDER` makes one.")
            for file in sorted(folder.glob("*.j2")):
                if file.stem not in NAMES:
                    raise UsageError(f"{file} is no prompt: the names are {', '.join(NAMES)}.")
        return cls(tuple(chosen))

    def file(self, name: str) -> Path:
        """The file that is used for a template."""
        return next(file for folder in self.folders if (file := folder / f"{name}.j2").is_file())

    @property
    def digest(self) -> str:
        """Of the sources of all templates."""
        parts = hashlib.sha256()
        for name in NAMES:
            text, _ = self._sources[f"{name}.j2"]
            parts.update(f"{name} {len(text)}\n".encode() + text)
        return parts.hexdigest()

    def _source(self, name: str) -> tuple[str, str, Callable[[], bool]] | None:
        text, file = self._sources.get(name, (b"", ""))
        return (text.decode(), file, lambda: True) if file else None

    def render(self, name: str, **values: Any) -> str:
        """The text of a template, without white space around it. Raises UsageError, with file and line, for one that
        does not render."""
        try:
            return self._environment.get_template(f"{name}.j2").render(values).strip() + "\n"
        except TemplateSyntaxError as error:
            raise UsageError(f"{error.filename or self.file(name)}, line {error.lineno}: {error.message}.") from None
        except (TemplateError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise UsageError(f"{self._place(name, error)}: {error}.") from None

    def _place(self, name: str, error: Exception) -> str:
        """Where in a template an error arose."""
        frames = traceback.extract_tb(error.__traceback__)
        ours = [frame for frame in frames if frame.filename.endswith(".j2")]
        return f"{ours[-1].filename}, line {ours[-1].lineno}" if ours else str(self.file(name))


def copied(folder: Path, settings: PromptsConfig) -> list[Path]:
    """Copy the templates of the set into `folder`. Raises UsageError if one of them is there already."""
    templates = Templates.of(PromptsConfig(set=settings.set))
    targets = [folder / f"{name}.j2" for name in NAMES]
    for target in targets:
        if target.exists():
            raise UsageError(f"{target} exists: name another folder, or remove it.")
    folder.mkdir(parents=True, exist_ok=True)
    for name, target in zip(NAMES, targets, strict=True):
        target.write_bytes(templates.file(name).read_bytes())
    return targets
