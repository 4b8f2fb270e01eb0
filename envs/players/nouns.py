"""A small list of words with what is true of each: the relations that clues may use. Written for this project."""

from __future__ import annotations

from typing import Final

_TABLE: Final = """
apple food plant round sweet        arrow sharp fast wood               axe tool sharp metal
ball round toy small                banana food plant sweet             barn building large wood
basket wood home round              bear animal large wild              bee animal small flying sharp
bell metal round loud               bicycle vehicle metal               boat vehicle water wood
book home paper                     bread food soft                     bridge building large metal
broom tool home wood                bus vehicle large metal             cactus plant sharp hot
cake food sweet soft                camel animal large hot              candle home hot small
carrot food plant sharp             castle building large stone         cat animal small soft home
cave stone large wild               cheese food soft                    church building large loud
cloud flying soft cold              coat clothing soft                  cow animal large
cup home small round                deer animal wild fast               desk home wood
drum loud round toy                 duck animal water flying            eagle animal flying wild fast sharp
egg food small round                elephant animal large wild          engine metal loud hot
feather small soft flying           fire hot wild                       fish animal water food
flute loud wood small               fork tool metal sharp home food     fox animal wild fast
frog animal small water             glove clothing soft small           goat animal wild
grape food plant small round sweet  hammer tool metal loud              hat clothing soft round
honey food sweet                    horse animal large fast             ice cold water
iron metal hot tool                 jacket clothing soft                jar home round small
kettle home metal hot               kite toy flying paper               knife tool metal sharp home
lake water large                    lamp home hot                       lemon food plant round
letter paper small                  lion animal large wild              map paper
melon food plant round sweet large  mill building large                 mirror home
mouse animal small                  mushroom food small wild            nail metal small sharp
needle tool metal small sharp       nest wood small wild                ocean water large wild
onion food plant round              orange food plant round sweet       owl animal flying wild
oven home metal hot                 palace building large stone         pen tool small
pepper food plant hot               piano loud large wood               pillow home soft
pin metal small sharp               plane vehicle flying fast large     plate home round
rabbit animal small fast soft       radio loud home                     rain water cold
river water large                   robot toy metal                     rocket vehicle flying fast loud
rope tool                           rose plant sharp wild               sand stone small hot
saw tool metal sharp loud           scarf clothing soft                 shark animal water wild fast sharp
sheep animal soft                   ship vehicle water large            shoe clothing
snow cold soft water                soup food hot                       spider animal small wild
spoon tool metal home               stove home hot metal                sugar food sweet small
sun hot round large                 swan animal water flying            sword metal sharp
table home wood                     tent building soft                  thunder loud wild
tiger animal large wild fast        tower building large stone          train vehicle metal fast loud large
tree plant large wood wild          truck vehicle large loud            trumpet loud metal
tulip plant soft                    turtle animal water                 umbrella home
violin loud wood                    wagon vehicle wood                  wall building stone
whale animal water large            whistle loud small toy              wolf animal wild fast
yacht vehicle water fast            zebra animal wild fast
"""


def _entries() -> dict[str, tuple[str, ...]]:
    cells = (cell.split() for line in _TABLE.splitlines() for cell in line.split("  ") if cell.strip())
    return {noun: tuple(properties) for noun, *properties in cells}


# Of each noun, what is true of it.
PROPERTIES: Final[dict[str, tuple[str, ...]]] = _entries()
NOUNS: Final = tuple(PROPERTIES)
