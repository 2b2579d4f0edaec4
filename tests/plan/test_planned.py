"""What a run needs, where it goes, and what is said where it does not fit. Steps are given, not counted."""

import json
from pathlib import Path

import pytest

from pace_async.errors import UsageError
from pace_async.plan.needs import GIB
from pace_async.plan.places import Capacity, CardMemory, Owned
from pace_async.plan.planned import Model, Plan, plan_of
from pace_async.plan.served import ServedModel, refuse_unless_divisible, served_model
from pace_async.plan.step import StepBytes
from pace_async.runtime.start.planning import plan_for
from tests.support.run_plans import ONE, QWEN, R1, SERVED, STEP, TWO, config_of, count, planned


def test_keys_and_values_of_published_shapes_have_their_known_sizes() -> None:
    assert served_model(R1) == ServedModel(2, 144 * 1024, 0, heads=8)
    qwen = served_model(QWEN)
    assert (qwen.weight, qwen.token) == (2, 32 * 1024)
    assert qwen.request == 24 * (32 * 128 * 128 * 4 + (2 * 16 * 128 + 32 * 128) * 4 * 2)


@pytest.mark.parametrize(("text", "sentence"), [("{", "cannot be read"), ('{"num_hidden_layers": 3}', "KeyError")])
def test_a_config_that_describes_no_language_model_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(UsageError, match=sentence):
        served_model(tmp_path)


def test_each_card_of_a_sharded_learner_has_its_share_and_what_is_gathered_and_adapters_are_whole_on_each() -> None:
    owned: Owned = {"learner": ["0", "1"], "engine": ["2"]}
    cards = {"0": 80.0, "1": 80.0, "2": 80.0}

    def learner_on(card: str, **settings: object) -> dict[str, float]:
        plan = planned(
            {"learner.gpus": 2, **{f"learner.{key}": value for key, value in settings.items()}}, cards, owned
        )
        (place,) = [place for place in plan.places if place.name == f"card {card}"]
        return {part.what: part.size for part in place.parts if part.owner == "learner"}

    parts = learner_on("0")
    assert parts == learner_on("1")
    assert (parts["weights"], parts["gradient, float32"], parts["AdamW's moments, float32"]) == (8e9, 8e9, 16e9)
    assert parts["the largest pass: activations, logits"] == 30e9
    assert parts["layers gathered for a pass"] == 8 * (STEP.root + 2 * STEP.layer) > 0
    assert learner_on("1", lora_rank=8)["weights"] == 8e9
    assert "layers gathered for a pass" not in learner_on("1", lora_rank=8)


def test_ranks_on_the_processor_share_the_weights_and_each_has_its_pass() -> None:
    settings: dict[str, object] = {"advisor.engine": "embedded", "learner.cpu_ranks": 4}
    plan = planned(settings, {}, {"learner": [], "engine": []})
    host = {part.what: part.size for place in plan.places if place.name == "host memory" for part in place.parts}
    assert host["AdamW's moments, float32"] == 32e9
    assert host["the largest pass: activations, logits"] == 4 * 30e9
    assert host["the model on every rank, while it is loaded"] == 4 * 16e9


def test_each_card_of_a_divided_engine_has_its_share_of_weights_and_heads() -> None:
    heads = served_model(QWEN).heads
    assert heads == 4
    owned: Owned = {"learner": ["0"], "engine": [str(card) for card in range(1, 9)]}
    cards = {str(card): 200.0 if card == 0 else 80.0 for card in range(9)}

    def engine_on(count: int) -> tuple[dict[str, float], Plan]:
        plan = planned({"advisor.gpus": count, "advisor.gpu_memory": 0.5}, cards, owned)
        (place,) = (place for place in plan.places if place.name == "card 1")
        return {part.what: part.size for part in place.parts}, plan

    (one, whole), (half, two), (eighth, eight) = (engine_on(count) for count in (1, 2, 8))
    assert [parts["weights"] for parts in (one, half, eighth)] == [SERVED, SERVED / 2, SERVED / 8]
    assert half["keys and values"] == one["keys and values"] + SERVED / 2, "what the weights leave of the share"
    served, tokens = served_model(QWEN), whole.shape.tokens
    assert whole.needs.cache_one == tokens * served.token + served.request
    assert two.needs.cache_one == whole.needs.cache_one / 2
    assert eight.needs.cache_one == tokens * served.token / heads + served.request / 8, "a card holds one head at least"
    host = {part.what: part.size for place in two.places if place.name == "host memory" for part in place.parts}
    assert host["a version while each rank reads it"] == 2 * 8e9


