"""Systems of the bundled environments, translated to Python by hand: to the same bits."""
