"""An advisor without a model: Thompson sampling over the edits of the task's catalogue (`search.edit_bandit`).

It chooses among the edits that a prompt of `--advisor reader` offers for the same lease: all alternatives of a small
catalogue, a random menu of a large one. With all edits of a large catalogue it would spend its first hundreds of
candidates on arms that were never tried. Its idea and its experiment have the words of that advisor. It knows the
results of the experiments in closed leases. It asks nothing, so its rollouts have no calls.

Invariant: equal values give equal advice. What is drawn derives from (run seed, lease).
"""

from collections.abc import Mapping

from pace_async.advise.advisor import Advice, Sampling
from pace_async.advise.catalogue_prompts import UNKNOWN, idea_text
from pace_async.advise.catalogue_wording import menu, present_values
from pace_async.programs.languages import Language
from pace_async.search.draws import generator
from pace_async.search.edit_bandit import Results, arm_of, choose_edit, edit_text
from pace_async.search.ideas import admit, recognised
from pace_async.search.state import SearchContext


class BanditAdvisor:
    """Implements `advise.advisor.Chooser`. `options` are the words of each target's options, `language` that of the
    task's programs."""

    def __init__(self, options: Mapping[str, tuple[str, ...]], language: Language) -> None:
        self._options = options
        self._language = language

    def choose(self, context: SearchContext, results: Results, *, lease: int, sampling: Sampling) -> Advice:
        present = present_values(self._options, context.parent.program, self._language)
        offers = menu(self._options, present, generator(sampling.seed, lease, "propose", "menu"))
        edits = [(offer.name, option) for offer in offers for option in offer.options]
        if not edits:
            nothing = "the parent assigns nothing of the catalogue"
            return Advice((), (), context.ideas, context.next_idea, unparsed=nothing)
        draw = generator(sampling.seed, lease, "edit")
        target, option = choose_edit(edits, lambda edit: arm_of(*edit), results, draw)
        proposals = [idea_text(target, option)]
        verdicts = recognised(context.ideas, proposals, [None], context.next_idea)
        pool, notes, next_idea = admit(context.ideas, proposals, verdicts, context.next_idea, sampling.ideas_kept)
        experiment = edit_text(target, option, present[target] or UNKNOWN)
        return Advice((), notes, pool, next_idea, notes[0].number, experiment)