def test_a_version_that_the_engine_opens_is_a_whole_one_on_the_shared_card() -> None:
    def parts_of(transport: str, owned: Owned, place: str) -> dict[str, float]:
        plan = planned({"advisor.transport": transport}, {"0": 200.0}, owned)
        (found,) = (one for one in plan.places if one.name == place)
        return {part.what: part.size for part in found.parts if part.owner == "learner"}

    nowhere: Owned = {"learner": [], "engine": []}
    for owned, place in ((ONE, "card 0"), (nowhere, "host memory")):
        by_file, by_ipc = parts_of("file", owned, place), parts_of("ipc", owned, place)
        assert by_ipc.keys() - by_file.keys() == {"a version that the engine opens"}
        assert by_ipc["a version that the engine opens"] == 2 * STEP.trained, "in bfloat16, as it is served"


def test_a_plan_of_versions_in_one_memory_is_refused_on_two_cards() -> None:
    two = [CardMemory(name, 200 * GIB) for name in ("0", "1")]
    config = config_of({"advisor.transport": "ipc", "advisor.gpus": [1], "learner.gpus": [0]})
    with pytest.raises(UsageError, match="ipc needs learner and engine on one card, and the learner has card 0 and"):
        plan_for(config, two, count)


@pytest.mark.parametrize(
    ("folder", "ranks", "sentence"),
    [
        (QWEN, 2, None),
        (QWEN, 4, None),
        (QWEN, 16, None),
        (QWEN, 3, "num_attention_heads, 16, cannot be divided"),
        (R1, 8, None),
        (R1, 16, None),
        (R1, 64, "num_attention_heads, 32, cannot be divided"),
    ],
)
def test_a_model_that_cannot_be_divided_among_the_cards_is_refused(
    folder: Path, ranks: int, sentence: str | None
) -> None:
    if sentence is None:
        refuse_unless_divisible("model", folder, ranks)
        return
    with pytest.raises(UsageError, match=f"advisor.gpus divides --advisor model among {ranks} cards.*{sentence}"):
        refuse_unless_divisible("model", folder, ranks)


@pytest.mark.parametrize(
    ("numbers", "sentence"),
    [
        ({"num_attention_heads": 12, "num_key_value_heads": 4}, "6 cards, and that is no multiple of its num_key_val"),
        ({"num_attention_heads": 24, "num_key_value_heads": 8}, "num_key_value_heads, 8, cannot be divided"),
        ({"num_attention_heads": 6, "intermediate_size": 344}, "intermediate_size, 344, cannot be divided"),
    ],
)
def test_every_number_that_vllm_divides_is_checked(tmp_path: Path, numbers: dict[str, int], sentence: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"text_config": numbers}))
    with pytest.raises(UsageError, match=sentence):
        refuse_unless_divisible("model", tmp_path, 6)


def test_each_part_lies_with_its_owner_and_sums_are_those_of_the_parts() -> None:
    plan = planned({"advisor.kv_cache_gib": 2, "search.threads": 4, "stop.minutes": 5}, {"0": 200, "1": 80}, TWO)
    places = {place.name: place for place in plan.places}
    assert {part.owner for part in places["card 0"].parts} == {"learner"}
    assert {part.owner for part in places["card 1"].parts} == {"engine"}
    sizes = {part.what: part.size for part in places["card 1"].parts}
    assert sizes["weights"] == SERVED
    assert sizes["keys and values"] == 2 * GIB
    disk = {part.what: part.size for part in places["disk"].parts}
    assert disk == {"4 versions": 4 * 8e9, "3 checkpoints": 3 * 48e9}
    host = {part.what: part.size for part in places["host memory"].parts}
    assert host["weights and moments from before a step"] == 48e9
    assert host["a version while it is read"] == 8e9
    assert (plan.faults, plan.remedy, plan.refusal) == ((), None, None)


@pytest.mark.parametrize(
    ("settings", "rows"),
    [
        ({"stop.candidates": 1000}, "rows of 1,000 candidates"),
        ({"stop.candidates": 1000, "stop.updates": 5, "learner.group_size": 8}, "rows of 40 candidates"),
        ({"stop.minutes": 60}, None),
        ({"stop.candidates": 1000, "population.url": "postgresql://server/runs"}, None),
    ],
)
def test_the_disk_holds_the_rows_of_as_many_candidates_as_the_run_gets(
    settings: dict[str, object], rows: str | None
) -> None:
    plan = planned({"advisor.kv_cache_gib": 2, **settings}, {"0": 900})
    disk = next(place for place in plan.places if place.name == "disk")
    assert [part.what for part in disk.parts if part.owner == "run"] == ([] if rows is None else [rows])
    for part in disk.parts:
        if part.what == "rows of 1,000 candidates":
            assert part.size == 1000 * (25_000 + 6 * 3 * plan.shape.tokens)


