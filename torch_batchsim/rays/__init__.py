"""Rays through a world of rigid bodies, lidar, lines of sight and cameras: the library ``Rays``, and ``Picture``.

Owns what Python declares of rays, and the pictures that ``Environment.render`` draws on CPU. The systems are in
csrc/rays. It knows physics and the declarations of an environment, and no simulator.
"""

from .library import Paint as Paint
from .library import Rays as Rays
from .library import View as View
from .picture import BodyScene as BodyScene
from .picture import Picture as Picture
