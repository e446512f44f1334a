// ---- vectors: columns of 4 x 4 matrices, as WebGL has them ----------------------------------------------------------
const sub = (a, b) => a.map((v, i) => v - b[i]), add = (a, b) => a.map((v, i) => v + b[i]);
const dot = (a, b) => a.reduce((sum, v, i) => sum + v * b[i], 0), times = (a, s) => a.map(v => v * s);
const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
const unit = a => times(a, 1 / (Math.hypot(...a) || 1));
function product(a, b) {
  const m = new Float32Array(16);
  for (let c = 0; c < 4; c++) for (let r = 0; r < 4; r++)
    for (let k = 0; k < 4; k++) m[4 * c + r] += a[4 * k + r] * b[4 * c + k];
  return m;
}
function looking(eye, target, up) {
  const back = unit(sub(eye, target)), right = unit(cross(up, back)), over = cross(back, right);
  return new Float32Array([right[0], over[0], back[0], 0, right[1], over[1], back[1], 0, right[2], over[2], back[2], 0,
    -dot(right, eye), -dot(over, eye), -dot(back, eye), 1]);
}
function perspective(angle, aspect, near, far) {
  const f = 1 / Math.tan(angle / 2), d = 1 / (near - far);
  return new Float32Array([f / aspect, 0, 0, 0, 0, f, 0, 0, 0, 0, (far + near) * d, -1, 0, 0, 2 * far * near * d, 0]);
}
function placed([w, x, y, z], [px, py, pz], [sx, sy, sz]) {  // a turned and scaled body
  return new Float32Array([
    sx * (1 - 2 * (y * y + z * z)), sx * 2 * (x * y + w * z), sx * 2 * (x * z - w * y), 0,
    sy * 2 * (x * y - w * z), sy * (1 - 2 * (x * x + z * z)), sy * 2 * (y * z + w * x), 0,
    sz * 2 * (x * z + w * y), sz * 2 * (y * z - w * x), sz * (1 - 2 * (x * x + y * y)), 0, px, py, pz, 1]);
}

// ---- meshes: triangles with normals ---------------------------------------------------------------------------------
function flat(vertices, faces) {
  const out = [];
  for (const loop of faces) {
    const [a, b, c] = loop.map(i => vertices[i]), normal = unit(cross(sub(b, a), sub(c, a)));
    for (let i = 2; i < loop.length; i++)
      for (const corner of [loop[0], loop[i - 1], loop[i]]) out.push(...vertices[corner], ...normal);
  }
  return out;
}
function cube() {
  const v = [];
  for (const z of [-1, 1]) for (const y of [-1, 1]) for (const x of [-1, 1]) v.push([x, y, z]);
  return flat(v, [[0, 2, 3, 1], [4, 5, 7, 6], [0, 1, 5, 4], [2, 6, 7, 3], [0, 4, 6, 2], [1, 3, 7, 5]]);
}
function capsule(radius, half) {  // along z; a sphere without a half length
  const out = [], rings = 12, around = 24, rows = [];
  for (let i = 0; i <= rings; i++) {
    const a = -Math.PI / 2 + Math.PI * i / rings;
    rows.push([Math.cos(a), Math.sin(a), -half]);
    if (i === rings / 2) rows.push([1, 0, half]);
    if (i >= rings / 2) rows[rows.length - 1][2] = half;
  }
  const at = ([c, s, h], j) => {
    const a = 2 * Math.PI * j / around, n = [c * Math.cos(a), c * Math.sin(a), s];
    return [radius * n[0], radius * n[1], radius * n[2] + h, ...n];
  };
  for (let i = 1; i < rows.length; i++) for (let j = 0; j < around; j++) {
    const [a, b, c, d] = [at(rows[i - 1], j), at(rows[i - 1], j + 1), at(rows[i], j + 1), at(rows[i], j)];
    out.push(...a, ...b, ...c, ...a, ...c, ...d);
  }
  return out;
}

// ---- the view of bodies ---------------------------------------------------------------------------------------------
const VERTEX = `
attribute vec3 place, normal; uniform mat4 body, view; uniform vec3 stretch; varying vec3 at, up;
void main() { vec4 p = body * vec4(place, 1.0); at = p.xyz;
  up = mat3(body) * (normal / (stretch * stretch)); gl_Position = view * p; }`;
