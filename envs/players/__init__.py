"""Games of several seats. Each is registered as a task in which the policy has one seat and bots have the others."""

from importlib.util import find_spec

from rlvr.envs.core.registry import register
from rlvr.envs.players.openspiel_names import OPENSPIEL

register("rlvr/KuhnPoker-v0", "rlvr.envs.players.single:AsSingleAgent", game="KuhnPoker")
register("rlvr/LeducPoker-v0", "rlvr.envs.players.single:AsSingleAgent", game="LeducPoker")
register("rlvr/NoLimitHoldem-v0", "rlvr.envs.players.single:AsSingleAgent", game="NoLimitHoldem")
register("rlvr/LiarsDice-v0", "rlvr.envs.players.single:AsSingleAgent", game="LiarsDice")
register("rlvr/LiarsDiceTable-v0", "rlvr.envs.players.single:AsSingleAgent", game="LiarsDiceTable")
register("rlvr/Pig-v0", "rlvr.envs.players.single:AsSingleAgent", game="Pig")
register("rlvr/PigTable-v0", "rlvr.envs.players.single:AsSingleAgent", game="PigTable")
register("rlvr/TicTacToeDuel-v0", "rlvr.envs.players.single:AsSingleAgent", game="TicTacToeDuel")
register("rlvr/CubicTicTacToe-v0", "rlvr.envs.players.single:AsSingleAgent", game="CubicTicTacToe")
register("rlvr/WildTicTacToe-v0", "rlvr.envs.players.single:AsSingleAgent", game="WildTicTacToe")
register("rlvr/UltimateTicTacToe-v0", "rlvr.envs.players.single:AsSingleAgent", game="UltimateTicTacToe")
register("rlvr/ConnectFourDuel-v0", "rlvr.envs.players.single:AsSingleAgent", game="ConnectFourDuel")
register("rlvr/NimDuel-v0", "rlvr.envs.players.single:AsSingleAgent", game="NimDuel")
register("rlvr/DotsAndBoxes-v0", "rlvr.envs.players.single:AsSingleAgent", game="DotsAndBoxes")
register("rlvr/Mancala-v0", "rlvr.envs.players.single:AsSingleAgent", game="Mancala")
register("rlvr/Othello-v0", "rlvr.envs.players.single:AsSingleAgent", game="Othello")
register("rlvr/Breakthrough-v0", "rlvr.envs.players.single:AsSingleAgent", game="Breakthrough")
register("rlvr/Checkers-v0", "rlvr.envs.players.single:AsSingleAgent", game="Checkers")
register("rlvr/Chess-v0", "rlvr.envs.players.single:AsSingleAgent", game="Chess")
register("rlvr/Hex-v0", "rlvr.envs.players.single:AsSingleAgent", game="Hex")
register("rlvr/BattleshipDuel-v0", "rlvr.envs.players.single:AsSingleAgent", game="BattleshipDuel")
register("rlvr/Goofspiel-v0", "rlvr.envs.players.single:AsSingleAgent", game="Goofspiel")
register("rlvr/Blotto-v0", "rlvr.envs.players.single:AsSingleAgent", game="Blotto")
register("rlvr/PrisonersDilemma-v0", "rlvr.envs.players.single:AsSingleAgent", game="PrisonersDilemma")
register("rlvr/StagHunt-v0", "rlvr.envs.players.single:AsSingleAgent", game="StagHunt")
register("rlvr/Chicken-v0", "rlvr.envs.players.single:AsSingleAgent", game="Chicken")
register("rlvr/RockPaperScissors-v0", "rlvr.envs.players.single:AsSingleAgent", game="RockPaperScissors")
register("rlvr/MatchingPennies-v0", "rlvr.envs.players.single:AsSingleAgent", game="MatchingPennies")
register("rlvr/PriceNegotiation-v0", "rlvr.envs.players.single:AsSingleAgent", game="PriceNegotiation")
register("rlvr/ShareNegotiation-v0", "rlvr.envs.players.single:AsSingleAgent", game="ShareNegotiation")
register("rlvr/WordChain-v0", "rlvr.envs.players.single:AsSingleAgent", game="WordChain")
register("rlvr/Clues-v0", "rlvr.envs.players.single:AsSingleAgent", game="Clues")
register("rlvr/HanabiSmall-v0", "rlvr.envs.players.single:AsSingleAgent", game="HanabiSmall")
register("rlvr/GuideAndWalker-v0", "rlvr.envs.players.single:AsSingleAgent", game="GuideAndWalker")
register("rlvr/Debate-v0", "rlvr.envs.players.single:AsSingleAgent", game="Debate")
register("rlvr/UserAndAgent-v0", "rlvr.envs.players.single:AsSingleAgent", game="UserAndAgent")
register("rlvr/ProposerSolver-v0", "rlvr.envs.players.single:AsSingleAgent", game="ProposerSolver")
register("rlvr/SealedAuction-v0", "rlvr.envs.players.single:AsSingleAgent", game="SealedAuction")
register("rlvr/VickreyAuction-v0", "rlvr.envs.players.single:AsSingleAgent", game="VickreyAuction")
if find_spec("pyspiel") is not None:
    for _name in OPENSPIEL:
        register(f"rlvr/openspiel.{_name}-v0", "rlvr.envs.players.single:AsSingleAgent", game=f"openspiel.{_name}")