def test_a_copy_from_before_a_step_and_a_checkpoint_are_never_in_host_memory_at_once() -> None:
    without = {"learner.max_move": None, "learner.min_move_ess": None, "learner.max_sure_move": None}
    sums: list[float] = []
    for settings in ({}, without):
        plan = planned({"advisor.kv_cache_gib": 2, **settings}, {"0": 900})
        sums.append(next(place.needed for place in plan.places if place.name == "host memory"))
    assert sums == [48e9 + 8e9, 32e9 + 8e9]


@pytest.mark.parametrize(
    ("settings", "bytes_of_a_weight"),
    [({}, 2), ({"advisor.engine_arguments": ["--dtype=float32"]}, 4), ({"advisor.engine": "embedded"}, 4)],
)
def test_a_version_is_counted_in_the_type_in_which_it_is_written(
    settings: dict[str, object], bytes_of_a_weight: int
) -> None:
    plan = planned({"advisor.kv_cache_gib": 2, **settings}, {"0": 900})
    disk = next(place for place in plan.places if place.name == "disk")
    assert disk.parts[0].size == 4 * bytes_of_a_weight * STEP.trained


def test_without_a_card_everything_is_in_host_memory() -> None:
    plan = planned({"advisor.engine": "embedded"}, {}, {"learner": [], "engine": []})
    host = plan.places[0]
    assert (host.name, host.fits) == ("host memory", None)
    assert host.needed > STEP.peak
    assert not any(part.assumed for part in host.parts)


def test_memory_that_others_use_and_a_cache_that_is_too_small_are_reported() -> None:
    config = config_of({"advisor.kv_cache_gib": 0.01, "learner.objective": "none"})
    capacity = Capacity({"0": CardMemory("0", 80 * GIB, 75 * GIB)}, host=1e12, disk=1e12)
    plan = plan_of(config, Model(QWEN, 2048), ONE, capacity, lambda _: StepBytes(10**9, 0, 0, 0, 0, 0, 0))
    assert plan.shape.rows == 0
    assert plan.faults[0].startswith("card 0 has 80.0 GiB, of which others use 75.0, and the run needs")
    assert plan.faults[1].endswith("GiB of keys and values, and vLLM would have 0.0")


@pytest.mark.parametrize(
    ("settings", "tokens", "rows"),
    [
        ({}, 2048, 1),
        ({"learner.max_length": 500}, 500, 4),
        ({"advisor.max_prompt_tokens": 300, "advisor.max_tokens": 100}, 400, 5),
        ({"learner.micro_tokens": 100}, 2048, 1),
    ],
)
def test_the_longest_call_is_what_all_limits_allow(settings: dict[str, object], tokens: int, rows: int) -> None:
    shape = planned({"advisor.kv_cache_gib": 2, **settings}, {"0": 900}).shape
    assert (shape.tokens, shape.rows) == (tokens, rows)


def test_the_shapes_that_the_ready_configs_are_planned_with_are_those_of_the_published_models() -> None:
    for folder, layers in ((QWEN, 32), (R1, 36)):
        assert json.loads((folder / "config.json").read_text())["num_hidden_layers"] == layers


def test_a_small_shm_is_refused_in_one_sentence_where_vllm_is_started() -> None:
    config = config_of({"advisor.kv_cache_gib": 2})
    capacity = Capacity({"0": CardMemory("0", 900 * GIB)}, shared=64.0 * 2**20)
    refusal = plan_of(config, Model(QWEN, 2048), ONE, capacity, count).refusal
    assert refusal is not None
    assert refusal.startswith(
        "The run does not fit: /dev/shm has 64 MiB, and the run needs 256 (in a container, --shm-size=1g gives more)."
    )
    embedded = config_of({"advisor.engine": "embedded"})
    assert plan_of(embedded, Model(QWEN, 2048), ONE, capacity, count).refusal is None


def test_files_of_a_run_on_a_file_system_in_memory_take_host_memory_too() -> None:
    config = config_of({"advisor.kv_cache_gib": 2})
    sums: list[float] = []
    for in_memory in (False, True):
        capacity = Capacity(
            {"0": CardMemory("0", 900 * GIB)}, host=4000 * GIB, disk=4000 * GIB, disk_in_memory=in_memory
        )
        places = {place.name: place for place in plan_of(config, Model(QWEN, 2048), ONE, capacity, count).places}
        sums.append(places["host memory"].needed)
    assert sums[1] - sums[0] == places["disk"].needed