const FRAGMENT = `
precision highp float; varying vec3 at, up;
uniform vec3 colour, light, sky, eye; uniform float ambient, tile, fade, shade;
void main() {
  if (shade > 0.0) { gl_FragColor = vec4(0.0, 0.0, 0.0, shade); return; }
  float bright = ambient + (1.0 - ambient) * max(dot(normalize(up), light), 0.0);
  vec3 c = colour * bright;
  if (tile > 0.0) { vec2 q = floor(at.xy / tile + 1e-3); c *= mod(q.x + q.y, 2.0) < 0.5 ? 1.0 : 0.94; }
  gl_FragColor = vec4(mix(c, sky, fade > 0.0 ? smoothstep(0.35, 1.0, distance(at, eye) / fade) : 0.0), 1.0);
}`;

class Solids {
  constructor(canvas, film) {
    this.canvas = canvas; this.film = film; this.meshes = new Map();
    const gl = this.gl = canvas.getContext("webgl", { antialias: true, stencil: true });
    if (!gl) throw new Error("This browser has no WebGL, which draws bodies.");
    const program = gl.createProgram();
    for (const [kind, text] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, text); gl.compileShader(shader); gl.attachShader(program, shader);
      if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS)) throw new Error(gl.getShaderInfoLog(shader));
    }
    gl.bindAttribLocation(program, 0, "place"); gl.bindAttribLocation(program, 1, "normal");
    gl.linkProgram(program); gl.useProgram(program);
    this.at = name => gl.getUniformLocation(program, name);
    gl.enable(gl.DEPTH_TEST); gl.enableVertexAttribArray(0); gl.enableVertexAttribArray(1);
  }
  mesh(key, make) {
    if (!this.meshes.has(key)) {
      const gl = this.gl, data = new Float32Array(make()), buffer = gl.createBuffer();
      gl.bindBuffer(gl.ARRAY_BUFFER, buffer); gl.bufferData(gl.ARRAY_BUFFER, data, gl.STATIC_DRAW);
      this.meshes.set(key, { buffer, count: data.length / 6 });
    }
    return this.meshes.get(key);
  }
  shape([kind, , size, hull]) {  // mesh and stretch
    if (kind === "box") return [this.mesh("box", cube), size];
    if (kind === "hull") {
      const { vertices, faces } = this.film.hulls[hull];
      return [this.mesh("hull" + hull, () => flat(vertices, faces)), size];
    }
    if (kind === "sphere") return [this.mesh("sphere", () => capsule(1, 0)), [size[0], size[0], size[0]]];
    return [this.mesh("capsule" + size, () => capsule(size[0], size[1])), [1, 1, 1]];
  }
  draw(camera, orbit, bodies) {
    const gl = this.gl, { canvas } = this, { sky, light, up } = camera, rgb = colourOf;
    const { eye, target } = turned(camera, orbit), far = Math.hypot(...sub(eye, target));
    const horizon = sky[1].map(v => v / 255);
    gl.viewport(0, 0, canvas.width, canvas.height);
    gl.clearColor(...horizon, 1); gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT | gl.STENCIL_BUFFER_BIT);
    const view = product(perspective(camera.angle, canvas.width / canvas.height, 0.02 * far, 60 * far),
      looking(eye, target, up));
    gl.uniformMatrix4fv(this.at("view"), false, view);
    gl.uniform3fv(this.at("light"), light); gl.uniform3fv(this.at("sky"), horizon);
    gl.uniform3fv(this.at("eye"), eye); gl.uniform1f(this.at("ambient"), camera.ambient);
    gl.uniform1f(this.at("shade"), 0);
    const put = (mesh, matrix, stretch) => {
      gl.bindBuffer(gl.ARRAY_BUFFER, mesh.buffer);
      gl.vertexAttribPointer(0, 3, gl.FLOAT, false, 24, 0); gl.vertexAttribPointer(1, 3, gl.FLOAT, false, 24, 12);
      gl.uniformMatrix4fv(this.at("body"), false, matrix); gl.uniform3fv(this.at("stretch"), stretch);
      gl.drawArrays(gl.TRIANGLES, 0, mesh.count);
    };
    let ground = null;
    for (const { style, place, turn } of bodies.filter(body => body.style[0] === "plane")) {
      const wide = 30 * far, [w, x, y, z] = turn, level = Math.abs(x) + Math.abs(y) < 1e-3;
      const size = [wide, wide, wide], middle = level ? [target[0], target[1], place[2]] : place;
      gl.uniform3fv(this.at("colour"), rgb(style[1])); gl.uniform1f(this.at("fade"), wide * 0.3);
      gl.uniform1f(this.at("tile"), level ? camera.tile : 0);
      put(this.mesh("plane", () => flat([[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]], [[0, 1, 2, 3]])),
        placed(turn, middle, size), size);
      if (level) ground = place[2];
    }
    gl.uniform1f(this.at("fade"), 0); gl.uniform1f(this.at("tile"), 0);
    const others = bodies.filter(body => body.style[0] !== "plane").map(({ style, place, turn }) => {
      const [mesh, size] = this.shape(style);
      return { style, mesh, size, matrix: placed(turn, place, size) };
    });
    if (ground !== null && camera.shadows && light[2] > 0.1) {  // thrown on the ground: each pixel is darkened once
      const [a, b] = [light[0] / light[2], light[1] / light[2]], h = ground + 2e-3 * far;
      const thrown = new Float32Array([1, 0, 0, 0, 0, 1, 0, 0, -a, -b, 0, 0, a * h, b * h, h, 1]);
      gl.uniform1f(this.at("shade"), 1 - camera.ambient - 0.1);
      gl.enable(gl.BLEND); gl.blendFunc(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA); gl.depthMask(false);
      gl.enable(gl.STENCIL_TEST); gl.stencilFunc(gl.EQUAL, 0, 255); gl.stencilOp(gl.KEEP, gl.KEEP, gl.INCR);
      for (const { mesh, size, matrix } of others) put(mesh, product(thrown, matrix), size);
      gl.disable(gl.STENCIL_TEST); gl.disable(gl.BLEND); gl.depthMask(true);
      gl.uniform1f(this.at("shade"), 0);
    }
    gl.enable(gl.POLYGON_OFFSET_FILL);  // of surfaces in one place, as in joints, the same one is always in front
    others.forEach(({ style, mesh, size, matrix }, i) => {
      gl.polygonOffset(0, 2 * i); gl.uniform3fv(this.at("colour"), rgb(style[1]));
      put(mesh, matrix, size);
    });
    gl.disable(gl.POLYGON_OFFSET_FILL);
  }
}
const colourOf = text => [1, 3, 5].map(i => parseInt(text.slice(i, i + 2), 16) / 255);

