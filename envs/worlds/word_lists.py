"""What text worlds are made of: names of rooms, things, people and places, all our own lists.

No name is the end of another, so that a noun never means two of one list, and none holds a word that joins nouns.
"""

from __future__ import annotations

ROOMS = tuple(
    "kitchen pantry library cellar attic study hall parlour nursery laundry workshop greenhouse chapel armoury gallery "
    "vault dungeon observatory stable courtyard solarium ballroom bathroom bedroom wardrobe smithy bakery aviary "
    "brewery crypt garage scullery theatre washhouse".split()
)

ITEMS = tuple(
    "lantern rope candle compass feather mirror whistle shovel hammer bucket basket blanket pillow teapot spoon fork "
    "violin flute drum kite marble ribbon button thimble needle hourglass telescope magnet abacus globe ladder broom "
    "umbrella glove scarf boot helmet shield saddle horseshoe acorn pinecone seashell pebble walnut parchment inkwell "
    "quill stamp map coin domino".split()
)

TREASURES = tuple(
    "golden crown,silver chalice,jade dragon,ruby necklace,ivory chess set,pearl brooch,emerald ring,crystal skull,"
    "amber idol,sapphire sceptre,opal amulet,marble bust,bronze bell,ebony casket,diamond tiara,enamel egg".split(",")
)

MATERIALS = tuple("brass iron copper steel pewter tin bone nickel zinc lead bamboo porcelain".split())
COLOURS = tuple("red blue green yellow white black purple orange pink grey brown turquoise".split())
WOODS = tuple("oak pine cedar walnut birch ash maple elm beech willow teak larch".split())
SIGNS = tuple("fish owl star moon rose anchor wolf bee crown leaf snake heron".split())
BOXES = tuple("chest trunk crate cabinet drawer coffer barrel hamper locker cupboard bureau sideboard".split())

PEOPLE = tuple(
    "Ada Bruno Clara Dmitri Elena Felix Greta Hugo Ines Jonas Karla Leo Mira Nils Olga Pablo Quentin Rosa Stefan "
    "Tilda Ugo Vera Wanda Xenia Yusuf Zoe".split()
)

TOWNS = tuple(
    "Alder Brookfield Copperhill Dunmore Eastmarch Fernside Goldport Hawksmoor Irongate Juniper Kingsley Larkhill "
    "Millbrook Northby Oakham Pinewood Quarry Ravenna Stonebridge Thornbury".split()
)

GOODS = tuple(
    "wool silk salt pepper copper amber wine cheese timber pottery honey tea saffron leather candles glass iron "
    "barley olives indigo".split()
)

SHOPS = tuple(
    "bakery butcher florist library pharmacy school museum theatre bank barber cafe cinema dentist garage gym hospital "
    "hotel laundry market observatory".split()
)
