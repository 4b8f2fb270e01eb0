"""Logic: what follows from what is said."""

from rlvr.envs.core.registry import register

register("rlvr/TruthCount-v0", "rlvr.envs.logic.propositional:TruthCount")
register("rlvr/Satisfiability-v0", "rlvr.envs.logic.propositional:Satisfiability")
register("rlvr/UnsatisfiableCore-v0", "rlvr.envs.logic.propositional:UnsatisfiableCore")
register("rlvr/Entailment-v0", "rlvr.envs.logic.propositional:Entailment")
register("rlvr/ForwardChaining-v0", "rlvr.envs.logic.propositional:ForwardChaining")
register("rlvr/KnightsAndKnaves-v0", "rlvr.envs.logic.islanders:KnightsAndKnaves")
register("rlvr/Spies-v0", "rlvr.envs.logic.islanders:Spies")
register("rlvr/Zebra-v0", "rlvr.envs.logic.zebra:Zebra")
register("rlvr/Ordering-v0", "rlvr.envs.logic.zebra:Ordering")
register("rlvr/Syllogisms-v0", "rlvr.envs.logic.syllogisms:Syllogisms")
register("rlvr/FamilyTree-v0", "rlvr.envs.logic.relations:FamilyTree")
register("rlvr/Directions-v0", "rlvr.envs.logic.relations:Directions")
register("rlvr/SetAlgebra-v0", "rlvr.envs.logic.relations:SetAlgebra")
register("rlvr/SwapTracking-v0", "rlvr.envs.logic.tracking:SwapTracking")
register("rlvr/FalseBeliefs-v0", "rlvr.envs.logic.tracking:FalseBeliefs")
register("rlvr/DiceRolling-v0", "rlvr.envs.logic.tracking:DiceRolling")
register("rlvr/Seating-v0", "rlvr.envs.logic.tracking:Seating")
register("rlvr/NaturalDeduction-v0", "rlvr.envs.logic.natural_deduction:NaturalDeduction")
register("rlvr/EquationalProof-v0", "rlvr.envs.logic.equational_proof:EquationalProof")
register("rlvr/Rocq-v0", "rlvr.envs.logic.rocq.task:Rocq")