// The eye of a camera, turned about its target, or what it follows, and moved towards it; and both moved aside.
function turned({ eye, target, up }, orbit) {
  const way = sub(eye, target), distance = Math.hypot(...way) * orbit.distance, across = Math.hypot(way[0], way[1]);
  const around = Math.atan2(way[1], way[0]) + orbit.around;
  const limit = Math.PI / 2 - 0.01;
  const over = Math.min(Math.max(Math.atan2(way[2], across) + orbit.over, -limit), limit);
  const aside = [Math.cos(over) * Math.cos(around), Math.cos(over) * Math.sin(around), Math.sin(over)];
  const middle = add(orbit.at || target, orbit.aside);
  return { eye: add(middle, times(aside, distance)), target: middle, up };
}

// ---- flat shapes ----------------------------------------------------------------------------------------------------
class Flats {
  constructor(film) { this.film = film; }
  size([kind, , corners]) {  // how many numbers a shape has
    return { rectangle: 4, line: 4, polygon: 2 * corners }[kind] || 2;
  }
  draw(context, style, numbers, at) {
    const { pixel, styles } = this.film, [kind, colour] = style, n = i => numbers[at + i] / pixel;
    context.fillStyle = context.strokeStyle = colour;
    context.beginPath();
    if (kind === "rectangle") {
      context.fillRect(Math.min(n(0), n(2)), Math.min(n(1), n(3)), Math.abs(n(2) - n(0)), Math.abs(n(3) - n(1)));
    } else if (kind === "circle") {
      context.arc(n(0), n(1), Math.max(style[2], 0), 0, 2 * Math.PI); context.fill();
    } else if (kind === "line") {
      context.lineWidth = style[2]; context.moveTo(n(0), n(1)); context.lineTo(n(2), n(3)); context.stroke();
    } else if (kind === "polygon") {
      for (let i = 0; i < style[2]; i++) context.lineTo(n(2 * i), n(2 * i + 1));
      filled(context, style[3]);
    } else if (kind === "text") {
      written(context, style, n(0), n(1));
    } else {
      const [, width, height, shapes] = styles[colour];  // a stamp, whose second entry is its sprite
      context.save();
      context.translate(Math.round(n(0) - width / 2), Math.round(n(1) - height / 2));
      context.beginPath(); context.rect(0, 0, width, height); context.clip();
      for (const [number, ...places] of shapes) this.draw(context, styles[number], places, 0);
      context.restore();
    }
  }
}

