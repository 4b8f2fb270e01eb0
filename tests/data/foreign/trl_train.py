"""`trl_completions_00001.parquet`: GRPO of TRL 1.16.0 on what `build_tiny("tiny")` of rlvr writes"""

from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer


def length(completions, **kwargs):
    return [float(len(completion[0]["content"]) > 10) for completion in completions]


def vowels(completions, **kwargs):
    return [float("e" in completion[0]["content"]) / 2 for completion in completions]


prompts = [[{"role": "user", "content": f"What is {n} + 2?"}] for n in range(4)]
arguments = GRPOConfig(
    output_dir="run",
    max_steps=2,
    per_device_train_batch_size=4,
    num_generations=2,
    max_completion_length=12,
    log_completions=True,
    report_to="none",
    save_strategy="no",
    use_cpu=True,
    logging_steps=1,
    bf16=False,
)
GRPOTrainer(
    "tiny", reward_funcs=[length, vowels], args=arguments, train_dataset=Dataset.from_dict({"prompt": prompts})
).train()
