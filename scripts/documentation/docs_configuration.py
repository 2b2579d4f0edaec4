"""Writes docs/configuration.md from the schema of the configuration.

python scripts/documentation/docs_configuration.py           write the page
python scripts/documentation/docs_configuration.py --check   exit code 1 if the page is not what would be written
"""

import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from pace_async.config import Config
from pace_async.configure import on_resume
from scripts.documentation.docs_page import written

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"
HEAD = """\
# Configuration

Written by `python scripts/documentation/docs_configuration.py` from the schema; editors read `pace config schema`.

A setting is named by its room and key: `learner.k`. It is looked up in this order, and the first that has it wins:

1. a flag, such as `--threads 12`, or `--set learner.k=2`, which reaches every setting;
2. an environment variable, such as `PACE_LEARNER__K=2` (two underscores between room and key);
3. the file named by `--config`, in YAML, as `pace config show` prints it; of several the last wins;
4. the default.

`pace config show` prints what a run would have, `pace config validate FILE` lists every mistake of a file. An unknown
key is refused, with the nearest known one. `config.yaml` in a run's folder is what that run had.

`pace resume --set` changes what may change when a run goes on, and refuses the rest with the reason that stands here.
"""


def rooms(model: type[BaseModel], prefix: str = "") -> list[tuple[str, type[BaseModel]]]:
    """Every group of settings, the top first: (dotted name, model)."""
    found = [(prefix, model)]
    for name, info in model.model_fields.items():
        if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
            found += rooms(info.annotation, f"{prefix}.{name}".strip("."))
    return found


def page() -> str:
    """The whole page."""
    schema = Config.model_json_schema()
    parts = [HEAD]
    for name, model in rooms(Config):
        described = schema if model is Config else schema["$defs"][model.__name__]
        about = (model.__doc__ or "").strip()
        rows = [
            _row(f"{name}.{key}".strip("."), info, described["properties"][key])
            for key, info in model.model_fields.items()
            if not (isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel))
        ]
        heading = f"`{name}`" if name else "The run"
        table = "| setting | default | values | meaning | when a run goes on |\n|---|---|---|---|---|\n" + "".join(rows)
        parts.append(f"## {heading}\n\n{about}\n\n{table}")
    return "\n".join(parts)


def _row(key: str, info: FieldInfo, schema: dict[str, Any]) -> str:
    default = info.get_default(call_default_factory=True)
    shown = "none" if default is None else str(default).lower() if isinstance(default, bool) else f"`{_plain(default)}`"
    return f"| `{key}` | {shown} | {_values(schema)} | {info.description or ''} | {on_resume()[key].how} |\n"


def _plain(value: object) -> str:
    return str(list(value)) if isinstance(value, tuple) else str(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _values(schema: dict[str, Any]) -> str:
    """The allowed values of a setting, in words."""
    if "anyOf" in schema:
        return " or ".join(_values(one) for one in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    words = {
        "integer": "whole number",
        "number": "number",
        "string": "text",
        "boolean": "true or false",
        "null": "none",
        "array": "list",
        "object": "mapping",
    }
    kind = "file" if schema.get("format") == "path" else words[schema["type"]]
    if "minItems" in schema and schema["minItems"] == schema.get("maxItems"):
        kind = f"{kind} of {schema['minItems']} {_values(schema['prefixItems'][0])}s"
    limits = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    said = " and ".join(f"{sign} {schema[name]:g}" for name, sign in limits.items() if name in schema)
    return f"{kind} {said}".strip()


if __name__ == "__main__":
    sys.exit(written(PAGE, page(), sys.argv))
