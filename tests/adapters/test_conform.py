"""`rlvr conform`: a right gateway keeps every law, and each planted fault breaks the law that is named for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

from rlvr.adapters.conformance.client import GatewayClient
from rlvr.adapters.conformance.decoders import TokenizerDecoder
from rlvr.adapters.conformance.evidence import CONVERSATIONS, Evidence, NoDecoder
from rlvr.adapters.conformance.laws import LAWS, LawReport, judge
from rlvr.adapters.conformance.probes import Probes

from .gateways import FAULTS, Body, FaultyGateway, GatewayFault, RightGateway, each_choice, logprobs_of, table
from .test_serve_model import lively_policy

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def right() -> Iterator[RightGateway]:
    from rlvr.agents.models.tiny import CHAT_TEMPLATE

    model, tokenizer = lively_policy(end=1)
    tokenizer.chat_template = CHAT_TEMPLATE
    with RightGateway((model, tokenizer), name="right", api_key=None) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def remembered() -> dict[str, Any]:
    return {}


def conform(gateway: FaultyGateway, decoder: Any) -> dict[str, LawReport]:
    client = GatewayClient(gateway.url, "right")
    client.discover()
    exchanges = Probes(client, getattr(decoder, "markers", ())).play()
    conversations = [[each for each in exchanges if each.probe == name] for name in CONVERSATIONS]
    reports = judge(Evidence(exchanges, decoder, conversations, client.offers))
    return {report.law: report for report in reports}


def breaks(reports: dict[str, LawReport]) -> dict[str, str]:
    return {law: f"{report.breaks[0]}" for law, report in reports.items() if report.outcome == "broken"}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_right_gateway_keeps_every_law(right: RightGateway) -> None:
    with FaultyGateway(right, None, None) as gateway:
        reports = conform(gateway, TokenizerDecoder("rlvr/tiny"))
    assert breaks(reports) == {}
    assert {law: report.outcome for law, report in reports.items()} == dict.fromkeys([law.id for law in LAWS], "holds")


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_found(fault: GatewayFault, right: RightGateway, remembered: dict[str, Any]) -> None:
    with FaultyGateway(right, fault, remembered) as gateway:
        found = breaks(conform(gateway, TokenizerDecoder("rlvr/tiny")))
    assert fault.law in found, found


# the same gateway, showing less: its ids stand in the names of tokens, or it has no more than texts and counts


def ids_as_names(choice: Body) -> None:
    ids = choice.pop("token_ids", None)
    for token, each in zip(ids or (), logprobs_of(choice), strict=True):
        each["token"] = f"token_id:{token}"


def texts_alone(body: Body) -> None:
    body.pop("prompt_token_ids", None)
    for choice in body["choices"]:
        choice.pop("token_ids", None)
        choice["logprobs"] = None


def each_chunk(change: Callable[[Body], None]) -> Callable[[list[Body]], list[Body]]:
    def chunks(stream: list[Body]) -> list[Body]:
        for chunk in stream:
            change(chunk)
        return stream

    return chunks


NAMES = GatewayFault("names", "", "", answer=each_choice(ids_as_names), chunks=each_chunk(each_choice(ids_as_names)))
TEXTS = GatewayFault("texts", "", "", answer=texts_alone, chunks=each_chunk(texts_alone))


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("decoded", [True, False])
@pytest.mark.parametrize("form", [None, NAMES, TEXTS], ids=["ids", "names", "texts"])
def test_a_right_gateway_that_shows_less_breaks_nothing(
    form: GatewayFault | None, decoded: bool, right: RightGateway, remembered: dict[str, Any]
) -> None:
    with FaultyGateway(right, form, remembered) as gateway:
        reports = conform(gateway, TokenizerDecoder("rlvr/tiny") if decoded else NoDecoder())
    assert breaks(reports) == {}
    unknown = {law for law, report in reports.items() if report.outcome == "unknown"}
    if form is TEXTS:
        assert unknown >= {"prefix", "mask", "decoding", "logprobs", "scored", "usage"}
    elif not decoded:
        assert unknown >= {"decoding"}


def test_the_page_shows_the_table_of_the_faults() -> None:
    assert table() in (ROOT / "docs" / "conform.md").read_text(encoding="utf-8")
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 12
    assert {fault.law for fault in FAULTS} <= {law.id for law in LAWS}
