"""stable_baselines3: PPO and DQN learn a little of CartPole."""

import torch
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.evaluation import evaluate_policy

torch.set_num_threads(1)
for make, options, steps in (
    (PPO, {"n_steps": 64, "batch_size": 32, "n_epochs": 2}, 128),
    (DQN, {"learning_starts": 32, "batch_size": 16}, 96),
):
    model = make("MlpPolicy", "CartPole-v1", seed=0, device="cpu", **options)
    model.learn(steps)
    weights = sum(p.detach().abs().sum().item() for p in model.policy.parameters())
    print(make.__name__, f"{weights:.4f}")
    print(evaluate_policy(model, model.get_env(), n_eval_episodes=2, warn=False))
