"""The evaluator of a simulated cluster: the programs run on `nodes.Nodes`, which lose some of them.

Invariant: an attempt that a node's death or a preemption has cut off is a failure of the machine. It is recorded, costs
its seconds, and never becomes a result. The program is evaluated again as the next attempt, up to `retries` times.
After that the evaluation is an infrastructure_error, as of every evaluator, and the runtime's patience decides.
"""

from dataclasses import dataclass, replace

from pace_async.evaluate.base import Evaluation, EvaluationRequest
from pace_async.evaluate.identities import Attempts
from pace_async.simulate.nodes import End, Nodes
from pace_async.simulate.stages import SimulatedEvaluator, stage_name

LOST: dict[End, str] = {"node_died": "node {} died", "preempted": "preempted on node {}"}
"""The details of attempts that were lost."""


@dataclass
class EvaluatorOnNodes(SimulatedEvaluator):
    """Needs a world with nodes and durations."""

    retries: int = 2

    async def run(self, request: EvaluationRequest) -> Evaluation:
        attempts = Attempts(request)
        evaluation = await self._attempted(request, attempts)
        while evaluation.outcome == "infrastructure_error" and len(attempts.made) <= self.retries:
            evaluation = await self._attempted(request, attempts)
        return attempts.result(evaluation)

    async def _attempted(self, request: EvaluationRequest, attempts: Attempts) -> Evaluation:
        identity = replace(request.id, attempt=request.id.attempt + len(attempts.made))
        nodes, durations = self._nodes, self.world.durations
        assert durations is not None, "machines fail in virtual time"
        name = stage_name(request)
        (reports, share), whole = self.reported(request), durations.of(name, request.lease)
        ran = await nodes.run(identity, share * whole)
        self.world.calls[name] = self.world.calls.get(name, 0) + 1
        if ran.end != "done" or request.lease in self.lost:
            detail = LOST.get(ran.end, "simulated loss of node {}").format(ran.node)
            evaluation = Evaluation("infrastructure_error", None, ran.seconds, detail, queue_seconds=ran.queue_seconds)
        else:
            self.world.saved_seconds += whole - share * whole
            evaluation = self.verdict(request, ran.seconds, ran.queue_seconds, reports)
        now = self.clock()
        attempts.add(evaluation, now - ran.seconds, now, accepted=evaluation.outcome != "infrastructure_error")
        return evaluation

    @property
    def _nodes(self) -> Nodes:
        assert self.world.nodes is not None, "it is the evaluator of a world with nodes"
        return self.world.nodes