function filled(context, opacity) {
  context.globalAlpha = opacity; context.fill("evenodd"); context.globalAlpha = 1;
}
function written(context, [, , text, scale, align], x, y) {
  const width = Math.max(6 * text.length - 1, 0) * scale;
  context.save();
  context.font = `600 ${9.6 * scale}px "DejaVu Sans Mono", Menlo, Consolas, monospace`;
  context.textBaseline = "alphabetic";
  const own = context.measureText(text).width || 1;
  context.translate(x - align * width, y + 3.5 * scale);
  context.scale(width / own, 1); context.fillText(text, 0, 0);
  context.restore();
}

// ---- shapes at points in space, over the bodies ---------------------------------------------------------------------
class Spaces {
  constructor(camera, orbit) {
    const { eye, target, up } = turned(camera, orbit), ahead = unit(sub(target, eye)), right = unit(cross(ahead, up));
    Object.assign(this, { eye, ahead, right, over: cross(right, ahead), camera });
    this.near = 0.02 * Math.hypot(...sub(target, eye));
  }
  seen(point) { const way = sub(point, this.eye); return [this.right, this.over, this.ahead].map(axis => dot(way, axis)); }
  at([x, y, z]) {
    const { width, height, angle } = this.camera, scale = height / 2 / Math.tan(angle / 2) / z;
    return [width / 2 + scale * x, height / 2 - scale * y];
  }
  cut(a, b) {  // the ends of the part of a line before the camera
    const [da, db] = [a[2] - this.near, b[2] - this.near];
    if (da <= 0 && db <= 0) return [];
    const between = add(a, times(sub(b, a), da / (da - db || 1)));
    return [da <= 0 ? between : a, db <= 0 ? between : b];
  }
  draw(context, style, points) {
    const [kind, colour] = style, places = points.map(point => this.seen(point));
    context.save();
    context.beginPath(); context.rect(0, 0, this.camera.width, this.camera.height); context.clip();
    context.beginPath();
    context.fillStyle = context.strokeStyle = colour;
    if (kind === "label") {
      if (places[0][2] > this.near) written(context, style, ...this.at(places[0]));
    } else if (kind === "area") {
      places.forEach((start, i) => {
        const end = places[(i + 1) % places.length], cut = this.cut(start, end);
        for (const corner of end[2] <= this.near ? cut : cut.slice(0, 1)) context.lineTo(...this.at(corner));
      });
      filled(context, style[3]);
    } else {
      context.lineWidth = style[3];
      for (let i = 1; i < places.length; i++) {
        const cut = this.cut(places[kind === "path" ? i - 1 : 0], places[i]);
        if (cut.length) { context.moveTo(...this.at(cut[0])); context.lineTo(...this.at(cut[1])); }
      }
      context.stroke();
    }
    context.restore();
  }
}

// ---- layers, which buttons show or hide -----------------------------------------------------------------------------
const layers = new Map();  // by name, whether it is shown
function addLayers(styles, place, show) {
  for (const [kind, name, shown] of styles) {
    if (kind !== "layer" || !name || layers.has(name)) continue;
    const button = document.createElement("button"), press = () => button.setAttribute("aria-pressed", layers.get(name));
    layers.set(name, shown);
    button.textContent = name; button.title = `Show or hide: ${name}`; press();
    button.addEventListener("click", () => { layers.set(name, !layers.get(name)); press(); show(); });
    place.append(button);
  }
}

// ---- a world --------------------------------------------------------------------------------------------------------
const BODIES = ["sphere", "capsule", "box", "hull", "plane"], IN_SPACE = ["label", "path", "beams", "area"];
const home = () => ({ around: 0, over: 0, distance: 1, aside: [0, 0, 0] });
const clamped = distance => Math.min(Math.max(distance, 0.05), 10);

