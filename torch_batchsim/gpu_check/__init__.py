"""Checks and measurements that need a GPU, in one command: ``python -m torch_batchsim.gpu_check``. See docs/gpu.md."""
