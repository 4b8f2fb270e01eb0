"""`rlvr export --format otel`: OpenTelemetry's own exporter writes the same spans, and knows their names."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
from hypothesis import given, settings

from rlvr.adapters.export.otel import EVALUATION, spans_record
from rlvr.agents.evaluation.records import write_episodes
from rlvr.cli import main
from rlvr.envs import Verdict

from ..agents.test_episode import EPISODE
from .test_export import made, token_episode


def spans_of(record):
    (resource,) = record["resourceSpans"]
    return resource["scopeSpans"][0]["spans"]


def plain(value):
    """What an attribute's value says."""
    ((kind, held),) = value.items()
    return (
        [plain(each) for each in held["values"]] if kind == "arrayValue" else int(held) if kind == "intValue" else held
    )


def attributes(holder):
    return {each["key"]: plain(each["value"]) for each in holder["attributes"]}


def played(**fields):
    episode = token_episode()
    episode.agent = {"model": "org/name", "sampling": {"temperature": 0.5, "max_tokens": 64}}
    episode.usage = {
        "prompt_tokens": 9,
        "completion_tokens": 4,
        "model_seconds": 2.0,
        "env_seconds": 1.0,
        "ended": 100.0,
    }
    return replace(episode, **fields)


def test_an_episode_is_a_span_with_a_span_for_each_turn():
    whole, first, last = spans_of(spans_record(played(prefix=1)))
    assert [each["name"] for each in (whole, first, last)] == ["invoke_agent rlvr/Made-v0", *["chat org/name"] * 2]
    assert {each["parentSpanId"] for each in (first, last)} == {whole["spanId"]}
    times = [(int(each["startTimeUnixNano"]), int(each["endTimeUnixNano"])) for each in (whole, first, last)]
    assert times == [(97 * 10**9, 100 * 10**9), (97 * 10**9, 98_500_000_000), (98_500_000_000, 100 * 10**9)]
    said = attributes(first)
    assert said["gen_ai.request.temperature"] == 0.5
    assert said["rlvr.expert"] is True
    (answered,) = json.loads(said["gen_ai.output.messages"])
    assert answered["parts"][-1] == {"type": "tool_call", "name": "search", "arguments": '{"query": "é"}'}
    assert attributes(whole)["gen_ai.usage.output_tokens"] == 4
    assert spans_record(played()) == spans_record(played())
    (resource,) = spans_record(played())["resourceSpans"]
    said = attributes(resource["resource"])
    assert (said["rl.environment.name"], said["rl.model.name"]) == ("rlvr/Made-v0", "org/name")


def test_a_verdict_is_an_evaluation_and_a_fault_no_0():
    parts = {"format": 0.25}
    episode = played(verdict=Verdict(1.0, "correct", "4", "right", parts))
    verdict, part = map(attributes, spans_of(spans_record(episode))[0]["events"])
    name = "gen_ai.evaluation"
    assert (verdict[f"{name}.score.label"], verdict[f"{name}.score.value"]) == ("correct", 1.0)
    assert (part[f"{name}.name"], part[f"{name}.score.value"]) == ("format", 0.25)
    fault, *_ = spans_of(spans_record(played(verdict=Verdict(0.0, "env_error", reason="it fell"))))
    (event,) = fault["events"]
    assert f"{name}.score.value" not in attributes(event)
    assert attributes(event)["error.type"] == attributes(fault)["error.type"] == "env_error"
    assert fault["status"] == {"code": 2, "message": "it fell"}
    assert spans_of(spans_record(played(verdict=Verdict(0.0, "env_error"))))[0]["status"] == {"code": 2}
    assert "events" not in spans_of(spans_record(played(verdict=None)))[0]


def test_the_command_writes_a_trace_a_line(tmp_path, capsys):
    write_episodes(tmp_path / "a.jsonl", [made(1), made(2)])
    out = tmp_path / "spans.jsonl"
    assert main(["export", str(tmp_path / "a.jsonl"), "--format", "otel", "--out", str(out)]) == 0
    assert len({spans_of(json.loads(line))[0]["traceId"] for line in out.read_text().splitlines()}) == 2
    assert main(["export", str(tmp_path / "a.jsonl"), "--format", "otel", "--out", str(tmp_path / "x.parquet")]) == 2
    assert "otel is JSONL" in capsys.readouterr().err


@pytest.mark.foreign
@settings(max_examples=50, deadline=None)
@given(EPISODE)
def test_its_own_exporter_writes_the_same_spans(episode):
    pytest.importorskip("opentelemetry.exporter.otlp.json.file")
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.json.file import FileSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider, id_generator
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as names

    record = spans_record(episode)

    class Ids(id_generator.IdGenerator):
        def generate_span_id(self):
            return int(span["spanId"], 16)

        def generate_trace_id(self):
            return int(span["traceId"], 16)

    written, memory = io.StringIO(), InMemorySpanExporter()
    provider = TracerProvider(id_generator=Ids(), resource=Resource(attributes(record["resourceSpans"][0]["resource"])))
    provider.add_span_processor(SimpleSpanProcessor(FileSpanExporter(stream=written)))
    provider.add_span_processor(SimpleSpanProcessor(memory))
    scope = record["resourceSpans"][0]["scopeSpans"][0]["scope"]
    tracer, parent = provider.get_tracer(scope["name"], scope["version"]), None
    for span in spans_of(record):
        status = {2: trace.StatusCode.ERROR, None: trace.StatusCode.UNSET}[span["status"].get("code")]
        made = tracer.start_span(
            span["name"],
            parent and trace.set_span_in_context(parent),
            trace.SpanKind(span["kind"] - 1),
            attributes(span),
            start_time=int(span["startTimeUnixNano"]),
        )
        for event in span.get("events", []):
            made.add_event(event["name"], attributes(event), int(event["timeUnixNano"]))
        made.set_status(status, span["status"].get("message"))
        made.end(int(span["endTimeUnixNano"]))
        parent = parent or made
        assert {event["name"] for event in span.get("events", [])} <= {EVALUATION}
    theirs = [json.loads(line)["resourceSpans"][0]["scopeSpans"][0] for line in written.getvalue().splitlines()]
    assert [each["scope"] for each in theirs] == [scope] * len(spans_of(record))
    assert [each["spans"][0] for each in theirs] == spans_of(record)
    known = {value for name, value in vars(names).items() if name.startswith("GEN_AI_")}
    operations = {each.value for each in names.GenAiOperationNameValues}
    for span in memory.get_finished_spans():
        said = [span.attributes, *(event.attributes for event in span.events)]
        assert {key for held in said for key in held if key.startswith("gen_ai.")} <= known
        assert span.attributes["gen_ai.operation.name"] in operations
