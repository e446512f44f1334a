"""Benchmarks: ``python -m torch_batchsim.bench cartpole --num-envs 1024 16384``. Speed lives here, never in tests."""
