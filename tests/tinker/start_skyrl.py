"""Starts SkyRL's server of the Tinker API in this environment, as `python start_skyrl.py ARGUMENTS`.

SkyRL starts its engine by `uv run`, which would make another environment: here this interpreter runs it. One of its
types is a typing.TypedDict, which pydantic takes from Python 3.12 on only. It unpacks with a filter, which tarfile has
from Python 3.11.4 on.
"""

import runpy
import sys
import tarfile
import typing
from importlib import import_module
from typing import Any, cast

import typing_extensions

cast("Any", typing).TypedDict = typing_extensions.TypedDict


def _extractall(archive: tarfile.TarFile, path: str, filter: str) -> None:
    """What this server's own archives need."""
    _without_filter(archive, path)


if not hasattr(tarfile, "data_filter"):
    _without_filter = tarfile.TarFile.extractall
    cast("Any", tarfile.TarFile).extractall = _extractall


def command_of(parent: object, config: Any) -> list[str]:
    """The engine's command."""
    given: list[str] = cast("Any", import_module("skyrl.tinker.api")).config_to_argv(config)
    return [sys.executable, __file__, "engine", *given]


if __name__ == "__main__":
    if sys.argv[1] == "engine":
        sys.argv = ["engine", *sys.argv[2:]]
        runpy.run_module("skyrl.tinker.engine", run_name="__main__")
    else:
        api = cast("Any", import_module("skyrl.tinker.api"))
        uvicorn = cast("Any", import_module("uvicorn"))
        *given, host, port = sys.argv[1:]
        import argparse

        parser = argparse.ArgumentParser()
        api.add_model(parser, api.EngineConfig)
        api._build_uv_run_cmd_engine = command_of
        found = vars(parser.parse_args(given))
        api.app.state.engine_config = api.EngineConfig.model_validate(found)
        uvicorn.run(api.app, host=host, port=int(port))
