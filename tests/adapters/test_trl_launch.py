"""`rlvr launch trl`: TRL reads what is launched, its losses are ours, and SmolLM2 takes real steps under accelerate."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rlvr.adapters import read_spec
from rlvr.adapters.launch import Machines
from rlvr.adapters.launch.trl import document
from rlvr.algorithms.recipe.presets import PRESETS

from ..algorithms.cases import make, take
from ..smollm2 import smollm2_folder
from .launching import accepting, config_of, launched
from .test_launch import every_launch

pytestmark = pytest.mark.foreign
ONE = Machines(gpus=1)
# Two demonstrations as turns: the model then writes a box, and hands are won and lost.
CONFIG = {
    "env": {
        "id": "rlvr/KuhnPoker-v0",
        "system": False,
        "settings": {"opponents": ["random"], "brief": True, "rounds": 1, "tries": 1, "few_shot": 2},
    },
    "model": {"chat_template": "chatml"},
    "sampling": {"max_new_tokens": 8, "max_length": 224},
    "algorithm": "dr_grpo",
    "learner": {"lr": 2e-5, "warmup_steps": 0, "micro_batch_tokens": 900},
    "steps": 2,
    "prompts": 2,
    "group_size": 4,
    "evaluation": {"episodes": 2},
}


def test_trl_reads_what_is_launched(tmp_path):
    trl = pytest.importorskip("trl")
    launches = every_launch("trl", machines=ONE)
    assert len(launches) > 20
    for result in launches.values():
        settings = document(result.translation)
        here = {"output_dir": str(tmp_path), "use_cpu": True, "fp16": False}  # which a CPU has not
        read = trl.GRPOConfig(**settings["GRPOConfig"] | here)
        sequences = read.per_device_train_batch_size * read.gradient_accumulation_steps
        assert sequences * result.translation["learner.minibatches"] == 16 * 8
        assert read.generation_batch_size == 16 * 8


@pytest.mark.parametrize("kind", ["plain", "ragged", "tools"])
def test_trls_losses_have_the_gradient_of_our_presets(tmp_path, kind):
    """In float64, with observations inside sequences, in two micro-batches: for each preset whose loss is exact."""
    trl = pytest.importorskip("trl")
    import torch
    from datasets import Dataset

    from rlvr.agents.models.tiny import tiny_policy
    from rlvr.algorithms.losses.policy import policy_loss

    model, tokenizer = tiny_policy(hidden=32, layers=1)
    loss = ("overrides.clip", "overrides.aggregation", "overrides.ratio_level", "overrides.kl")
    compared = []
    for name in PRESETS:
        result = accepting("trl", config_of(name), machines=ONE)
        if result is None or any(result.translation.lines[setting].consent for setting in loss):
            continue
        settings = document(result.translation)["GRPOConfig"]
        small = {"output_dir": str(tmp_path), "per_device_train_batch_size": 6, "gradient_accumulation_steps": 2}
        small |= {"steps_per_generation": 2, "num_generations": 3, "per_device_eval_batch_size": 6, "bf16": False}
        settings |= small | {"use_cpu": True, "save_strategy": "no", "beta": 0.0}
        beta = document(result.translation)["GRPOConfig"]["beta"]
        trainer = trl.GRPOTrainer(
            model, lambda completions, **_: [0.0] * len(completions), trl.GRPOConfig(**settings),
            train_dataset=Dataset.from_list([{"prompt": "?"}] * 4), processing_class=tokenizer,
        )  # fmt: skip
        trainer.beta = beta  # the reference policy's log-probabilities are given
        trainer.current_gradient_accumulation_steps = 2
        trainer.model.train()
        batch = make(kind)
        # the trainer samples with its own weights: corrections have no effect, but for the mask of what has drifted
        masks = tuple(each for each in PRESETS[name].corrections if each.kind == "off_policy_mask")
        preset = PRESETS[name].replace(corrections=masks, entropy_coef=0.0)
        batch["behaviour_logprobs"] = batch["old_logprobs"]
        if preset.ratio_level == "none":
            batch["old_logprobs"] = batch["new"].detach()  # one update: the ratio is 1
        ours, _ = policy_loss(batch["new"], batch | {"max_length": trainer.max_completion_length}, preset)
        (expected,) = torch.autograd.grad(ours, batch["new"])
        mask = batch["mask"]
        found = torch.zeros_like(expected)
        for rows in (list(range(6)), list(range(6, 12))):
            part = take(batch, rows)
            clean = {
                key: torch.where(part["mask"], part[key].detach(), -1.0) for key in ("old_logprobs", "ref_logprobs")
            }
            theirs = torch.where(part["mask"], part["new"].detach(), -1.0).requires_grad_()
            trainer._get_per_token_logps_and_entropies = lambda *_, new=theirs, **__: (new, torch.zeros_like(new), None)
            ids = torch.zeros_like(part["mask"], dtype=torch.long)
            value = trainer._compute_loss(
                trainer.model,
                {
                    "prompt_ids": ids[:, :1], "prompt_mask": torch.ones_like(ids[:, :1]), "completion_ids": ids,
                    "completion_mask": torch.ones_like(ids), "tool_mask": part["mask"].long(),
                    "advantages": part["advantages"], "old_per_token_logps": clean["old_logprobs"],
                    "ref_per_token_logps": clean["ref_logprobs"], "num_items_in_batch": mask.sum(),
                },
            )  # fmt: skip
            found[rows] = torch.autograd.grad(value, theirs)[0]
        assert torch.allclose(found * mask, expected * mask, atol=1e-9), name
        compared.append(name)
    assert len(compared) > 15, compared


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_real_model_takes_two_steps_of_what_is_launched(tmp_path):
    """Of TRL's own batches: prompts, masks and rewards are ours, and so are advantages; the weights move."""
    pytest.importorskip("trl")
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file

    from rlvr.adapters.spec import initial_messages
    from rlvr.agents.conversation import Conversation
    from rlvr.agents.models.tiny import load_policy
    from rlvr.agents.rendering import Renderer
    from rlvr.algorithms.advantages import compute_advantages

    folder = smollm2_folder()
    model = {**CONFIG["model"], "name": str(folder)}
    config = config_of(**{**CONFIG, "model": model, "out": tmp_path / "out"})
    launch = launched("trl", config, machines=ONE)
    launch.write(tmp_path / "launch")
    _, *words, program = launch.command(tmp_path / "launch")
    record = tmp_path / "batches.pt"
    command = [sys.executable, *words, str(Path(__file__).with_name("recorded_trl.py")), program, str(record)]
    environment = os.environ | {"PYTHONSAFEPATH": "1", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]

    tokenizer = load_policy(folder, chat_template="chatml")[1]
    renderer = Renderer(tokenizer)
    batches = torch.load(record)
    assert len(batches) == 2
    varied = 0
    for batch in batches:
        assert len(batch["specs"]) == 8
        for row, text in enumerate(batch["specs"]):
            env, observation, info = read_spec({"spec": text}).start()
            first = Conversation(str(row), initial_messages(observation, info, use_system=False))
            prompt = batch["prompt_ids"][row][batch["prompt_mask"][row].bool()].tolist()
            assert prompt == renderer.render(first)
            there = batch["completion_mask"][row].bool()
            ids, mask = batch["completion_ids"][row][there].tolist(), batch["tool_mask"][row][there].tolist()
            # what was sampled after each prefix of this sequence, and nothing else, is trained on
            expected, position, reward, done_ = [], 0, 0.0, False
            while position < len(ids):
                reply = sampled_after(batch["turns"], prompt + ids[:position], ids[position:])
                if reply is None:
                    expected.append(0)
                    position += 1
                    continue
                expected += [1] * len(reply)
                position += len(reply)
                end = reply[-1] in renderer.end_ids
                _, gain, ended, cut, _ = env.step(renderer.reply_text(reply[: len(reply) - end], prompt))
                reward, done_ = reward + gain, ended or cut
            env.close()
            assert done_
            assert mask == expected
            assert batch["rewards"][row].item() == pytest.approx(reward)
        rewards, groups = batch["rewards"][:, 0], torch.arange(8) // 4
        ours = compute_advantages(rewards, groups, config.preset(), {"mask": batch["tool_mask"]})
        torch.testing.assert_close(batch["advantages"], ours.float())
        varied += int((ours != 0).any())
    assert varied
    before, after = (
        load_file(folder / "model.safetensors"),
        load_file(tmp_path / "out" / "policy" / "model.safetensors"),
    )
    moved = max(float((after[name] - before[name]).abs().max()) for name in before.keys() & after.keys())
    assert 0 < moved <= 2 * 2e-5 * 1.5  # two steps of AdamW


def sampled_after(turns: list[tuple[list[int], list[int]]], prefix: list[int], rest: list[int]) -> list[int] | None:
    """What the engine made of this prefix, if the rest of the sequence begins so; episodes of a group may be equal."""
    for prompt, reply in turns:
        if prompt == prefix and reply == rest[: len(reply)]:
            return reply
    return None
