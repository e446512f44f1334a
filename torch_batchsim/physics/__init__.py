"""Rigid bodies with contacts, friction and joints, in three dimensions: the library ``Physics`` and its components.

Owns what Python declares of physics: components, kinds of joints and shapes, hulls, memory. The systems are in
csrc/physics. It knows the declarations of an environment and no simulator.
"""

from .components import Contact as Contact
from .components import ContactForce as ContactForce
from .components import Filter as Filter
from .components import Force as Force
from .components import Mass as Mass
from .components import Material as Material
from .components import Motion as Motion
from .components import MotionKind as MotionKind
from .components import Part as Part
from .components import Pose as Pose
from .components import Shape as Shape
from .components import Velocity as Velocity
from .joints import Joint as Joint
from .joints import JointKind as JointKind
from .library import Physics as Physics
from .poses import rotated as rotated
from .shapes import ShapeKind as ShapeKind
