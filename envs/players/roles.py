"""HiddenRoles: two spies among five or six seats, who know each other and whom nobody else knows."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from math import prod
from typing import Final, NamedTuple

from rlvr.envs.players.game import CHANCE, SeatGame

SIZES: Final = {5: (2, 3, 2, 3, 3), 6: (2, 3, 4, 3, 4)}  # seats that go on each mission, by the seats of the game
SPIES: Final = 2
NEEDED: Final = 3  # missions that win
PROPOSALS: Final = 3  # of one round; the last goes without a vote
SILENT: Final = "silent"
VOTES: Final = ("approve", "reject")
CARDS: Final = ("support", "sabotage")
TALK, PROPOSE, VOTE, GO, OVER = "talk", "propose", "vote", "go", "over"
_READ_AS: Final = {"yes": "approve", "no": "reject", "accept": "approve", "agree": "approve", "nothing": SILENT}
_ABOUT: Final = re.compile(r"(?:i )?(suspect|accuse|distrust|trust|vouch for|believe) (\d)")
_ROLE: Final = re.compile(r"(\d) is (?:a |an )?(spy|loyal)")

# What the expert believes of others: probabilities of what a seat does, by the roles.
SABOTAGES: Final = {0: (1.0,), 1: (0.2, 0.8), 2: (0.1, 0.8, 0.1)}  # by the spies that go: of none, one, two
APPROVES: Final = {(True, True): 0.85, (True, False): 0.25, (False, True): 0.65, (False, False): 0.35}
SUSPECTS: Final = {(True, True): 0.15, (True, False): 0.85, (False, True): 0.7, (False, False): 0.3}
TRUSTS: Final = {(True, True): 0.5, (True, False): 0.5, (False, True): 0.25, (False, False): 0.75}


class Proposal(NamedTuple):
    """Who was proposed in which round, and how each seat voted; no votes where it went without them."""

    round: int
    team: tuple[int, ...]
    votes: tuple[str, ...] = ()


class Mission(NamedTuple):
    """Who went, and how many of them sabotaged it."""

    team: tuple[int, ...]
    sabotages: int


class RolesState(NamedTuple):
    """``spies`` and, for each mission, who ``sabotaged`` it are empty where hidden; everything else is open.

    ``talk`` has a statement of each seat for each round that has begun with them.
    """

    spies: tuple[int, ...] = ()
    sabotaged: tuple[tuple[int, ...], ...] = ()
    phase: str = TALK
    talk: tuple[tuple[str, ...], ...] = ()
    proposals: tuple[Proposal, ...] = ()
    missions: tuple[Mission, ...] = ()

    @property
    def rejected(self) -> int:
        """Proposals of this round that were voted down."""
        return sum(each.round == len(self.missions) for each in self.proposals)

    @property
    def failed(self) -> int:
        return sum(mission.sabotages > 0 for mission in self.missions)


class HiddenRoles(SeatGame[RolesState]):
    """Hidden roles: two spies among loyal seats; missions are proposed, voted on, and sabotaged in secret.

    The Resistance (Eskridge 2009) with statements that are read by rule in place of free talk.

    Args:
        seats: 5 or 6, of which two are spies.
        talk: whether each round begins with a statement of each seat.
    """

    title = "Hidden roles"
    level_bots = ("mixed:0.2", "mixed:0.1", "expert")
    perfect_information = False
    zero_sum = False
    in_turn = False
    nouns = ("seat", "seats", "and", "team")

    def __init__(self, *, seats: int = 5, talk: bool = True) -> None:
        if seats not in SIZES:
            raise ValueError(f"hidden roles has 5 or 6 seats, not {seats}")
        self.seats, self.talk = seats, talk
        self.sizes = SIZES[seats]
        self.pairs = tuple(combinations(range(seats), SPIES))
        rounds = len(self.sizes)
        # in each round a statement, a vote on all proposals but the last and a mission; and proposals in turn
        self.decisions = rounds * (PROPOSALS + talk) + -(-rounds * PROPOSALS // seats)

    def rules(self) -> str:
        sizes = f"{', '.join(map(str, self.sizes[:-1]))} and {self.sizes[-1]}"
        talk = (
            "A round begins with a statement of each seat, all at once: suspect 3 (seat 3 is a spy), trust 3 (seat 3 "
            "is loyal) or silent. Statements may be false and bind nobody. "
        )
        return (
            f"Hidden roles. Two of {self.seats} seats are spies, drawn by chance, and the others are loyal. The spies "
            "know each other, and a loyal seat knows its own role alone. There are at most five rounds with a mission "
            f"each; in turn {sizes} seats go on them. {talk * self.talk}Then a seat proposes who goes, such as "
            "team 0 2, and all vote at once: approve or reject. More than half must approve; else the next seat "
            "proposes, but the third proposal of a round goes without a vote. Seat 0 proposes first, and the "
            "right to do so passes to the next seat after each proposal. Votes are open. Those who go play support or "
            "sabotage in secret; a loyal seat can only support. All learn how many sabotaged, and one sabotage fails "
            "the mission. Three missions without sabotage win the game for the loyal seats, three that failed win it "
            "for the spies. A seat that forfeits loses the game for all seats of its role."
        )

    def start(self) -> RolesState:
        return RolesState(phase=TALK if self.talk else PROPOSE)

    def teams_in(self, state: RolesState) -> tuple[int, ...]:
        """The spies are team 1 and the loyal seats team 0."""
        return tuple(int(seat in state.spies) for seat in range(self.seats))

    def leader(self, state: RolesState) -> int:
        """Who proposes next, or has made the proposal that is voted on."""
        return (len(state.proposals) - (state.phase in (VOTE, GO))) % self.seats

    def actors(self, state: RolesState) -> tuple[int, ...]:
        if not state.spies:
            return (CHANCE,)
        every = tuple(range(self.seats))
        if state.phase == GO:
            return state.proposals[-1].team
        return {TALK: every, PROPOSE: (self.leader(state),), VOTE: every, OVER: ()}[state.phase]

    def chance(self, state: RolesState) -> list[tuple[str, float]]:
        return [(" ".join(map(str, pair)), 1 / len(self.pairs)) for pair in self.pairs]

    def witnesses(self, state: RolesState, actor: int) -> Sequence[int]:
        if actor == CHANCE:
            return ()
        return (actor,) if state.phase == GO else range(self.seats)

    def legal(self, state: RolesState, seat: int) -> list[str]:
        if state.phase == TALK:
            others = [other for other in range(self.seats) if other != seat]
            return [SILENT, *(f"{verb} {other}" for verb in ("suspect", "trust") for other in others)]
        if state.phase == PROPOSE:
            size = self.sizes[len(state.missions)]
            return ["team " + " ".join(map(str, team)) for team in combinations(range(self.seats), size)]
        if state.phase == VOTE:
            return list(VOTES)
        return list(CARDS) if seat in state.spies else [CARDS[0]]

    def parse(self, view: RolesState, seat: int, words: str) -> str:
        """Also reads ``I suspect seat 3``, ``seat 3 is a spy``, ``seats 2 and 0`` and ``yes``."""
        words = " ".join(word for word in super().parse(view, seat, words.rstrip(".!")).split() if word != "seat")
        if view.phase == TALK:
            if about := _ABOUT.fullmatch(words):
                return f"{'trust' if about[1] in ('trust', 'vouch for', 'believe') else 'suspect'} {about[2]}"
            if role := _ROLE.fullmatch(words):
                return f"{'suspect' if role[2] == 'spy' else 'trust'} {role[1]}"
        if view.phase == PROPOSE:
            named = [word for word in words.removeprefix("i propose ").split() if word not in self.nouns]
            if all(len(word) == 1 for word in named):
                return "team " + " ".join(sorted(named))
        words = words.removeprefix("i ")
        return _READ_AS.get(words, words)

    def apply(self, state: RolesState, seat: int, move: str) -> RolesState:
        numbers = tuple(int(word) for word in move.split() if word.isdigit())
        if seat == CHANCE:
            return state._replace(spies=numbers)
        number = len(state.missions)
        last = state.rejected == PROPOSALS - 1
        proposal = Proposal(number, numbers)
        return state._replace(proposals=(*state.proposals, proposal), phase=GO if last else VOTE)

    def apply_all(self, state: RolesState, moves: Mapping[int, str]) -> RolesState:
        if state.phase == TALK:
            row = tuple(moves[seat] for seat in range(self.seats))
            return state._replace(talk=(*state.talk, row), phase=PROPOSE)
        if state.phase == VOTE:
            votes = tuple(moves[seat] for seat in range(self.seats))
            voted = state.proposals[-1]._replace(votes=votes)
            phase = GO if self.accepted(voted) else PROPOSE
            return state._replace(proposals=(*state.proposals[:-1], voted), phase=phase)
        return self._gone(state, tuple(seat for seat, card in sorted(moves.items()) if card == CARDS[1]))

    def accepted(self, proposal: Proposal) -> bool:
        """Whether more than half have approved of a proposal."""
        return proposal.votes.count(VOTES[0]) > self.seats / 2

    def _gone(self, state: RolesState, saboteurs: tuple[int, ...]) -> RolesState:
        missions = (*state.missions, Mission(state.proposals[-1].team, len(saboteurs)))
        after = state._replace(missions=missions, sabotaged=(*state.sabotaged, saboteurs))
        won = max(after.failed, len(missions) - after.failed) >= NEEDED
        return after._replace(phase=OVER if won else TALK if self.talk else PROPOSE)

    def returns(self, state: RolesState) -> tuple[float, ...]:
        won = int(state.failed >= NEEDED)
        return tuple(1.0 if team == won else -1.0 for team in self.teams_in(state))

    def forfeited(self, seat: int, state: RolesState) -> tuple[float, ...]:
        teams = self.teams_in(state)
        return tuple(-1.0 if team == teams[seat] else 1.0 for team in teams)

    def outcome(self, returns: Sequence[float], seat: int) -> float:
        return 1.0 if returns[seat] > 0 else 0.0

    def view(self, state: RolesState, seat: int) -> RolesState:
        """Hides the spies and their cards from loyal seats until the end."""
        if seat in state.spies or state.phase == OVER:
            return state
        return state._replace(spies=(), sabotaged=())

    # what a seat reads

    def show(self, view: RolesState, seat: int) -> str:
        if view.phase == OVER:
            role = f"The spies were {seats_text(view.spies)}."
        elif seat in view.spies:
            (mate,) = (spy for spy in view.spies if spy != seat)
            role = f"You are a spy, and so is seat {mate}."
        else:
            role = "You are loyal."
        rounds = filter(None, (self._round(view, at) for at in range(len(view.missions) + (view.phase != OVER))))
        due = self._due(view)
        return "\n".join([role, due, *rounds] if view.phase == OVER else [role, *rounds, due])

    def _round(self, view: RolesState, at: int) -> str:
        parts = []
        if at < len(view.talk):
            parts.append(", ".join(f"seat {seat} {spoken(words)}" for seat, words in enumerate(view.talk[at])))
        for number, each in enumerate(view.proposals):
            if each.round == at:
                text = f"seat {number % self.seats} proposes {seats_text(each.team)}"
                if each.votes:
                    approving = [seat for seat, vote in enumerate(each.votes) if vote == VOTES[0]]
                    end = "accepted" if self.accepted(each) else "voted down"
                    text += f", approved by {seats_text(approving)} and {end}"
                parts.append(text)
        if at < len(view.missions):
            team, count = view.missions[at]
            cards = "no sabotage" if not count else "1 sabotage" if count == 1 else f"{count} sabotages"
            parts.append(f"{seats_text(team)} go, {cards}: the mission {'fails' if count else 'succeeds'}")
        return f"Round {at + 1}: {'; '.join(parts)}." if parts else ""

    def _due(self, view: RolesState) -> str:
        at = len(view.missions)
        good = at - view.failed
        score = f"{good} mission{'s' * (good != 1)} succeeded, {view.failed} failed."
        if view.phase == OVER:
            return score
        size, tried = self.sizes[at], view.rejected
        due = {
            TALK: "All make a statement.",
            PROPOSE: f"Seat {self.leader(view)} makes proposal {tried + 1} of at most {PROPOSALS}.",
            VOTE: "All vote on the last proposal.",
            GO: "Those who go play a card in secret.",
        }[view.phase]
        return f"{score} Round {at + 1} of at most {len(self.sizes)}: {size} seats go on the mission. {due}"

    # the expert

    def beliefs(self, view: RolesState, loyal: int = -1) -> dict[tuple[int, ...], float]:
        """The probability of each pair of spies, from what is open; ``loyal`` knows itself to be none of them.

        What a sabotaged mission rules out has probability 0. Votes and statements are weighed by `APPROVES`,
        `SUSPECTS` and `TRUSTS`.
        """
        likelihoods = {pair: self._likelihood(view, pair) for pair in self.pairs if loyal not in pair}
        total = sum(likelihoods.values())
        if not total:  # a spy that pretends to be loyal, where all know better
            return dict.fromkeys(likelihoods, 1 / len(likelihoods))
        return {pair: value / total for pair, value in likelihoods.items()}

    def _likelihood(self, view: RolesState, pair: tuple[int, ...]) -> float:
        value = 1.0
        for team, count in view.missions:
            odds = SABOTAGES[len({*team} & {*pair})]
            value *= odds[count] if count < len(odds) else 0.0
        for each in view.proposals:
            dirty = bool({*each.team} & {*pair})
            for seat, vote in enumerate(each.votes):
                odd = APPROVES[(True, dirty) if seat in pair else (False, seat in each.team)]
                value *= odd if vote == VOTES[0] else 1 - odd
        for row in view.talk:
            value *= prod(_likelihood_of(words, seat in pair, pair) for seat, words in enumerate(row))
        return value

    def expert(self, view: RolesState, seat: int, rng: random.Random) -> str:
        """A loyal seat acts on its beliefs. A spy acts on those that it would have if it were loyal.

        It sabotages, never names its mate, and votes for its own side once a mission can end the game.
        """
        if view.phase == GO:
            return self._card(view, seat, rng)
        beliefs = self.beliefs(view, seat)
        if view.phase == TALK:
            return self._statement(view, seat, beliefs, rng)
        if view.phase == PROPOSE:
            size = self.sizes[len(view.missions)]
            teams = [team for team in combinations(range(self.seats), size) if seat in team and team != view.spies]
            best = max(teams, key=lambda team: (clean(beliefs, team), rng.random()))
            return "team " + " ".join(map(str, best))
        team = view.proposals[-1].team
        if view.spies and NEEDED - 1 in (view.failed, len(view.missions) - view.failed):
            return VOTES[0] if {*view.spies} & {*team} else VOTES[1]
        # a team is as good as the best that the seat which proposes next may be hoped to choose
        following = len(view.proposals) % self.seats
        hoped = max(clean(beliefs, other) for other in combinations(range(self.seats), len(team)) if following in other)
        wanted = self.leader(view) == seat or clean(beliefs, team) >= 0.9 * hoped
        return VOTES[0] if wanted else VOTES[1]

    def _statement(
        self, view: RolesState, seat: int, beliefs: Mapping[tuple[int, ...], float], rng: random.Random
    ) -> str:
        """Names the seat that is most suspected, or trusts one that is hardly suspected."""
        others = [other for other in range(self.seats) if other != seat and other not in view.spies]
        suspicion = {other: 1 - clean(beliefs, (other,)) for other in others}
        worst = max(others, key=lambda other: (suspicion[other], rng.random()))
        best = min(others, key=lambda other: (suspicion[other], rng.random()))
        usual = SPIES / (self.seats - 1)
        if suspicion[worst] > usual + 0.1:
            return f"suspect {worst}"
        return f"trust {best}" if suspicion[best] < usual - 0.1 else SILENT

    @staticmethod
    def _card(view: RolesState, seat: int, rng: random.Random) -> str:
        """Of two spies that go the first sabotages; a spy may spare the first mission, where it is soon found out."""
        going = [other for other in view.proposals[-1].team if other in view.spies]
        if seat not in going or going[0] != seat:
            return CARDS[0]
        succeeded = len(view.missions) - view.failed
        spared = not view.missions and len(view.proposals[-1].team) == 2 and rng.random() < 0.5
        return CARDS[0] if spared and succeeded < NEEDED - 1 else CARDS[1]


def _likelihood_of(words: str, spy: bool, pair: tuple[int, ...]) -> float:
    """How likely a seat is to make a statement, by whether it is a spy and whether whom it names is one."""
    verb, _, number = words.partition(" ")
    if not number:
        return 1.0
    return (SUSPECTS if verb == "suspect" else TRUSTS)[spy, int(number) in pair]


def clean(beliefs: Mapping[tuple[int, ...], float], team: Sequence[int]) -> float:
    """The probability that no spy is in a team."""
    return sum(share for pair, share in beliefs.items() if not {*pair} & {*team})


def seats_text(seats: Iterable[int]) -> str:
    """``seats 0, 2 and 3``."""
    names = list(map(str, seats))
    if len(names) < 2:
        return f"seat {names[0]}" if names else "nobody"
    return f"seats {', '.join(names[:-1])} and {names[-1]}"


def spoken(words: str) -> str:
    """``suspects seat 3`` for ``suspect 3``."""
    verb, _, number = words.partition(" ")
    return f"{verb}s seat {number}" if number else "is silent"
