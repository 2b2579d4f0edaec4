"use strict";
// Draws the tree of lineage on a canvas: one column a generation, one line a branch, only what is in view. The server
// decides how much of a large tree is sent: `most` nodes, and all below the branches in `opened`.
(() => {
  const canvas = document.getElementById("tree");
  if (!canvas) return;
  const COLUMN = 110, ROW = 18, EMPTY = 0.25, SHADES = 24;
  const pen = canvas.getContext("2d");
  const [beside, colour, level, count] = ["beside", "colour", "level", "count"].map((id) => document.getElementById(id));
  const asked = new URLSearchParams(location.search), opened = new Set(asked.getAll("open"));
  let nodes = [], order = [], byId = new Map(), best = new Set(), folded = new Set(), total = 0, turn = 0, shown = 0;
  let chosen = null, view = { x: 20, y: 20, across: 1, down: 1 }, placed = false, frame = 0, frames = 0;
  for (const [box, name] of [[level, "most"], [colour, "colour"]]) {
    if ([...box.options].some((option) => option.value === asked.get(name))) box.value = asked.get(name);
  }

  function address() {
    const query = new URLSearchParams();
    if (!level.selectedOptions[0].defaultSelected) query.set("most", level.value);
    if (colour.selectedIndex) query.set("colour", colour.value);
    for (const id of opened) query.append("open", id);
    history.replaceState(null, "", location.pathname + (query.size ? `?${query}` : "") + location.hash);
    query.delete("colour");
    return query.size ? `?${query}` : "";
  }

  async function renew() {
    const mine = ++turn;
    const answer = await fetch(canvas.dataset.source + address(), { credentials: "same-origin" });
    if (!answer.ok) throw new Error(String(answer.status));
    const json = await answer.json();
    if (mine > shown) { shown = mine; read(json); }
    return Number(answer.headers.get("X-Pace-Again") || 0);
  }

  function read(json) {
    best = new Set(json.best);
    total = json.all;
    nodes = json.id.map((id, at) => ({
      id, age: json.age[at], parent: json.parent[at], score: json.score[at], island: json.island[at],
      outcome: json.outcome[at], hidden: json.hidden[at], children: [], x: 0, y: 0, shade: 0,
    }));
    byId = new Map(nodes.map((node) => [node.id, node]));
    const found = [];
    for (const node of nodes) (byId.get(node.parent)?.children ?? found).push(node);
    const sign = json.direction === "maximize" ? 1 : -1;
    rank(found, sign);
    const known = nodes.filter((node) => node.score !== null).map((node) => node.score).sort((a, b) => sign * (b - a));
    range = [known[Math.floor(known.length * 0.9)] ?? 0, known[0] ?? 1];
    place(found);
    paints();
    if (!placed && nodes.length) { placed = true; chosen = byId.get(json.best.at(-1)) ?? nodes[0]; whole(); }
    if (chosen) chosen = byId.get(chosen.id) ?? null;
    tell();
    draw();
  }

  function tell() {
    const rest = total - nodes.length, said = (number) => number.toLocaleString("en");
    count.textContent = rest ? `${said(nodes.length)} of ${said(total)} candidates drawn` : `${said(total)} candidates`;
  }

  // The branch with the best score first; merits from the leaves, because a child stands after its parent in the list.
  function rank(roots, sign) {
    const merit = new Map();
    for (const node of nodes) merit.set(node, node.score === null ? -Infinity : sign * node.score);
    for (let at = nodes.length - 1; at >= 0; at--) {
      const parent = byId.get(nodes[at].parent);
      if (parent) merit.set(parent, Math.max(merit.get(parent), merit.get(nodes[at])));
    }
    const by = (a, b) => merit.get(b) - merit.get(a) || a.id - b.id;
    roots.sort(by);
    for (const node of nodes) node.children.sort(by);
  }

  let roots = [], range = [0, 1], rows = 0, columns = 0;
  function place(found = roots) {
    roots = found;
    order = [];
    rows = columns = 0;
    let line = 0, fresh = true;
    const waiting = roots.map((node) => [node, 0]).reverse();
    while (waiting.length) {
      const [node, depth] = waiting.pop();
      if (!fresh) line += 1;
      node.x = depth * COLUMN;
      node.y = line * ROW;
      columns = Math.max(columns, depth);
      order.push(node);
      const below = folded.has(node.id) ? [] : node.children;
      for (let at = below.length - 1; at >= 0; at--) waiting.push([below[at], depth + 1]);
      fresh = below.length > 0;
    }
    rows = line + 1;
  }

  // The colours that nodes may have, and which one each has: looked up once, not at every frame.
  let palette = [], ink = "", edge = "", strong = "", faint = "", paper = "", type = 11;
  function paints() {
    const css = getComputedStyle(document.documentElement);
    const named = (name) => css.getPropertyValue(name).trim();
    type = parseFloat(getComputedStyle(canvas).fontSize);
    [ink, edge, strong, faint, paper] = ["--ink", "--edge", "--amber", "--faint", "--card"].map(named);
    const by = colour.value, last = Math.max(1, total);
    palette = by === "outcome" ? [named("--green"), named("--red")]
      : Array.from({ length: SHADES }, (_, at) => by === "island" ? `hsl(${(at * 137) % 360} 55% 50%)`
        : `hsl(${220 - (190 * at) / (SHADES - 1)} 65% 50%)`);
    if (by === "score") palette.push(named("--red"));
    for (const node of nodes) {
      const share = by === "age" ? node.age / last : (node.score - range[0]) / (range[1] - range[0] || 1);
      node.shade = by === "outcome" ? Number(node.outcome !== "ok") : by === "island" ? (node.island ?? 0) % SHADES
        : by === "score" && node.score === null ? SHADES
        : Math.round(Math.min(1, Math.max(0, share)) * (SHADES - 1));
    }
  }

  const circle = (x, y, radius) => { pen.beginPath(); pen.arc(x, y, radius, 0, 7); };
  const draw = () => { frame ||= requestAnimationFrame(paint); };

  // Straight lines as filled boxes and one mark for each spot: that is what keeps a large tree smooth without a card.
  function paint() {
    frame = 0;
    if (nodes.length && !frames++) performance.mark("tree drawn");
    const dots = window.devicePixelRatio || 1, [width, height] = [canvas.clientWidth, canvas.clientHeight];
    for (const [side, room] of [["width", width], ["height", height]]) {
      if (canvas[side] !== Math.round(room * dots)) canvas[side] = Math.round(room * dots);
    }
    const { x, y, across, down } = view;
    pen.setTransform(dots, 0, 0, dots, 0, 0);
    pen.clearRect(0, 0, width, height);
    const size = Math.max(1.5, Math.min(5, 4 * Math.min(across, down))), grain = Math.max(1, Math.floor(size));
    const seen = new Set(), shown = palette.map(() => []), labels = [], lines = [], path = [];
    for (const node of order) {
      const px = node.x * across + x, py = node.y * down + y;
      const below = folded.has(node.id) ? [] : node.children, joint = px + Math.min(12, 0.35 * COLUMN * across);
      const foot = below.length ? below[below.length - 1].y * down + y : py;
      if (foot < -9 || py > height + 9 || px > width || px < -2 * COLUMN * across) continue;
      if (below.length) {
        lines.push(px, py, joint - px, 1);
        if (foot - py > 1) lines.push(joint, Math.max(py, -9), 1, Math.min(foot, height + 9) - Math.max(py, -9));
      }
      const onPath = best.has(node.id);
      if (py < -9) continue;
      const spot = Math.round(px) * 65536 + Math.round(py / grain);
      if (seen.has(spot) && !onPath && node !== chosen) continue;
      seen.add(spot);
      const parent = byId.get(node.parent);
      if (parent) {
        const from = parent.x * across + x + Math.min(12, 0.35 * COLUMN * across), above = parent.y * down + y;
        lines.push(from, py, px - from, 1);
        if (onPath) path.push(from - 12, above - 0.5, 13, 2, from, above, 2, py - above, from, py - 0.5, px - from, 2);
      }
      shown[node.shade].push(px, py);
      labels.push(node, px, py);
    }
    for (const [boxes, ofColour] of [[lines, edge], [path, strong]]) {
      pen.fillStyle = ofColour;
      for (let at = 0; at < boxes.length; at += 4) pen.fillRect(boxes[at], boxes[at + 1], boxes[at + 2], boxes[at + 3]);
    }
    shown.forEach((spots, at) => {
      pen.fillStyle = palette[at];
      for (let i = 0; i < spots.length; i += 2) {
        if (size < 3) { pen.fillRect(spots[i] - size, spots[i + 1] - size, 2 * size, 2 * size); continue; }
        circle(spots[i], spots[i + 1], size);
        pen.fill();
      }
    });
    [pen.font, pen.textBaseline] = [`${type}px system-ui, sans-serif`, "middle"];
    for (let at = 0; at < labels.length; at += 3) label(labels[at], labels[at + 1], labels[at + 2], size);
  }

  function label(node, px, py, size) {
    const inside = (folded.has(node.id) ? node.children.length : 0) + node.hidden;
    if (node === chosen || (inside && view.down >= 0.3)) {
      [pen.strokeStyle, pen.lineWidth] = node === chosen ? [ink, 2] : [faint, 1];
      circle(px, py, size + 2.5);
      pen.stroke();
    }
    const wide = COLUMN * view.across, tall = Math.min(type + 3, ROW * view.down);
    if (node !== chosen && (wide < 5.5 * type || tall < type)) return;
    const score = node.score === null ? "–" : Number(node.score.toPrecision(5)), room = Math.max(80, wide - 24 * view.across);
    const said = `${score} #${node.id}${inside ? ` +${inside.toLocaleString("en")}` : ""}`, left = px + size + 5;
    pen.fillStyle = paper;
    if (node.children.length) pen.fillRect(left - 2, py - tall / 2, Math.min(room, pen.measureText(said).width) + 4, tall);
    pen.fillStyle = best.has(node.id) ? ink : faint;
    pen.fillText(said, left, py, room);
  }

  function whole() {
    const [w, h] = [columns * COLUMN + COLUMN, rows * ROW];
    const fit = (room, size) => Math.max(0.002, Math.min(1.2, (room - 30) / size));
    view = { across: fit(canvas.clientWidth, w), down: fit(canvas.clientHeight, h), x: 15, y: 15 };
    draw();
  }

  function zoom(factor, cx = canvas.clientWidth / 2, cy = canvas.clientHeight / 2) {
    const by = Math.min(4 / Math.max(view.across, view.down), Math.max(0.002 / Math.min(view.across, view.down), factor));
    view = { across: view.across * by, down: view.down * by, x: cx - (cx - view.x) * by, y: cy - (cy - view.y) * by };
    draw();
  }

  function nearest(px, py) {
    let found = null, least = 14 ** 2;
    for (const node of order) {
      const far = (node.x * view.across + view.x - px) ** 2 + (node.y * view.down + view.y - py) ** 2;
      if (far < least) { least = far; found = node; }
    }
    return found;
  }

  function look(node) {
    if (!node) return;
    chosen = node;
    const [px, py] = [node.x * view.across + view.x, node.y * view.down + view.y];
    const room = EMPTY * Math.min(canvas.clientWidth, canvas.clientHeight);
    if (px < 0 || px > canvas.clientWidth - room) view.x += canvas.clientWidth / 2 - px;
    if (py < 0 || py > canvas.clientHeight) view.y += canvas.clientHeight / 2 - py;
    const score = node.score === null ? node.outcome : `score ${node.score}`;
    count.textContent = `Candidate ${node.id}, ${score}, ${node.children.length} children`;
    draw();
  }

  async function open(node) {
    if (!node) return;
    look(node);
    const answer = await fetch(canvas.dataset.candidate + node.id, { credentials: "same-origin" });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("content");
    for (const heading of page.querySelectorAll("h1")) {
      const small = document.createElement("h2"), link = document.createElement("a");
      small.append(Object.assign(link, { href: canvas.dataset.candidate + node.id, textContent: heading.textContent }));
      heading.replaceWith(small);
    }
    beside.replaceChildren(...page.children);
    beside.scrollTop = 0;
    history.replaceState(null, "", `${location.search}#candidate-${node.id}`);
    requestAnimationFrame(() => look(node));
  }

  function fold(node) {
    if (node?.hidden && !opened.has(String(node.id))) {
      folded.delete(node.id);
      opened.add(String(node.id));
      return void renew().then(() => look(chosen), lost);
    }
    if (!node?.children.length) return;
    if (!folded.delete(node.id)) folded.add(node.id);
    const [px, py] = [node.x, node.y];
    place();
    view.x += (px - node.x) * view.across;
    view.y += (py - node.y) * view.down;
    look(node);
  }

  let drag = null;
  canvas.addEventListener("pointerdown", (event) => {
    drag = { x: event.clientX, y: event.clientY, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) return;
    const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
    if (!drag.moved && Math.hypot(dx, dy) < 4) return;
    [view.x, view.y] = [view.x + dx, view.y + dy];
    drag = { x: event.clientX, y: event.clientY, moved: true };
    draw();
  });
  canvas.addEventListener("pointerup", (event) => {
    if (drag && !drag.moved) open(nearest(event.offsetX, event.offsetY));
    drag = null;
  });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(Math.exp(-event.deltaY / 400), event.offsetX, event.offsetY);
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const siblings = chosen ? byId.get(chosen.parent)?.children ?? roots : roots;
    const at = siblings.indexOf(chosen);
    const act = {
      ArrowLeft: () => look(byId.get(chosen?.parent)), ArrowRight: () => look(chosen?.children[0]),
      ArrowUp: () => look(siblings[at - 1]), ArrowDown: () => look(siblings[at + 1]),
      Enter: () => open(chosen), f: () => fold(chosen), "+": () => zoom(1.25), "=": () => zoom(1.25),
      "-": () => zoom(0.8), 0: whole,
    }[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (act) { event.preventDefault(); act(); }
  });
  const lost = () => { count.textContent = "The tree could not be read."; };
  const again = () => { address(); paints(); draw(); };
  colour.addEventListener("change", again);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  level.addEventListener("change", () => { opened.clear(); placed = false; renew().catch(lost); });
  const show = (few) => { folded = new Set(few.map((node) => node.id)); place(); whole(); };
  document.getElementById("whole").addEventListener("click", () => { show([]); tell(); });
  document.getElementById("path").addEventListener("click", () => {
    show(nodes.filter((node) => !best.has(node.id) && node.children.length));
  });
  new ResizeObserver(draw).observe(canvas);
  window.paceTree = { renew, view: () => ({ ...view, nodes: order.length, frames, total, chosen: chosen?.id ?? null }) };
  renew().then(() => {
    const named = /^#candidate-(\d+)$/.exec(location.hash);
    if (named) open(byId.get(Number(named[1])));
  }).catch(lost);
})();
