"use strict";
// Draws the tree of lineage on a canvas: one column a generation, one line a branch, only what is in view.
(() => {
  const canvas = document.getElementById("tree");
  if (!canvas) return;
  const COLUMN = 110, ROW = 18, EMPTY = 0.25;
  const pen = canvas.getContext("2d");
  const beside = document.getElementById("beside");
  const colour = document.getElementById("colour");
  const count = document.getElementById("count");
  const folded = new Set();
  let data = null, nodes = [], order = [], byId = new Map(), best = new Set();
  let chosen = null, view = { x: 20, y: 20, across: 1, down: 1 }, placed = false, frame = 0;

  async function renew() {
    const answer = await fetch(canvas.dataset.source, { credentials: "same-origin" });
    if (!answer.ok) throw new Error(String(answer.status));
    read(await answer.json());
    return Number(answer.headers.get("X-Pace-Again") || 0);
  }

  function read(json) {
    data = json;
    best = new Set(json.best);
    nodes = json.id.map((id, at) => ({
      id, at, parent: json.parent[at], score: json.score[at], island: json.island[at],
      outcome: json.outcome[at], hidden: json.hidden[at], children: [], x: 0, y: 0,
    }));
    byId = new Map(nodes.map((node) => [node.id, node]));
    const roots = [];
    for (const node of nodes) (byId.get(node.parent)?.children ?? roots).push(node);
    const sign = json.direction === "maximize" ? 1 : -1;
    rank(roots, sign);
    const known = nodes.filter((node) => node.score !== null).map((node) => node.score).sort((a, b) => sign * (b - a));
    range = [known[Math.floor(known.length * 0.9)] ?? 0, known[0] ?? 1];
    place(roots);
    if (!placed && nodes.length) { placed = true; chosen = byId.get(json.best.at(-1)) ?? nodes[0]; whole(); }
    if (chosen) chosen = byId.get(chosen.id) ?? null;
    const rest = json.all - nodes.length;
    count.textContent = `${nodes.length.toLocaleString("en")} candidates` + (rest ? `, ${rest.toLocaleString("en")} more not drawn` : "");
    draw();
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

  function shade(node) {
    const css = getComputedStyle(document.documentElement);
    if (colour.value === "outcome") return css.getPropertyValue(node.outcome === "ok" ? "--green" : "--red");
    if (node.score === null && colour.value === "score") return css.getPropertyValue("--red");
    if (colour.value === "island") return `hsl(${((node.island ?? 0) * 137) % 360} 55% 50%)`;
    const share = colour.value === "age" ? node.at / Math.max(1, nodes.length - 1)
      : Math.min(1, Math.max(0, (node.score - range[0]) / (range[1] - range[0] || 1)));
    return `hsl(${220 - 190 * share} 65% 50%)`;
  }

  function draw() {
    if (!frame) frame = requestAnimationFrame(paint);
  }

  function paint() {
    frame = 0;
    const css = getComputedStyle(document.documentElement);
    const [ink, edge, strong, faint] = ["--ink", "--edge", "--amber", "--faint"].map((name) => css.getPropertyValue(name));
    const dots = window.devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (canvas.width !== Math.round(width * dots) || canvas.height !== Math.round(height * dots)) {
      canvas.width = Math.round(width * dots);
      canvas.height = Math.round(height * dots);
    }
    const { x, y, across, down } = view;
    const scale = Math.min(across, down);
    pen.setTransform(dots, 0, 0, dots, 0, 0);
    pen.clearRect(0, 0, width, height);
    const sx = (node) => node.x * across + x, sy = (node) => node.y * down + y;
    const [top, bottom] = [-ROW * down, height + ROW * down];
    for (const path of [false, true]) {
      pen.beginPath();
      for (const node of order) {
        const parent = byId.get(node.parent);
        if (!parent || (best.has(node.id) !== path)) continue;
        const [y1, y2] = [sy(parent), sy(node)];
        if (Math.max(y1, y2) < top || Math.min(y1, y2) > bottom || sx(node) < 0 || sx(parent) > width) continue;
        const turn = sx(node) - 12 * across;
        pen.moveTo(sx(parent), y1);
        pen.lineTo(turn - 6 * across, y1);
        pen.lineTo(turn, y2);
        pen.lineTo(sx(node), y2);
      }
      pen.strokeStyle = path ? strong : edge;
      pen.lineWidth = path ? 2 : 1;
      pen.stroke();
    }
    const size = Math.max(1.5, Math.min(5, 4 * scale));
    const named = across >= 0.55 && down >= 0.55;
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    for (const node of order) {
      const [px, py] = [sx(node), sy(node)];
      if (px < -COLUMN * across || px > width || py < top || py > bottom) continue;
      pen.beginPath();
      pen.arc(px, py, size, 0, 7);
      pen.fillStyle = shade(node);
      pen.fill();
      const inside = (folded.has(node.id) ? node.children.length : 0) + node.hidden;
      if (node === chosen || inside) {
        pen.strokeStyle = node === chosen ? ink : faint;
        pen.lineWidth = node === chosen ? 2 : 1;
        pen.beginPath();
        pen.arc(px, py, size + 2.5, 0, 7);
        pen.stroke();
      }
      if (named) {
        const score = node.score === null ? "–" : Number(node.score.toPrecision(5));
        pen.fillStyle = best.has(node.id) ? ink : faint;
        pen.fillText(`${score} #${node.id}${inside ? ` +${inside}` : ""}`, px + size + 4, py - (node.children.length ? 6 * down : 0), (COLUMN - 24) * across);
      }
    }
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
      const link = document.createElement("a");
      link.href = canvas.dataset.candidate + node.id;
      link.textContent = heading.textContent;
      const small = document.createElement("h2");
      small.append(link);
      heading.replaceWith(small);
    }
    beside.replaceChildren(...page.children);
    beside.scrollTop = 0;
    history.replaceState(null, "", `#candidate-${node.id}`);
    requestAnimationFrame(() => look(node));
  }

  function fold(node) {
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
    view.x += dx;
    view.y += dy;
    drag = { x: event.clientX, y: event.clientY, moved: true };
    draw();
  });
  canvas.addEventListener("pointerup", (event) => {
    const still = drag && !drag.moved;
    drag = null;
    if (still) open(nearest(event.offsetX, event.offsetY));
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
  colour.addEventListener("change", draw);
  document.getElementById("whole").addEventListener("click", () => { folded.clear(); place(); whole(); });
  document.getElementById("path").addEventListener("click", () => {
    folded.clear();
    for (const node of nodes) if (!best.has(node.id) && node.children.length) folded.add(node.id);
    place();
    whole();
  });
  new ResizeObserver(draw).observe(canvas);
  window.paceTree = { renew, view: () => ({ ...view, nodes: order.length, chosen: chosen?.id ?? null }) };
  renew().then(() => {
    const named = /^#candidate-(\d+)$/.exec(location.hash);
    if (named) open(byId.get(Number(named[1])));
  }).catch(() => { count.textContent = "The tree could not be read."; });
})();
