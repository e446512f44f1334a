"""The library ``rays``: its options, and the components of scenes, cameras and pictures."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from ..declare.library import Library
from ..declare.options import Constants, Option
from ..declare.schema import Component, TaskGraph, component
from ..physics import Physics, Pose, Shape
from ..types import Entity, boolean, f32, i32, quat, u8, u32, vec3


class View(Component):
    """A camera that looks along its own y axis, x to the right, z up.

    In a row with a ``physics.Pose`` it moves with that body, which it does not see.
    """

    position: vec3  # of the pinhole, in the frame of the body or the world, metres
    rotation: quat  # to that frame; made by rays::looking(forward)
    field_of_view: f32  # from bottom to top, radians, above 0, below pi
    near: f32  # visible depths, metres along the axis
    far: f32
    mask: u32  # groups of bodies (physics.Filter); 0: all


class Paint(Component):
    """Optional: a body's colour in pictures. Without it all rows of an archetype have one."""

    colour: u32  # 0xRRGGBB


class Gathered(Component):
    """Written by ``Rays.gather`` and read by ``Rays.update``, so that no task graph has only the latter."""

    done: boolean


class Rays(Library):
    """Rays: the fragment ``Rays.gather`` prepares a world's bodies for ``rays::cast`` and others in later systems.

    An environment lists the library in ``libraries``, and ``Rays.gather`` in each task graph whose systems cast rays.
    After it in the same graph ``Rays.update`` gathers again only what ``Physics.simulate`` may have moved.
    Archetypes with ``View`` and some of ``depth``, ``segmentation`` and ``picture`` (of the instance,
    ``self.libraries.rays``) are cameras: ``Rays.draw`` fills them. See docs/rays.md.

    Options:
        width, height: of pictures, pixels.
        shadows: bodies throw shadows in pictures, at the cost of a second ray for each pixel.
        faces: a world's room for faces of hulls. 0: eight for each body, at least 64, at most those that can exist.
            More are the fault ``rays.faces``; hulls without room are invisible.

    Raises ValueError for options out of range.
    """

    name = "rays"
    uses = (Physics,)
    systems = "rays/library.h"
    faults = {  # sentences in the order of their numbers in csrc/rays
        "faces": "the hulls of the scene have {value} faces, and {faces} have room: raise the option rays.faces",
        "view": (
            "{row}.rays.View.position or physics.Pose.position is not finite (metres)",
            "{row}.rays.View.rotation or physics.Pose.rotation is 0 or not finite: rays::looking(forward) makes one",
            "{row}.rays.View.field_of_view must be above 0 and below pi (radians)",
            "{row}.rays.View.near must not be below 0, and View.far above it and finite (metres)",
        ),
    }
    gather = TaskGraph("gather")
    update = TaskGraph("update")
    draw = TaskGraph("draw")
    constants = Constants(
        width=Option(64, minimum=1, maximum=4096, help="of pictures, pixels"),
        height=Option(64, minimum=1, maximum=4096, help="of pictures, pixels"),
        shadows=Option(False, help="bodies throw shadows in pictures"),
        faces=Option(0, minimum=0, maximum=65536, help="of hulls in a world; 0: eight for each body"),
    )

    def prepare(self) -> None:
        bodies = max(self.most_rows(Pose, Shape), 1)
        most = max((len(hull.faces) for hull in self.libraries.physics.hulls.values()), default=0)
        faces = self.constants.faces or max(1, min(bodies * most, max(64, 8 * bodies)))
        self.constants = type(self.constants)({**self.constants, "faces": faces})
        self.add_constants(places=-(-bodies // 16) * 16)

    @cached_property
    def scene(self) -> type[Component]:
        """The bodies of a world, as csrc/rays/scene.h takes them."""
        n, f = self.constants.places, self.constants.faces
        columns: dict[str, Any] = {"count": u32, "bodies": u32, "aligned": u32[n // 16]}
        columns |= dict.fromkeys((part + axis for part in ("", "low_", "high_") for axis in "xyz"), f32[n])
        columns |= {"groups": u32[n], "kind": i32[n], "radius": f32[n], "length": f32[n], "frame": f32[9, n]}
        columns |= {"first_face": u32[n], "faces": u32[n], "face": f32[f, 4]}
        columns |= {"archetype": i32[n], "colour": u32[n], "entity": Entity[n]}
        return component("Scene", **columns)

    @cached_property
    def depth(self) -> type[Component]:
        """A camera's depths: metres along its axis, ``View.far`` without a body."""
        return component("Depth", metres=f32[self._shape])

    @cached_property
    def segmentation(self) -> type[Component]:
        """A camera's bodies, as ``rays::Hit.body``, and their archetypes, as ``Entity::table``; -1 without a body."""
        return component("Segmentation", body=i32[self._shape], archetype=i32[self._shape])

    @cached_property
    def picture(self) -> type[Component]:
        """A camera's picture in red, green and blue."""
        return component("Picture", pixels=u8[(*self._shape, 3)])

    @property
    def components(self) -> list[type[Component]]:  # type: ignore[override]
        return [View, Paint, self.depth, self.segmentation, self.picture]

    @property
    def _shape(self) -> tuple[int, int]:
        """Of pictures: rows from the top, columns."""
        return self.constants.height, self.constants.width

    @property
    def singletons(self) -> list[type[Component]]:
        return [self.scene, Gathered]

    @property
    def scratch(self) -> list[type[Component]]:
        return [self.scene, Gathered]
