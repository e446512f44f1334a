import sys

from torch_batchsim.extras import command_needs

command_needs("tyro", "tqdm", "tensorboard", "matplotlib", "PIL")

from .cli import main  # noqa: E402

sys.exit(main())