// Draws moments of worlds. A film has styles, layouts, hulls, and how many integers a pixel, a metre and a turn are. It
// may grow. Bodies are drawn on a canvas of WebGL, which is behind the flat shapes; a browser lends few of these.
class Painter {
  constructor(film) { this.film = film; this.flats = new Flats(film); this.solids = null; this.camera = null; }
  get isSolid() { return this.film.styles.some(style => style[0] === "camera"); }
  // A moment with its top left corner where the context's transform has it; ``scale``: from its pixels to the canvas's.
  paint(context, layout, numbers, width, height, scale, orbit) {
    const { film } = this, bodies = [], ids = film.layouts[layout];
    let at = 0, next = 0, camera = null;
    const metres = count => Array.from({ length: count }, () => numbers[at++] / film.metre);
    for (; next < ids.length; next++) {
      const style = film.styles[ids[next]], kind = style[0];
      if (kind === "background") {
        this.background = style[1];
      } else if (kind === "camera") {
        const [, up, light, angle, ambient, tile, shadows, sky, width, height] = style;
        const colours = sky.map(v => [v >> 16, v >> 8 & 255, v & 255]);
        camera = { eye: metres(3), target: metres(3), up, light, angle, ambient, tile, shadows, sky: colours,
          width, height };
      } else if (BODIES.includes(kind)) {
        bodies.push({ style, place: metres(3), turn: Array.from({ length: 4 }, () => numbers[at++] / film.turn) });
      } else break;
    }
    context.save();
    context.beginPath(); context.rect(0, 0, width, height); context.clip();
    if (camera) {
      this.solids = this.solids || new Solids(document.createElement("canvas"), film);
      const { canvas } = this.solids;
      const [w, h] = [camera.width, camera.height].map(size => Math.max(1, Math.round(size * scale)));
      if (canvas.width !== w || canvas.height !== h) { canvas.width = w; canvas.height = h; }
      this.solids.draw(camera, orbit, bodies);
      context.drawImage(canvas, 0, 0, camera.width, camera.height);
    } else {
      context.fillStyle = this.background; context.fillRect(0, 0, width, height);
    }
    const spaces = camera && new Spaces(camera, orbit);
    let shown = true;
    for (; next < ids.length; next++) {
      const style = film.styles[ids[next]], [kind, name] = style;
      if (kind === "layer") {
        shown = !name || layers.get(name);
      } else if (IN_SPACE.includes(kind)) {
        const points = Array.from({ length: kind === "label" ? 1 : style[2] }, () => metres(3));
        if (shown) spaces.draw(context, style, points);
      } else {
        if (shown) this.flats.draw(context, style, numbers, at);
        at += this.flats.size(style);
      }
    }
    context.restore();
    this.camera = camera;
  }
}

// Lets a pointer turn, move and zoom the orbits that ``changed`` gives its function. ``camera()``: the one that is seen.
function steered(canvas, camera, orbit, changed) {
  const held = new Map();
  const pan = (dx, dy) => {
    const { eye, target, up } = turned(camera(), orbit()), back = sub(eye, target);
    const right = unit(cross(up, back)), over = unit(cross(back, right));
    const scale = 2 * Math.hypot(...back) * Math.tan(camera().angle / 2) / canvas.clientHeight;
    const by = add(times(right, -dx * scale), times(over, dy * scale));
    changed(each => { each.aside = add(each.aside, by); });
  };
  canvas.classList.add("solid");
  canvas.addEventListener("contextmenu", event => event.preventDefault());
  canvas.addEventListener("pointerdown", event => {
    held.set(event.pointerId, [event.clientX, event.clientY]); canvas.setPointerCapture(event.pointerId);
  });
  const free = event => held.delete(event.pointerId);
  canvas.addEventListener("pointerup", free); canvas.addEventListener("pointercancel", free);
  canvas.addEventListener("pointermove", event => {
    const before = held.get(event.pointerId);
    if (!before) return;
    const [dx, dy] = [event.clientX - before[0], event.clientY - before[1]];
    const spread = () => { const [a, b] = [...held.values()]; return Math.hypot(a[0] - b[0], a[1] - b[1]); };
    const gap = held.size === 2 ? spread() : 0;
    held.set(event.pointerId, [event.clientX, event.clientY]);
    if (gap) changed(each => { each.distance = clamped(each.distance * gap / Math.max(spread(), 1)); });
    else if (event.shiftKey || event.buttons & 6) pan(dx, dy);
    else changed(each => { each.around -= 0.008 * dx; each.over += 0.008 * dy; });
  });
  canvas.addEventListener("wheel", event => {
    event.preventDefault();
    changed(each => { each.distance = clamped(each.distance * Math.exp(0.0012 * event.deltaY)); });
  }, { passive: false });
}

function fit(canvas, left, top, width, height, sharp) {
  const style = { left: left + "px", top: top + "px", width: width + "px", height: height + "px" };
  Object.assign(canvas.style, style);
  const [w, h] = [Math.max(1, Math.round(width * sharp)), Math.max(1, Math.round(height * sharp))];
  if (canvas.width !== w || canvas.height !== h) { canvas.width = w; canvas.height = h; }
}
function cleared(canvas) {  // wholly: scaled, a rest of the pixels at its edges would stay
  const context = canvas.getContext("2d");
  context.setTransform(1, 0, 0, 1, 0, 0); context.clearRect(0, 0, canvas.width, canvas.height);
  return context;
}
const $ = id => document.getElementById(id);
const short = value => String(Math.round(value * 1000) / 1000);
