"""``rlvr conform``: whether a gateway gives a trainer what was sampled."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlvr.cli.options import key_of, nonnegative, port, require_new

if TYPE_CHECKING:
    from rlvr.adapters.conformance.evidence import Decoder
    from rlvr.adapters.conformance.laws import LawReport

ADDRESSES = ("http://", "https://")


def conform(options: argparse.Namespace, rest: list[str]) -> int:
    """Judge a gateway by probes or by what passes through a recorder, or judge a recording; 1 where a law breaks."""
    is_address = options.target.startswith(ADDRESSES)
    if not is_address and not Path(options.target).is_file():
        raise ValueError(f"{options.target} is neither an address (http://HOST/v1) nor the file of a recording")
    if not is_address and (options.record or options.model):
        raise ValueError("--record and --model are of an address: give http://HOST/v1, or the recording alone")
    if options.record:
        reports = _record(options)
    elif is_address:
        reports = _probe(options)
    else:
        reports = _judge_recording(Path(options.target), options)
    _print(options, reports)
    return int(any(report.outcome == "broken" for report in reports))


def _probe(options: argparse.Namespace) -> list[LawReport]:
    from rlvr.adapters.conformance.client import GatewayClient
    from rlvr.adapters.conformance.evidence import CONVERSATIONS, Evidence
    from rlvr.adapters.conformance.laws import judge
    from rlvr.adapters.conformance.probes import Probes

    if not options.model:
        raise ValueError("--model is missing: the name of the model that the gateway serves")
    client = GatewayClient(options.target, options.model, key_of(options.api_key_env) or "", options.timeout)
    decoder = _decoder(options, client)
    client.discover()
    probes = Probes(client, getattr(decoder, "markers", ()), lambda name: print(f"rlvr: {name} …", file=sys.stderr))
    exchanges = probes.play()
    conversations = [[each for each in exchanges if each.probe == name] for name in CONVERSATIONS]
    return judge(Evidence(exchanges, decoder, conversations, client.offers))


def _record(options: argparse.Namespace) -> list[LawReport]:
    """Stand before the gateway until Ctrl-C, then judge what passed."""
    from rlvr.adapters.conformance.recorder import Recorder
    from rlvr.cli.serve_model import stopped_by_signals

    out = Path(options.record)
    require_new(out, force=False)
    with Recorder(options.target, out, options.port) as recorder, stopped_by_signals() as stopped:
        print(f"recording {options.target} at {recorder.url} into {out} (Ctrl-C ends it)", flush=True)
        stopped.wait()
    return _judge_recording(out, options)


def _judge_recording(path: Path, options: argparse.Namespace) -> list[LawReport]:
    from rlvr.adapters.conformance.laws import judge
    from rlvr.adapters.conformance.recordings import RECORDED_LAWS, evidence_of, read_recording

    return judge(evidence_of(read_recording(path), _decoder(options)), RECORDED_LAWS)


def _decoder(options: argparse.Namespace, client: Any = None) -> Decoder:
    from rlvr.adapters.conformance.decoders import GatewayDecoder, TokenizerDecoder
    from rlvr.adapters.conformance.evidence import NoDecoder

    if options.tokenizer:
        return TokenizerDecoder(options.tokenizer)
    return NoDecoder() if client is None else GatewayDecoder(client)


def _print(options: argparse.Namespace, reports: list[LawReport]) -> None:
    from rlvr.adapters.conformance.laws import to_json, to_text

    if options.json:
        print(to_json({"target": options.target, "model": options.model}, reports))
    else:
        print(to_text(reports))


def add_parsers(commands: Any) -> None:
    """Add ``conform`` to the sub-commands of `rlvr`."""
    conforming = commands.add_parser("conform", help="say at which token a model's gateway breaks which law")
    conforming.add_argument("target", help="http://HOST/v1 of a gateway, or the file of a recording")
    conforming.add_argument("--model", metavar="NAME", help="of the model, as the gateway calls it")
    conforming.add_argument("--tokenizer", metavar="FOLDER", help="of the model: decodes ids, and knows special tokens")
    conforming.add_argument("--api-key-env", metavar="NAME", help="environment variable with the gateway's key")
    conforming.add_argument("--timeout", type=nonnegative, default=120.0, help="seconds that the gateway may be silent")
    conforming.add_argument("--record", metavar="FILE", help="ask nothing: stand before the gateway and record")
    conforming.add_argument("--port", type=port, default=0, help="of the recorder; 0 takes any that is free")
    conforming.add_argument("--json", action="store_true", help="print all findings as JSON")
    conforming.set_defaults(command=conform)
