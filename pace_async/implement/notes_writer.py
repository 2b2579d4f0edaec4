"""Asks a model over the network for what is written beside a search, a page of notes or the ideas that leave a pool:
one call, in the ledger whatever its outcome.

Invariant: no model that is trained is asked. The model is that of the implementer, drawn by weight where there are
several, or that of an advisor that is asked over the network, which learns nothing.

Not here: retries. What fails is left out, and the next call comes soon.
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager

from pace_async.config import Config, ProviderConfig
from pace_async.context.questions import RenderedQuestion
from pace_async.errors import CandidateFault, InfrastructureFault, PaceBug, UsageError
from pace_async.events import IdeasLeft, NotesPage
from pace_async.implement.shares import parse_shares
from pace_async.providers.base import NOTES, CallLedger, Share
from pace_async.providers.bill import billed
from pace_async.providers.chat import Chat, open_chats
from pace_async.providers.pool import draw
from pace_async.providers.redact import holds_secret
from pace_async.registry.advisors import advisor_of, asked_model
from pace_async.registry.implementers import implementer_of
from pace_async.thinking import answer_proper

LONGEST_READ = 40_000
"""Characters of the end of an answer that are read."""


class NotesWriter:
    """See the module. `settings` has the bounds of an answer and of a call."""

    def __init__(
        self,
        shares: tuple[Share, ...],
        chats: Mapping[str, Chat],
        ledger: CallLedger,
        seed: int,
        settings: ProviderConfig,
    ) -> None:
        self._shares = shares
        self._chats = chats
        self._ledger = ledger
        self._seed = seed
        self._max_tokens, self._timeout_s = settings.longest_answer, settings.timeout_s

    async def write(self, question: RenderedQuestion, lease: int, read: Callable[[str], NotesPage | IdeasLeft]) -> None:
        """Ask, and commit what is written with its cost in one transaction. `read` makes the fact of the answer in the
        moment of the commit. Raises BudgetReached before the call, CandidateFault, as `read` does, if the answer is not
        what was asked for, and InfrastructureFault if the service failed or the answer must not be stored."""
        share = draw(self._shares, self._seed, lease)
        if share is None:
            raise PaceBug("something is to be written beside the search and no model does it")
        chat = self._chats[share.model]
        messages = ({"role": "system", "content": question.system}, {"role": "user", "content": question.text})
        async with billed(chat, self._ledger, NOTES, lease, messages, self._max_tokens) as bill:
            answer = bill.answer = await chat.ask(messages, max_tokens=self._max_tokens, timeout_s=self._timeout_s)
            if holds_secret(answer.text):
                raise InfrastructureFault("secret_in_answer", "the answer holds the value of a secret variable")
            if answer.refused:
                raise CandidateFault("refusal", "the model refused")
            bill.beside = read(answer_proper(answer.text[-LONGEST_READ:]))


def writers_of(config: Config) -> tuple[Share, ...]:
    """The models that write beside the search of a run, with their weights. Empty if it has none that can. Raises
    UsageError."""
    models = tuple(each for each in parse_shares(config.implementer.model) if implementer_of(each.model).asks_a_model)
    if models or not advisor_of(config.advisor.model).asked:
        return models
    return (Share(asked_model(config.advisor.model), 1.0),)


def asked_with(config: Config) -> ProviderConfig:
    models = (share.model for share in parse_shares(config.implementer.model))
    by_implementer = any(implementer_of(model).asks_a_model for model in models)
    return config.implementer if by_implementer else config.advisor.of_calls()


def _written_beside(config: Config) -> bool:
    return bool(config.search.notes_every or config.search.drop_ideas)


def refuse_unless_written(config: Config) -> None:
    """Raises UsageError if notes, or ideas that leave, are asked for and cannot be had."""
    search = config.search
    if not _written_beside(config):
        return
    setting = "search.notes_every" if search.notes_every else "search.drop_ideas"
    if search.notes_every and search.remembers != "run":
        raise UsageError(
            f"search.notes_every writes a page for the whole run, and search.memory is {search.remembers}: say "
            "search.memory=run, or leave notes out."
        )
    if search.drop_ideas and search.remembers != "island":
        raise UsageError(
            f"search.drop_ideas is about the ideas of an island, and search.memory is {search.remembers}: say "
            "search.memory=island, or leave it out."
        )
    if not writers_of(config):
        if config.advisor.writes_code:
            raise UsageError(
                f"{setting} needs a model that is not trained, and with advisor.role end_to_end "
                f"{config.advisor.model} is the only one: leave it out."
            )
        raise UsageError(
            f"{setting} needs a model that can write, and --implementer {config.implementer.model} with "
            f"--advisor {config.advisor.model} has none: name one with --implementer MODEL, or leave it out."
        )


@asynccontextmanager
async def open_notes_writer(config: Config, ledger: CallLedger) -> AsyncGenerator[NotesWriter | None]:
    """The writer of what a run has written beside its search, ready for use, or None if that is nothing. It is closed
    when the context ends."""
    if not _written_beside(config):
        yield None
        return
    shares, settings = writers_of(config), asked_with(config)
    async with open_chats([share.model for share in shares], settings) as chats:
        yield NotesWriter(shares, {chat.model: chat for chat in chats}, ledger, config.seed, settings)
