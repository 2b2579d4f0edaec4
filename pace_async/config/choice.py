"""A setting whose values are the names of a registry."""

from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from pace_async.registry.base import Registry

UNKNOWN_NAME = "unknown_name"
"""The type of the validation error; its message already holds what was given."""


@dataclass(frozen=True, slots=True)
class OneOf:
    """Metadata of a text field: `Annotated[str, OneOf(OBJECTIVES)]`. The schema lists the names, and an unknown name is
    refused with the nearest known one."""

    registry: Registry[Any]

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check_name, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(schema), "enum": list(self.registry)}

    def _check_name(self, name: str) -> str:
        if name not in self.registry:
            raise PydanticCustomError(UNKNOWN_NAME, "{sentence}", {"sentence": self.registry.unknown(name)})
        return name
