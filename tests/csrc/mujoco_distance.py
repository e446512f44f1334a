"""Signed distances of shapes by MuJoCo's mj_geomDistance, for test_collide.py."""

import mujoco
from shape_pairs import BOX, CAPSULE, HULL, SPHERE, hulls, rotation_matrix


class Distances:
    """A model with two of each shape, whose sizes and places are written before each question."""

    def __init__(self):
        assets, geoms = [], []
        for side in "ab":
            for number, hull in enumerate(hulls()):
                numbers = " ".join(f"{x:.17g}" for x in hull.vertices.ravel())
                assets.append(f'<mesh name="{side}{number}" vertex="{numbers}"/>')
                geoms.append(f'<geom name="{side}{HULL}{number}" type="mesh" mesh="{side}{number}"/>')
            for kind, name, size in ((SPHERE, "sphere", "1"), (CAPSULE, "capsule", "1 1"), (BOX, "box", "1 1 1")):
                geoms.append(f'<geom name="{side}{kind}0" type="{name}" size="{size}"/>')
        text = f"<mujoco><asset>{''.join(assets)}</asset><worldbody>{''.join(geoms)}</worldbody></mujoco>"
        self.model = mujoco.MjModel.from_xml_string(text)
        self.model.opt.ccd_tolerance, self.model.opt.ccd_iterations = 1e-9, 200
        self.model.geom_rbound[:] = 1e6
        self.data = mujoco.MjData(self.model)
        mujoco.mj_forward(self.model, self.data)

    def _place(self, side, body):
        kind, number = int(body["kind"]), int(body["hull"])
        if kind == CAPSULE and body["size"][1] == 0:
            kind = SPHERE  # of a capsule without length MuJoCo has it far from any box
        geom = self.model.geom(f"{side}{kind}{number}").id
        size = body["size"].astype(float)
        if kind == HULL:
            mesh = self.model.mesh(f"{side}{number}").id
            first, count = self.model.mesh_vertadr[mesh], self.model.mesh_vertnum[mesh]
            self.model.mesh_vert[first : first + count] = hulls()[number].vertices * size  # in their order
        else:
            self.model.geom_size[geom] = size
        self.data.geom_xpos[geom] = body["position"]
        self.data.geom_xmat[geom] = rotation_matrix(body["rotation"]).ravel()
        return geom

    def __call__(self, a, b, most):
        """The distance of two bodies, negative where they overlap, or ``most`` if it is more."""
        first, second = self._place("a", a), self._place("b", b)
        return mujoco.mj_geomDistance(self.model, self.data, first, second, most, None)
