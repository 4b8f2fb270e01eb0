"""A Tinker service in this process: the client's names over a torch model, with real gradients, AdamW and samples.

What it cannot show is that a real service does the same; the suite `tinker` of tests/adapters/run.py asks SkyRL's.
"""

from __future__ import annotations

import copy
from concurrent.futures import Future
from types import ModuleType, SimpleNamespace

import torch

from rlvr.agents.models.tiny import load_policy


class TinkerError(Exception):
    """The client's own."""


def done(value):
    future = Future()
    if isinstance(value, Exception):
        future.set_exception(value)
    else:
        future.set_result(value)
    return future


class Service:
    """One server: its models, what it keeps, and how it divides gradients.

    Args:
        folder: the base model.
        rule: "sum over tokens" and the others of `rlvr.algorithms.tinker.scale`, or "unknown".
        fails: requests that are answered with an error.
        stale: samples with the first weights for ever.
        reports: names of the metrics of a step that it gives.
    """

    def __init__(self, folder, rule="sum over tokens", *, fails=(), stale=False, norm_name="grad_norm"):
        self.folder, self.rule, self.fails, self.stale, self.norm_name = str(folder), rule, {*fails}, stale, norm_name
        self.kept = {}
        self.first = None
        self.requests = []

    def answer(self, request, work):
        self.requests.append(request)
        return done(TinkerError(f"{request} is broken") if request in self.fails else work())

    def module(self):
        """What stands for the package."""
        module = ModuleType("tinker")
        module.TinkerError = TinkerError
        module.ServiceClient = lambda **options: Client(self)
        module.AdamParams = module.SamplingParams = module.TensorData = module.Datum = SimpleNamespace
        module.ModelInput = SimpleNamespace(from_ints=list)
        return module


class Client:
    def __init__(self, service):
        self.service = service

    def get_server_capabilities(self):
        return SimpleNamespace(supported_models=[SimpleNamespace(model_name=self.service.folder)])

    def create_lora_training_client(self, base_model, rank, seed):
        return Training(self.service)


class Training:
    def __init__(self, service):
        self.service = service
        self.model = load_policy(service.folder)[0]
        self.adam = torch.optim.AdamW(self.model.parameters(), lr=0.0, eps=1e-8)

    def logprobs(self, model, ids):
        logits = model(torch.tensor([ids])).logits[0, :-1]
        return logits.log_softmax(-1).gather(1, torch.tensor(ids)[1:, None])[:, 0]

    def forward(self, data, loss):
        def work():
            outputs = []
            for datum in data:
                ids = [*datum.model_input, datum.loss_fn_inputs["target_tokens"].data[-1]]
                with torch.no_grad():
                    outputs.append({"logprobs": SimpleNamespace(data=self.logprobs(self.model, ids).tolist())})
            return SimpleNamespace(loss_fn_outputs=outputs)

        return self.service.answer("forward", work)

    def forward_backward(self, data, loss):
        assert loss == "importance_sampling"

        def work():
            lengths = [len(datum.model_input) for datum in data]
            for datum, length in zip(data, lengths, strict=True):
                inputs = datum.loss_fn_inputs
                ids = [*datum.model_input, inputs["target_tokens"].data[-1]]
                assert inputs["target_tokens"].data == ids[1:]
                ratio = (self.logprobs(self.model, ids) - torch.tensor(inputs["logprobs"].data)).exp()
                total = -(ratio * torch.tensor(inputs["advantages"].data)).sum()
                (total / self.divisor(length, lengths)).backward()
            return SimpleNamespace(metrics={})

        return self.service.answer("forward_backward", work)

    def divisor(self, length, lengths):
        return {
            "sum over tokens": 1,
            "mean over sequences of sums": len(lengths),
            "mean over tokens": sum(lengths),
            "mean over sequences of means over tokens": len(lengths) * length,
            "sum over sequences of means over tokens": length,
            "unknown": sum(lengths) ** 0.5,
        }[self.service.rule]

    def optim_step(self, params):
        def work():
            for parameter in self.model.parameters():
                if parameter.grad is None:  # a step without a request before it is one on momentum
                    parameter.grad = torch.zeros_like(parameter)
            norms = [parameter.grad.norm() for parameter in self.model.parameters()]
            norm = float(torch.linalg.vector_norm(torch.stack(norms)))
            if params.grad_clip_norm:
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), params.grad_clip_norm)
            self.adam.param_groups[0].update(
                lr=params.learning_rate,
                betas=(params.beta1, params.beta2),
                eps=params.eps,
                weight_decay=params.weight_decay,
            )
            self.adam.step()
            self.adam.zero_grad()
            return SimpleNamespace(metrics={self.service.norm_name: norm})

        return self.service.answer("optim_step", work)

    def state(self):
        return copy.deepcopy((self.model.state_dict(), self.adam.state_dict()))

    def save_state(self, name):
        return self.keep("save_state", f"tinker://{id(self)}/weights/{name}")

    def save_weights_for_sampler(self, name):
        return self.keep("save_weights_for_sampler", f"tinker://{id(self)}/sampler_weights/{name}")

    def keep(self, request, path):
        assert path not in self.service.kept, "a name is taken once"

        def work():
            self.service.kept[path] = self.state()
            return SimpleNamespace(path=path)

        return self.service.answer(request, work)

    def load_state_with_optimizer(self, path):
        def work():
            if path not in self.service.kept:
                return TinkerError(f"there is no {path}")
            weights, moments = copy.deepcopy(self.service.kept[path])
            self.model.load_state_dict(weights)
            self.adam.load_state_dict(moments)
            return None

        return self.service.answer("load_state", work)

    def create_sampling_client(self, path):
        return Sampling(self, self.service.kept[path][0])

    def save_weights_and_get_sampling_client(self):
        if self.service.first is None:
            self.service.first = self.state()[0]
        return Sampling(self, self.service.first if self.service.stale else self.state()[0])


class Sampling:
    def __init__(self, training, weights):
        self.training = training
        self.model = copy.deepcopy(training.model)
        self.model.load_state_dict(weights)

    def compute_logprobs(self, ids):
        with torch.no_grad():
            return done([None, *self.training.logprobs(self.model, ids).tolist()])

    def sample(self, prompt, count, params):
        def work():
            ids, logprobs = list(prompt), []
            noise = torch.Generator().manual_seed(params.seed)
            while len(logprobs) < params.max_tokens and not (logprobs and ids[-1] in params.stop):
                with torch.no_grad():
                    scores = self.model(torch.tensor([ids])).logits[0, -1].log_softmax(-1)
                drawn = torch.multinomial(scores.exp(), 1, generator=noise) if params.temperature else scores.argmax()
                ids.append(int(drawn))
                logprobs.append(float(scores[ids[-1]]))
            return SimpleNamespace(sequences=[SimpleNamespace(tokens=ids[len(prompt) :], logprobs=logprobs)])

        return self.training.service.answer("sample", work)
