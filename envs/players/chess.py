"""Chess by the rules of the package python-chess (module ``chess``, the extra ``games``)."""

from __future__ import annotations

import random
import re
from functools import lru_cache
from typing import Any, Final, NamedTuple

from rlvr.envs.players.game import SeatGame

MISSING: Final = 'chess needs python-chess, which is not installed: pip install "rlvr[games]"'
PIECES: Final = {"knight": "n", "bishop": "B", "rook": "r", "queen": "q", "king": "k", "pawn": "p"}  # b is also a file
WORTHS: Final = (0, 100, 310, 325, 500, 930, 0)  # of no piece, pawn, knight, bishop, rook, queen, king
FIFTY: Final = 100  # moves of both seats without capture or pawn move that end the game as a draw
# "Bc4" with its capital: small letters would make it a move of the b pawn.
_BISHOP: Final = re.compile(r"(?<![A-Za-z0-9])B(?=(?:[a-h]?[1-8]?x?[a-h]|[A-Ha-h]?[1-8]?[Xx][A-Ha-h])[1-8](?![0-9]))")
_NUMBER: Final = re.compile(r"^\d{1,3}\.{1,3} ?")
_JOINTS: Final = re.compile(
    r" e\.?p\.?$| en passant$|\b(?:takes|captures|to|from|on|promotes|promoting|and)\b|[x=:() -]"
)
_SHORT: Final = re.compile(
    r"(?:o-o|0-0|oo|00)|(?:castles? ?(?:short|king ?side|on the king ?side)|king ?side castl(?:e|ing))"
)
_LONG: Final = re.compile(
    r"(?:o-o-o|0-0-0|ooo|000)|(?:castles? ?(?:long|queen ?side|on the queen ?side)|queen ?side castl(?:e|ing))"
)


def require_chess() -> Any:
    """The module of python-chess.

    Raises:
        ImportError: it is missing; names the extra that brings it.
    """
    try:
        import chess
    except ImportError:
        raise ImportError(MISSING) from None
    return chess


class ChessState(NamedTuple):
    """``fen`` is the position in the notation of Forsyth and Edwards.

    ``seen`` holds the positions since the last capture or pawn move, each with its castling rights and en passant.
    """

    fen: str
    seen: tuple[str, ...]
    plies: int = 0
    last: str = ""


