"""Token ids in; ids, mask and log-probabilities out, the same ones that the model gives in one forward pass."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("transformers")

import torch

from rlvr.adapters.serving.generate_server import PATH, GenerateServer
from rlvr.adapters.testing import nothing_left, score
from rlvr.agents.models.tiny import tiny_policy


@pytest.fixture(scope="module")
def policy():
    return tiny_policy(hidden=32, layers=1)


@pytest.fixture(scope="module")
def server(policy):
    model, tokenizer = policy
    with nothing_left(), GenerateServer(model, end_ids=[tokenizer.eos_token_id], max_length=64) as running:
        yield running


def call(server, body=None, path=PATH, key=None):
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {server.api_key if key is None else key}"}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(server.url + path, data, headers), timeout=60) as response:
        return json.loads(response.read())


def generate(server, prompt, **params):
    return call(server, {"token_ids": prompt, "sampling_params": {"max_tokens": 8, "logprobs": 1, **params}})


def test_logprobs_are_those_of_one_forward_pass(server, policy):
    prompt = list(b"Say something")
    for temperature in (1.0, 0.7):
        choice = generate(server, prompt, temperature=temperature, seed=3)["choices"][0]
        ids, content = choice["token_ids"], choice["logprobs"]["content"]
        assert [entry["token"] for entry in content] == [f"token_id:{token}" for token in ids]
        assert choice["mask"] == [1] * len(ids)
        if temperature == 1.0:
            exact = score(policy[0], prompt + ids)[len(prompt) :]
            assert [entry["logprob"] for entry in content] == pytest.approx(exact, abs=1e-5)


def test_two_turns_stitched_by_the_client_pass_the_check(server, policy):
    ids, mask, logprobs = list(b"One?"), [0] * 4, [0.0] * 4
    for observation in (b"Two?", b"Three?"):
        choice = generate(server, ids)["choices"][0]
        ids, mask = ids + choice["token_ids"], mask + choice["mask"]
        logprobs += [entry["logprob"] for entry in choice["logprobs"]["content"]]
        ids, mask, logprobs = (
            ids + list(observation),
            mask + [0] * len(observation),
            logprobs + [0.0] * len(observation),
        )
    exact = score(policy[0], ids)
    assert [p for p, m in zip(logprobs, mask, strict=True) if m] == pytest.approx(
        [p for p, m in zip(exact, mask, strict=True) if m], abs=1e-5
    )


def test_a_seed_decides_whatever_else_is_asked(server):
    alone = generate(server, [65, 66], seed=7)["choices"][0]["token_ids"]
    with ThreadPoolExecutor(8) as pool:
        others = [pool.submit(generate, server, [65] * (i + 1), seed=i) for i in range(20)]
        again = pool.submit(generate, server, [65, 66], seed=7)
        assert again.result()["choices"][0]["token_ids"] == alone
        assert all(other.result()["choices"] for other in others)
    assert generate(server, [65, 66], seed=8)["choices"][0]["token_ids"] != alone


def test_settings(server, policy):
    end = policy[1].eos_token_id
    answer = generate(server, [65], n=3, seed=1)
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]
    assert len({tuple(choice["token_ids"]) for choice in answer["choices"]}) == 3
    assert answer["usage"]["prompt_tokens"] == 1
    greedy = [generate(server, [65], temperature=0)["choices"][0] for _ in range(2)]
    assert greedy[0] == greedy[1]
    first = greedy[0]["token_ids"][0]
    stopped = generate(server, [65], temperature=0, stop_token_ids=[first])["choices"][0]
    assert (stopped["token_ids"], stopped["finish_reason"]) == ([first], "stop")
    full = generate(server, [65] * 60, max_tokens=50, ignore_eos=True, min_p=0.0, stop=[])["choices"][0]
    assert (len(full["token_ids"]), full["finish_reason"]) == (4, "length")
    assert end not in generate(server, [65], top_k=1)["choices"][0]["token_ids"][:-1]
    assert call(server, {"token_ids": [65], "sampling_params": {"max_tokens": 1}})["choices"][0]["logprobs"] is None


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"token_ids": []}, 400),
        ({"token_ids": [10**9]}, 400),
        ({"token_ids": [True]}, 400),
        ({"token_ids": [65] * 64}, 400),
        ({"token_ids": [65], "stream": True}, 400),
        ({"token_ids": [65], "model": "other"}, 404),
        ({"token_ids": [65], "sampling_params": 3}, 400),
        *(
            ({"token_ids": [65], "sampling_params": params}, 400)
            for params in (
                {"min_p": 0.1},
                {"stop": ["x"]},
                {"typo": 1},
                {"temperature": -1},
                {"temperature": "hot"},
                {"top_p": 0},
                {"top_k": 1.5},
                {"max_tokens": 0},
                {"n": 1000},
                {"logprobs": 5},
                {"stop_token_ids": ["x"]},
            )
        ),
    ],
)
def test_what_it_cannot_do_is_refused(server, body, status):
    with pytest.raises(urllib.error.HTTPError) as caught:
        call(server, body)
    with caught.value as error:
        assert error.code == status
        assert json.loads(error.read())["error"]["message"]


def test_what_changes_nothing_here_is_let_through(server):
    """Verifiers' client asks for experts' routing from some place on, of any model."""
    params = {"seed": 3, "skip_special_tokens": False, "routed_experts_prompt_start": 5}
    told, plain = generate(server, [65, 66], **params), generate(server, [65, 66], seed=3)
    assert told["choices"] == plain["choices"]


def test_models_health_and_unknown_paths(server):
    assert call(server, path="/v1/models")["data"][0]["max_model_len"] == 64
    assert call(server, path="/health") == {}
    with pytest.raises(urllib.error.HTTPError) as caught:
        call(server, path="/elsewhere")
    with caught.value as error:
        assert error.code == 404


def test_new_weights_are_sampled_from_after_a_pause():
    model, tokenizer = tiny_policy(hidden=32, layers=1, seed=1)
    with nothing_left(), GenerateServer(model, end_ids=[tokenizer.eos_token_id]) as server:
        before = generate(server, [65], seed=0)
        with server.paused(), torch.no_grad():
            for weight in model.parameters():
                weight.add_(torch.randn_like(weight))
        after = generate(server, [65], seed=0)
    assert (before["policy_version"], after["policy_version"]) == (0, 1)
    ids = after["choices"][0]["token_ids"]
    content = after["choices"][0]["logprobs"]["content"]
    assert [entry["logprob"] for entry in content] == pytest.approx(score(model, [65, *ids])[1:], abs=1e-4)


def test_keys_and_errors_of_the_model(policy):
    class Broken:
        config = policy[0].config
        training = False

        def eval(self):
            raise RuntimeError("the model is broken")

    with nothing_left(), GenerateServer(Broken(), end_ids=[0], api_key="secret") as server:
        assert call(server, path="/health", key="") == {}
        for key in ("", "secre", "secret2"):
            with pytest.raises(urllib.error.HTTPError) as caught:
                call(server, path="/v1/models", key=key)
            with caught.value as error:
                assert error.code == 401
        for _ in range(2):  # it goes on
            with pytest.raises(urllib.error.HTTPError) as caught:
                call(server, {"token_ids": [65]}, key="secret")
            with caught.value as error:
                assert error.code == 500
                assert "the model is broken" in json.loads(error.read())["error"]["message"]


def test_numbers_out_of_range(policy):
    with pytest.raises(ValueError, match="max_length"):
        GenerateServer(policy[0], end_ids=[], max_length=1)
