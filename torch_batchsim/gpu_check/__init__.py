"""Everything that only a GPU can show, in one command: ``python -m torch_batchsim.gpu_check``. See docs/gpu.md."""