class Chess(SeatGame[ChessState]):
    """Chess: checkmate the other's king; draws by stalemate, repetition, fifty moves or too few pieces.

    Args:
        moves: of each seat; after them the game is a draw.
        fen: the position that a match begins with.

    Raises:
        ImportError: python-chess is missing.
        ValueError: fewer than one move, no legal position, or one in which the game is over.
    """

    title = "Chess"
    opening = (0, 10)
    nouns = ("move", "square", "piece")

    def __init__(self, moves: int = 60, fen: str = "") -> None:
        chess = require_chess()
        if type(moves) is not int or not 1 <= moves <= 1_000:
            raise ValueError(f"moves must be from 1 to 1000, not {moves!r}")
        if not isinstance(fen, str):
            raise ValueError(f"fen must be a text in the notation of Forsyth and Edwards, not {fen!r:.120}")
        try:
            board = chess.Board(fen or chess.STARTING_FEN)
        except ValueError as error:
            raise ValueError(f"{fen!r:.120} is no position of chess: {error!s:.120}") from None
        if not board.is_valid():
            raise ValueError(f"{fen!r:.120} is no legal position of chess")
        self.moves, self.fen = moves, board.fen()
        if not self.actors(self.start()):
            reason = self.drawn_by(self.start())
            raise ValueError(f"in {fen!r:.120} the game is over: {'a draw by ' * bool(reason)}{reason or 'checkmate'}")
        self.decisions = self.moves  # the moves of a seat

    def rules(self) -> str:
        return (
            "Chess. Seat 0 has the white pieces (capital letters: K king, Q queen, R rook, B bishop, N knight, P pawn) "
            "and seat 1 the black ones (small letters). Who checkmates the other's king wins. The game is a draw by "
            "stalemate, when a position occurs for the third time, after fifty moves of each seat without capture or "
            "pawn move, when no checkmate is possible with the pieces that are left, and after "
            f"{self.moves} moves of each seat. A move is two squares, from and to, such as e2e4; a promotion names the "
            "piece, such as e7e8q; castling is the king's move, such as e1g1. The usual notation is read too: e4, Nf3, "
            "exd5, O-O, e8=Q."
        )

    def start(self) -> ChessState:
        return ChessState(self.fen, (_position(self.fen),))

    def drawn_by(self, state: ChessState) -> str:
        """The rule by which a position is drawn; empty where it is not."""
        facts = _facts(state.fen)
        if not facts.moves:
            return "" if facts.check else "stalemate"
        if facts.insufficient:
            return "too few pieces to checkmate"
        if facts.quiet >= FIFTY:
            return "fifty moves without capture or pawn move"
        if state.seen.count(state.seen[-1]) >= 3:
            return "a position that occurred three times"
        return f"{self.moves} moves of each seat" if state.plies >= 2 * self.moves else ""

    def actors(self, state: ChessState) -> tuple[int, ...]:
        return () if not _facts(state.fen).moves or self.drawn_by(state) else (_mover(state.fen),)

    def legal(self, state: ChessState, seat: int) -> tuple[str, ...]:
        return _facts(state.fen).moves

    def spelled(self, text: str) -> str:
        """Writes the bishop of ``Bc4`` out: in small letters it would be the b pawn."""
        return _BISHOP.sub("bishop ", text)

    def parse(self, view: ChessState, seat: int, words: str) -> str:
        """Also reads ``Nf3``, ``exd5``, ``e2-e4``, ``e2 to e4``, ``bishop takes c4``, ``O-O`` and ``e8=Q+``."""
        words = _NUMBER.sub("", words.strip()).rstrip("+#!?. ")
        if words in _facts(view.fen).moves:
            return words
        spellings = _spellings(view.fen)
        if _LONG.fullmatch(words) or _SHORT.fullmatch(words):
            return spellings.get("0-0-0" if _LONG.fullmatch(words) else "0-0", words)
        for name, letter in PIECES.items():
            words = words.replace(name, letter)
        short = _JOINTS.sub("", words)
        return spellings.get(short) or spellings.get(f"B{short[1:]}" if short.startswith("b") else short, "") or words

    def apply(self, state: ChessState, seat: int, move: str) -> ChessState:
        fen, irreversible = _after(state.fen, move)
        position = _position(fen)
        positions = (position,) if irreversible else (*state.seen, position)
        return ChessState(fen, positions, state.plies + 1, move)

    def can_end(self, state: ChessState, seat: int) -> bool:
        """Whether a move ends the game, without a new position for each move."""
        chess = require_chess()
        board = chess.Board(state.fen)
        if state.plies >= 2 * self.moves - 1 or board.halfmove_clock >= FIFTY - 1 or len(state.seen) > 4:
            return super().can_end(state, seat)
        for move in list(board.legal_moves):
            board.push(move)
            ended = board.is_insufficient_material() or not any(board.generate_legal_moves())
            board.pop()
            if ended:
                return True
        return False

    def returns(self, state: ChessState) -> tuple[float, ...]:
        facts = _facts(state.fen)
        if facts.moves or not facts.check:
            return (0.0, 0.0)
        return (-1.0, 1.0) if _mover(state.fen) == 0 else (1.0, -1.0)

    def show(self, view: ChessState, seat: int) -> str:
        rows = view.fen.split()[0].split("/")
        cells = ["".join("." * int(each) if each.isdigit() else each for each in row) for row in rows]
        lines = [f"{8 - at} {' '.join(row)}" for at, row in enumerate(cells)]
        board = "\n".join([*lines, "  a b c d e f g h"])
        side = f"You have the {('white', 'black')[seat]} pieces."
        facts = _facts(view.fen)
        end = self.drawn_by(view)
        if end:
            side += f" The game is a draw by {end}."
        elif not facts.moves:
            side += f" Seat {_mover(view.fen)} is checkmated."
        elif facts.check:
            side += f" Seat {_mover(view.fen)} is in check."
        return f"{board}\nFEN: {view.fen}\n{side}"

    def expert(self, view: ChessState, seat: int, rng: random.Random) -> str:
        """Mates in one; else the move with the best material after one reply, and the king of the weaker driven."""
        return _best(self, view, seat, rng)


class Facts(NamedTuple):
    """What a position says: its legal moves, check, too few pieces, and moves since a capture or pawn move."""

    moves: tuple[str, ...]
    check: bool
    insufficient: bool
    quiet: int


@lru_cache(maxsize=8192)
def _facts(fen: str) -> Facts:
    board = require_chess().Board(fen)
    moves = tuple(sorted(move.uci() for move in board.legal_moves))
    return Facts(moves, board.is_check(), board.is_insufficient_material(), board.halfmove_clock)


@lru_cache(maxsize=8192)
def _after(fen: str, move: str) -> tuple[str, bool]:
    """The position after a move, and whether no earlier position can come back."""
    chess = require_chess()
    board = chess.Board(fen)
    played = chess.Move.from_uci(move)
    irreversible = board.is_irreversible(played)
    board.push(played)
    return board.fen(en_passant="legal"), irreversible


