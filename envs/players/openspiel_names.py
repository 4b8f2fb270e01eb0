"""The games of OpenSpiel 2.0 that are registered here, and why others are not."""

from typing import Final

OPENSPIEL: Final = tuple(
    "amazons antichess backgammon banqi bargaining battleship blotto breakthrough bridge capture_the_flag checkers "
    "chess chinese_checkers clobber coin_game colored_trails connect_four coop_box_pushing coordinated_mp "
    "crazy_eights crazyhouse cribbage cursor_go dark_chess dark_hex dark_hex_ir dots_and_boxes dou_dizhu "
    "einstein_wurfelt_nicht euchre first_sealed_auction gin_rummy go go_fish gomoku goofspiel hanabi havannah "
    "hearts hex hive kriegspiel kuhn_poker laser_tag latent_ttt leduc_poker lewis_signaling liars_dice "
    "liars_dice_ir lines_of_action maedn mancala markov_soccer matching_pennies_3p matrix_bos matrix_brps matrix_cd "
    "matrix_coordination matrix_mp matrix_pd matrix_rps matrix_rpsw matrix_sh matrix_shapleys_game mnk nim "
    "nine_mens_morris oh_hell oshi_zumo othello oware pentago phantom_go phantom_ttt phantom_ttt_ir pig rbc "
    "repeated_leduc_poker sheriff shogi skat snake social_deduction spades tic_tac_toe tiny_bridge_2p "
    "tiny_bridge_4p tiny_hanabi trade_comm twixt ultimate_tic_tac_toe universal_poker xiangqi y yacht".split()
)
# Left out though their type could be carried.
FAULTY: Final = {"quoridor": "OpenSpiel says that its rules have known faults"}
