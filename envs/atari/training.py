"""Settings of the bundled trainer: some of those of OpenAI's baselines for Atari, untried here."""

TRAINING = {
    "": {
        "total_steps": 10_000_000,
        "num_steps": 128,
        "learning_rate": 2.5e-4,
        "threads": 1,
    },
}
