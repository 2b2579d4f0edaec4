"""Whether the environment holds a key for each model, told by looking. Pure but for the environment it is given.

Invariant: only what is certain is refused here, before litellm is loaded, which takes seconds: a provider of the table,
asked at its own address, without any of its variables; or a key that is there and empty, which no client sends. What
the table does not know, the first call finds out (`preflight`).
"""

from collections.abc import Mapping, Sequence

from pace_async.errors import UsageError

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
"""Of litellm's providers, by the name before the slash: the variables of which one has to be there."""
_UNNAMED = {"gpt-": "openai", "claude-": "anthropic"}
"""How names without a provider begin."""


def refuse_without_keys(models: Sequence[str], api_base: str | None, environment: Mapping[str, str]) -> None:
    """Raises UsageError, naming the variable to set."""
    for model in models:
        names = KEYS.get(_provider(model), ())
        given = [environment[name] for name in names if name in environment]
        if not names or any(value.strip() for value in given):
            continue
        if given:
            empty = next(name for name in names if name in environment)
            anything = "" if api_base is None else "; any word will do for a server that asks for none"
            raise UsageError(f"--implementer {model}: {empty} is empty in the environment: put a key there{anything}.")
        if api_base is None:
            raise UsageError(f"--implementer {model}: missing key; set {names[0]} in the environment.")


def _provider(model: str) -> str:
    provider, slash, _ = model.partition("/")
    if slash:
        return provider
    return next((known for beginning, known in _UNNAMED.items() if model.startswith(beginning)), "")
