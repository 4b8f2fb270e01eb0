"""The grammar of mathematical answers: ``latex`` makes tokens of a text, ``expression`` a ``tree`` of them."""
