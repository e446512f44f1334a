import os
import sys

from torch_batchsim.base.extras import command_needs

command_needs("tyro", "tqdm", "tensorboard", "matplotlib", "PIL")

from .commands.cli import main  # noqa: E402
from .commands.processes import count  # noqa: E402

status = main()
if count() > 1:  # at the end of Python one of two ended by SIGABRT now and then ("terminate called"), its work done
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
sys.exit(status)
