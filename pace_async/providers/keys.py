"""Check that the environment holds a key for each model. Pure except for the environment it is given.

Invariant: it refuses only cases that are certain, before litellm is loaded, which takes seconds. Two cases are certain:
a provider of the table, at its own address, without any of its variables, and a key that is set but empty, which no
client sends. The first call (`preflight`) finds the rest.
"""

from collections.abc import Mapping, Sequence

from pace_async.errors import NotHere
from pace_async.providers.base import IMPLEMENTER, Caller

KEYS: Mapping[str, tuple[str, ...]] = {
    "openai": ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY"),
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "mistral": ("MISTRAL_API_KEY",),
    "groq": ("GROQ_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "xai": ("XAI_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY", "OR_API_KEY"),
}
"""For some of litellm's providers, by the name before the slash: variables, one of which must be set."""
_UNNAMED = {"gpt-": "openai", "claude-": "anthropic"}
"""Providers of model names without a slash, by prefix."""


def refuse_without_keys(
    models: Sequence[str], api_base: str | None, environment: Mapping[str, str], caller: Caller = IMPLEMENTER
) -> None:
    """Raises NotHere that names the variable to set."""
    for model in models:
        names = KEYS.get(_provider(model), ())
        values = [environment[name] for name in names if name in environment]
        if not names or any(value.strip() for value in values):
            continue
        if values:
            empty = next(name for name in names if name in environment)
            anything = "" if api_base is None else "; any word will do for a server that asks for none"
            raise NotHere(f"{caller.flag(model)}: {empty} is empty in the environment: put a key there{anything}.")
        if api_base is None:
            raise NotHere(f"{caller.flag(model)}: missing key; set {names[0]} in the environment.")


def _provider(model: str) -> str:
    provider, slash, _ = model.partition("/")
    if slash:
        return provider
    return next((known for beginning, known in _UNNAMED.items() if model.startswith(beginning)), "")
