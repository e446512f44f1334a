"""A library that sorts bodies on a line into buckets."""

from torch_batchsim import (
    Archetype,
    Bundle,
    Component,
    Constants,
    Entity,
    Library,
    Option,
    Parameters,
    TaskGraph,
    f32,
    i32,
)


class Body(Component):
    x: f32
    weight: f32


class Near(Component):
    count: i32  # bodies in its bucket, itself included


class Cell(Component):
    count: i32
    heaviest: f32


class Item(Component):
    body: Entity
    cell: i32
    weight: f32


class Load(Component):
    weight: f32
    bodies: i32


class Ground(Component):
    factor: f32[16]


class Buckets(Library):
    name = "buckets"
    systems = "buckets.h"
    include = ("parts",)
    components = (Body,)
    singletons = (Load,)
    resources = (Ground,)
    constants = Constants(cells=Option(4, minimum=1, maximum=16))
    parameters = Parameters(width=Option(0.25, above=0.0, help="of a bucket"))
    faults = ("outside",)
    body = Bundle(Body, Near)
    build = TaskGraph("clear", "insert", "gather", "count_near")

    @property
    def archetypes(self):
        return [Archetype("Cells", Cell, count=self.constants.cells), Archetype("Items", Item, capacity=64)]

    def resource_values(self):
        return {"Ground.factor": 1.0}