def _mover(fen: str) -> int:
    return 0 if fen.split()[1] == "w" else 1


def _position(fen: str) -> str:
    """Pieces, who moves, castling and en passant, where a capture en passant is legal."""
    return " ".join(fen.split()[:4])


@lru_cache(maxsize=1024)
def _spellings(fen: str) -> dict[str, str]:
    """The move of each way to write one, as far as it is one alone: ``nf3``, ``nbd2``, ``ed5``, ``e8q``, ``0-0``."""
    chess = require_chess()
    board = chess.Board(fen)
    moves_by_text: dict[str, set[str]] = {}
    for move in board.legal_moves:
        piece = board.piece_type_at(move.from_square)
        start, end = chess.square_name(move.from_square), chess.square_name(move.to_square)
        promoted = chess.piece_symbol(move.promotion) if move.promotion else ""
        letter = "" if piece == chess.PAWN else "B" if piece == chess.BISHOP else chess.piece_symbol(piece)
        ways = {f"{start}{end}{promoted}", f"{letter}{start}{end}{promoted}"}
        if promoted == "b":
            ways |= {f"{way[:-1]}B" for way in ways}
        if piece == chess.PAWN:
            short = f"{start[0]}{end}" if board.is_capture(move) else end
            kind = "B" if promoted == "b" else promoted
            ways |= {f"p{start}{end}{kind}", f"p{end}{kind}", f"{short}{kind}", f"{short}{promoted}"}
        else:
            ways |= {f"{letter}{end}", f"{letter}{start[0]}{end}", f"{letter}{start[1]}{end}"}
        if board.is_castling(move):
            ways.add("0-0" if board.is_kingside_castling(move) else "0-0-0")
        for way in ways:
            moves_by_text.setdefault(way, set()).add(move.uci())
    return {way: next(iter(moves)) for way, moves in moves_by_text.items() if len(moves) == 1}


def _best(game: Chess, view: ChessState, seat: int, rng: random.Random) -> str:
    """The move of the highest worth; ties are broken at random."""
    chess = require_chess()
    board = chess.Board(view.fen)
    earlier = set(view.seen) if len(view.seen) >= 4 else ()  # both sides go and come back: four moves
    ranked = []
    for text in game.legal(view, seat):
        move = chess.Move.from_uci(text)
        board.push(move)
        if board.is_checkmate():
            return text
        worth = _worth(chess, board) + rng.random()
        again = bool(earlier) and board.epd(en_passant="legal") in earlier
        if again or board.is_stalemate() or board.is_insufficient_material():
            worth = min(worth, 0.0) if _material(board, not board.turn) > 0 else max(worth, 0.0)
        board.pop()
        ranked.append((worth, text))
    return max(ranked)[1]


def _material(board: Any, side: bool) -> int:
    """Pieces of a side less those of the other."""
    masks = (0, board.pawns, board.knights, board.bishops, board.rooks, board.queens, 0)
    return sum(
        worth * ((mask & board.occupied_co[side]).bit_count() - (mask & board.occupied_co[not side]).bit_count())
        for worth, mask in zip(WORTHS, masks, strict=True)
    )


def _worth(chess: Any, board: Any) -> float:
    """What a position is worth to who has just moved, once the other has taken the most that it can."""
    other, mover = board.turn, not board.turn
    lead = _material(board, mover)
    loss = 0
    for move in board.generate_legal_captures():
        gain = WORTHS[board.piece_type_at(move.to_square) or chess.PAWN]
        if board.is_attacked_by(mover, move.to_square):
            gain -= WORTHS[board.piece_type_at(move.from_square) or 0] or gain
        loss = max(loss, gain)
    worth = float(lead - loss)
    for square in chess.scan_forward(board.pawns & board.occupied_co[mover]):
        row = chess.square_rank(square) if mover else 7 - chess.square_rank(square)
        worth += 2 * row * row
    middle = (chess.BB_CENTER, 12), (chess.BB_BACKRANKS & (board.knights | board.bishops), -12)
    worth += sum(value * (mask & board.occupied_co[mover]).bit_count() for mask, value in middle)
    if lead > 300 and (board.occupied_co[other] & ~board.pawns).bit_count() <= 3:  # an endgame: the king is driven
        king, weak = board.king(mover), board.king(other)
        edge = max(abs(2 * chess.square_rank(weak) - 7), abs(2 * chess.square_file(weak) - 7))
        flights = sum(1 for move in board.generate_legal_moves(from_mask=chess.BB_SQUARES[weak]))
        worth += 10 * edge - 6 * chess.square_manhattan_distance(king, weak) - 8 * flights
    return float(worth)
