"""A framework whose signatures have changed: one sentence that names what it takes, and what the adapter gives."""

from __future__ import annotations

import pytest

from rlvr.adapters.versions import check_call, check_override

TESTED = ("pytest", "1.16", "1.17")  # a distribution that is here


class Trainer:
    """One as the adapter knows it, and as it could become."""

    def generate(self, prompt_ids: list[int], images: None, num_generations: int = 1) -> None: ...

    def changed(self, prompt_ids: list[int], *, engine: str) -> None: ...

    def open(self, *arguments: object, **options: object) -> None: ...


class Known:
    """An environment class of a framework's."""

    async def step(self, action: str, *, extra: object = None) -> int: ...

    async def wider(self, action: str, turn: int, *, extra: object = None) -> int: ...


class Ours(Known):
    """An adapter's."""

    async def step(self, action: str, *, extra: object = None) -> int: ...

    async def narrow(self, action: str) -> int: ...

    async def takes_all(self, *given: object, **named: object) -> int: ...


def test_what_still_fits_is_silent():
    check_call(Trainer().generate, TESTED, "prompts", "images", "number")
    check_call(Trainer().open, TESTED, "prompts", "images", "number")
    check_override(Known.step, Ours.step, TESTED)
    check_override(Known.wider, Ours.takes_all, TESTED)
    check_override(len, Ours.takes_all, TESTED)


@pytest.mark.parametrize("name", ["changed", "gone"])
def test_a_call_that_cannot_be_made_is_one_sentence(name: str):
    theirs = getattr(Trainer(), name, None)
    with pytest.raises(ImportError) as raised:
        check_call(theirs, TESTED, "prompts", "images", "number")
    said = str(raised.value)
    assert "(prompts, images, number)" in said
    assert "pip install 'pytest>=1.16,<1.17'" in said
    assert "\n" not in said
    if theirs is not None:
        assert "Trainer.changed takes (prompt_ids, *, engine)" in said


@pytest.mark.parametrize("theirs", [Known.step, Known.wider])
def test_an_override_that_takes_too_little_is_one_sentence(theirs: object):
    with pytest.raises(ImportError) as raised:
        check_override(theirs, Ours.narrow, TESTED)
    said = str(raised.value)
    assert f"calls {theirs.__qualname__}(self, action" in said
    assert "Ours.narrow of its adapter takes (self, action)" in said
    assert "\n" not in said


def test_a_method_that_is_called_no_more_is_one_sentence():
    with pytest.raises(ImportError, match=r"calls Ours.step of its adapter no more: .*pip install 'pytest"):
        check_override(getattr(Known, "gone", None), Ours.step, TESTED)
