from ..base.extras import command_needs

command_needs("tyro")

from .cli import main  # noqa: E402

main()
