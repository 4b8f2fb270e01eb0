"""Made-up names: enough of them that no two worlds share many, and none that a model could have read about."""

from __future__ import annotations

import random
from collections.abc import Callable

FIRST = (
    "Ada Agnes Alba Anton Arne Astrid Basil Beate Bruno Carla Cyril Dagny Daria Edgar Elif Elsa Emil Enzo Esther "
    "Farid Fiona Flora Gerda Gideon Greta Hanna Hugo Ida Igor Ilse Ivo Jana Jonas Judith Karim Klara Lars Lena Leo "
    "Lidia Magnus Mara Milo Mina Nadia Niels Nora Olaf Olga Oskar Petra Quentin Rana Rosa Ruben Selma Simon Stella "
    "Tamar Theo Tilda Ulla Uma Viktor Vera Wanda Werner Yara Yusuf Zelda"
).split()
_TOWN_HEAD = (
    "Al Bar Bel Bren Cal Cor Dal Dor El Esk Fal Fen Gar Gil Hal Har Ils Jor Kel Kor Lan Lor Mar Mel Nar Nor Ol Or Pel "
    "Quar Ral Ros Sel Sten Tal Tor Ul Ver Wal Yar"
).split()
_TOWN_TAIL = (
    "aby ane aven berg borough by dale den don esk fell ford gate ham haven holm isle kirk leigh ley mere mont mouth "
    "ness port rock stead stoke ton wick"
).split()
_SURNAME_HEAD = (
    "Ab Ack Ban Bex Bor Cal Cron Dan Del Dro Eb Fal Fen Gar Gold Hart Hol Ing Jan Kem Kro Lam Lin Mar Mor Nas Nor Ost "
    "Pal Quin Ren Sand Sol Tam Tor Ul Var Wes Yel Zan"
).split()
_SURNAME_TAIL = (
    "adine aldi anov ard asek bury ceti dahl dorf ell enko eri eson field ger ian iga ini kan lund man ner oro ski vik"
).split()
RIVERS = (
    "Alder Amber Arrow Ash Birch Brack Cinder Clay Crane Dove Ember Fern Flint Frost Gull Hazel Heron Iron Juniper "
    "Kestrel Lark Linden Marl Mist Moss Nettle Oak Otter Pike Plover Quill Raven Reed Rowan Rush Silver Slate Sorrel "
    "Swift Teal Thorn Umber Vale Willow Wren"
).split()
PROFESSIONS = (
    "architect astronomer baker botanist carpenter cartographer chemist composer cooper dentist diver engraver farmer "
    "geologist glazier gardener judge locksmith mason midwife miller notary painter pilot potter printer sculptor "
    "surgeon tailor translator veterinarian violinist weaver welder"
).split()
PRODUCTS = (
    "anchors balances barometers bells bicycles boots bricks buttons candles chairs clocks compasses cutlery drums "
    "engines gloves hats kettles ladders lamps lenses locks maps mirrors needles organs paints paper pianos pumps "
    "ropes sails saws scales tents thimbles toys umbrellas violins wheels"
).split()
HOUSES = ("& Sons", "& Daughters", "Works", "Mills", "Foundry", "Brothers", "Company", "Union")
COLOURS = (
    "Amber Black Blue Brass Bronze Copper Crimson Golden Green Grey Ivory Jade Olive Pearl Red Scarlet Silver Violet "
    "White"
).split()
BEINGS = (
    "Badger Bear Crow Crane Falcon Fox Hare Hawk Heron Horse Lion Lynx Otter Owl Ox Rook Salmon Seal Stag Swan Wolf"
).split()
THINGS = (
    "Anvil Arch Bell Bridge Candle Crown Door Feather Gate Hammer Key Ladder Lantern Mirror Needle Oar Ring Sail "
    "Tower Wheel"
).split()
_FAIRS = "Congress Exhibition Fair Festival Games Market Parade Regatta Show Summit".split()


def town(rng: random.Random) -> str:
    return rng.choice(_TOWN_HEAD) + rng.choice(_TOWN_TAIL)


def surname(rng: random.Random) -> str:
    return rng.choice(_SURNAME_HEAD) + rng.choice(_SURNAME_TAIL)


def person(rng: random.Random) -> str:
    return f"{rng.choice(FIRST)} {surname(rng)}"


def firm(rng: random.Random) -> str:
    return f"{surname(rng)} {rng.choice(HOUSES)}"


def event(rng: random.Random) -> str:
    return f"{rng.choice(COLOURS)} {rng.choice(THINGS)} {rng.choice(_FAIRS)}"


def byname(rng: random.Random) -> str:
    """What somebody or something is also called."""
    return f"the {rng.choice(COLOURS)} {rng.choice(BEINGS)}"


def distinct(draw: Callable[[random.Random], str], rng: random.Random, count: int, taken: set[str]) -> list[str]:
    """So many names that are new; they are added to ``taken``."""
    names: list[str] = []
    while len(names) < count:
        name = draw(rng)
        if name not in taken:
            taken.add(name)
            names.append(name)
    return names
