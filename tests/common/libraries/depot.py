"""A library whose systems go through all archetypes with its components, with workspace as large as these can be."""

from functools import cached_property

from torch_batchsim import (
    Archetype,
    Bundle,
    Component,
    Entity,
    Library,
    Repeat,
    TaskGraph,
    component,
    f32,
    i32,
    u8,
    u32,
)


class Place(Component):
    x: i32


class Weight(Component):
    kilos: i32


class Mark(Component):
    number: i32
    of: Entity  # itself


class Rope(Component):
    load: Entity


class Summary(Component):
    count: i32
    hash: i32
    weighed: i32
    pulled: i32  # the load's place among all that have a weight, -1 where it is gone
    mean: f32


class Tally(Component):
    score: i32


class Depot(Library):
    name = "depot"
    systems = "depot.h"
    components = (Place, Weight, Mark, Rope)
    singletons = (Summary, Tally)
    load = Bundle(Place, Weight)
    take_stock = TaskGraph("list_all", "sort_loads", "pull", "weigh", Repeat(2, "compare"))
    begin = TaskGraph("compare")

    def prepare(self):
        self.add_constants(most=self.most_rows(Place), loads=self.most_rows(Place, Weight))

    @cached_property
    def sheet(self):
        return component("Sheet", x=i32[self.constants.most], kind=u8[self.constants.most])

    @cached_property
    def ledger(self):
        n = self.constants.loads
        return component("Ledger", x=i32[n], kilos=i32[n], rank=i32[n], share=f32[n])

    @cached_property
    def board(self):  # of three worlds
        n = 3 * self.constants.loads
        return component("Board", first=u32[4], world=u32[n], x=i32[n], kilos=i32[n], score=i32[n])

    @property
    def workspace(self):
        return [self.sheet, self.ledger, self.board]

    @property
    def archetypes(self):
        return [Archetype("Posts", Place, count=2), Archetype("Note", Rope, capacity=self.most_rows(Place, Weight))]
