"use strict";
// Tables that sort, the timeline, and the choice of colours. Text from traces goes into the page as text alone.
(() => {
  const say = (text) => { document.getElementById("announce").textContent = text; };
  const timeText = (us) => {
    const size = Math.abs(us);
    const [value, unit] = size >= 1e6 ? [us / 1e6, "s"] : size >= 1e4 ? [us / 1e3, "ms"] : [us, "\u00b5s"];
    const digits = Math.abs(value) >= 1000 ? 0 : Math.abs(value) >= 100 ? 1 : Math.abs(value) >= 1 ? 2 : 3;
    return `${value.toLocaleString("en", { maximumFractionDigits: digits, minimumFractionDigits: digits })} ${unit}`;
  };

  // ---- colours
  const theme = document.getElementById("theme");
  const themes = ["auto", "light", "dark"];
  let chosen = 0;
  const onTheme = [];
  theme.hidden = false;
  theme.addEventListener("click", () => {
    chosen = (chosen + 1) % themes.length;
    if (chosen) document.documentElement.dataset.theme = themes[chosen];
    else delete document.documentElement.dataset.theme;
    theme.textContent = `Colours: ${themes[chosen]}`;
    onTheme.forEach((redraw) => redraw());
  });

  // ---- tables
  const valueOf = (row, column) => {
    const cell = row.cells[column];
    const number = cell.dataset.v;
    return number === undefined ? cell.textContent.trim().toLowerCase() : number === "" ? -Infinity : Number(number);
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const numeric = head.classList.contains("number");
        const now = head.getAttribute("aria-sort");
        const down = now ? now === "ascending" : numeric;
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const body = table.tBodies[0];
        const rows = [...body.rows].filter((row) => !row.classList.contains("sum"));
        rows.sort((a, b) => {
          const [x, y] = [valueOf(a, column), valueOf(b, column)];
          const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), "en", { numeric: true });
          return down ? -order : order;
        });
        body.prepend(...rows);
        say(`Sorted by ${button.textContent}, ${down ? "descending" : "ascending"}`);
      });
    });
  }
  for (const button of document.querySelectorAll("button[data-whole]")) {
    button.hidden = false;
    button.addEventListener("click", () => {
      const whole = document.getElementById(button.dataset.whole).classList.toggle("whole");
      button.setAttribute("aria-pressed", String(whole));
    });
  }

  // ---- timeline
  const holder = document.getElementById("timeline-view");
  if (!holder) return;
  const data = JSON.parse(document.getElementById("timeline-data").textContent);
  const [START, LENGTH, NAME, KIND, NODE, DETAIL, LINK] = [0, 1, 2, 3, 4, 5, 6];
  const kinds = ["kernel", "layer", "memcpy", "memset", "call", "wait", "range"];
  const spoken = { kernel: "kernel", layer: "layer", memcpy: "copy", memset: "fill", call: "CUDA call", wait: "CUDA call that waits", range: "range" };
  const [RULER, LANE, LABEL, GAP, SIDE] = [26, 20, 19, 9, 8];
  const canvas = holder.querySelector("canvas");
  const tip = holder.querySelector(".tip");
  const picked = document.getElementById("timeline-picked");
  const ink = canvas.getContext("2d");
  const text = (place) => (place < 0 ? "" : data.names[place]);

  const lanes = [];
  let y = RULER;
  for (const row of data.rows) {
    row.top = y;
    y += LABEL;
    for (const bars of row.lanes) { lanes.push({ row, bars, top: y }); y += LANE; }
    y += GAP;
  }
  const height = y + 2;
  let low = Infinity, high = -Infinity;
  for (const { bars } of lanes) for (const bar of bars) { low = Math.min(low, bar[START]); high = Math.max(high, bar[START] + bar[LENGTH]); }
  for (const [, start, end] of data.iterations) { low = Math.min(low, start); high = Math.max(high, end); }
  if (!(high > low)) { low = Math.min(low, 0); high = low + 1; }
  const links = new Map();
  for (const lane of lanes) for (const bar of lane.bars) {
    if (bar[LINK] < 0) continue;
    if (!links.has(bar[LINK])) links.set(bar[LINK], []);
    links.get(bar[LINK]).push({ lane, bar });
  }

  const typical = data.iterations.find(([index]) => index === data.typical);
  const around = ([, start, end]) => { const room = (end - start) * 0.06; return [start - room, end + room]; };
  let view = typical ? around(typical) : [low, high];
  let over = null, chosenBar = null, width = 1, waiting = false;
  const colours = {};
  const probe = document.createElement("span");
  probe.hidden = true;
  holder.append(probe);
  const readColours = () => {
    for (const name of ["card", "band", "line", "text", "soft", "focus", "kernels", "copies", "memset", "call", "wait", "range"]) {
      probe.style.color = `var(--${name})`;
      colours[name] = getComputedStyle(probe).color;
    }
    Object.assign(colours, { kernel: colours.kernels, layer: colours.kernels, memcpy: colours.copies });
  };
  const resize = () => {
    width = holder.clientWidth;
    const scale = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.height = `${height}px`;
    ink.setTransform(scale, 0, 0, scale, 0, 0);
    draw();
  };
  const xOf = (us) => SIDE + (us - view[0]) / (view[1] - view[0]) * (width - 2 * SIDE);
  const usOf = (x) => view[0] + (x - SIDE) / (width - 2 * SIDE) * (view[1] - view[0]);
  // The first bar of a lane that ends after a time; bars of a lane follow one another.
  const firstAfter = (bars, us) => {
    let [from, to] = [0, bars.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      if (bars[middle][START] + bars[middle][LENGTH] < us) from = middle + 1; else to = middle;
    }
    return from;
  };
  const steps = (span) => {
    const raw = span / Math.max(2, width / 110), power = 10 ** Math.floor(Math.log10(raw));
    return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= raw);
  };
  const rulerText = (us, step) => {
    const [divide, unit] = Math.max(Math.abs(view[0]), Math.abs(view[1])) >= 1e5 ? [1e3, "ms"] : [1, "\u00b5s"];
    const digits = Math.max(0, -Math.floor(Math.log10(step / divide) + 1e-9));
    return `${(us / divide).toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits })} ${unit}`;
  };
  const fitted = (label, room) => {
    if (room < 14) return "";
    const most = Math.floor(room / 6.3);
    return label.length <= most ? label : most > 3 ? `${label.slice(0, most - 1)}\u2026` : "";
  };
  const shortName = (bar) => text(bar[NODE]) || text(bar[NAME]);

  const paint = () => {
    waiting = false;
    ink.clearRect(0, 0, width, height);
    ink.fillStyle = colours.card;
    ink.fillRect(0, 0, width, height);
    ink.font = "12px system-ui, sans-serif";
    ink.textBaseline = "middle";
    data.iterations.forEach(([index, start, end], place) => {
      const [a, b] = [Math.max(0, xOf(start)), Math.min(width, xOf(end))];
      if (b <= a) return;
      if (place % 2 === 0) { ink.fillStyle = colours.band; ink.fillRect(a, RULER, b - a, height - RULER); }
    });
    const step = steps(view[1] - view[0]);
    ink.lineWidth = 1;
    for (let us = Math.ceil(view[0] / step) * step; us <= view[1]; us += step) {
      const x = Math.round(xOf(us)) + 0.5;
      ink.strokeStyle = colours.line;
      ink.beginPath(); ink.moveTo(x, RULER - 5); ink.lineTo(x, height); ink.stroke();
      ink.fillStyle = colours.soft;
      ink.textAlign = "center";
      if (x > 30 && x < width - 30) ink.fillText(rulerText(Math.abs(us) < step / 2 ? 0 : us, step), x, RULER / 2 - 1);
    }
    ink.textAlign = "left";
    for (const row of data.rows) {
      ink.font = "600 12px system-ui, sans-serif";
      ink.fillStyle = colours.soft;
      ink.fillText(row.label, SIDE, row.top + LABEL / 2 + 1);
    }
    ink.font = "11px system-ui, sans-serif";
    for (const { bars, top } of lanes) {
      let drawnTo = -Infinity, drawnKind = null;
      for (let place = firstAfter(bars, view[0]); place < bars.length && bars[place][START] <= view[1]; place++) {
        const bar = bars[place], kind = text(bar[KIND]);
        const a = Math.max(-2, xOf(bar[START])), b = Math.min(width + 2, xOf(bar[START] + bar[LENGTH]));
        const end = Math.max(b, a + 1);
        if (end <= drawnTo + 0.5 && kind === drawnKind) continue;
        ink.fillStyle = colours[kind];
        ink.fillRect(a, top, Math.max(1, b - a - (b - a > 4 ? 1 : 0)), LANE - 3);
        [drawnTo, drawnKind] = [end, kind];
        const label = fitted(shortName(bar), Math.min(b, width) - Math.max(a, 0) - 8);
        if (label) { ink.fillStyle = kind === "range" ? colours.text : "#10151b"; ink.fillText(label, Math.max(a, 0) + 4, top + (LANE - 3) / 2 + 0.5); }
      }
    }
    for (const [one, colour] of [[over, colours.text], [chosenBar, colours.focus]]) if (one) outline(one, colour);
  };
  const outline = ({ lane, bar }, colour) => {
    ink.strokeStyle = colour;
    ink.lineWidth = 2;
    const box = (place) => [xOf(place.bar[START]), place.lane.top, Math.max(2, place.bar[LENGTH] / (view[1] - view[0]) * (width - 2 * SIDE)), LANE - 3];
    ink.strokeRect(...box({ lane, bar }));
    for (const other of links.get(bar[LINK]) || []) {
      if (other.bar === bar || other.lane === lane) continue;
      const [x, top] = box({ lane, bar }), [otherX, otherTop] = box(other);
      ink.strokeRect(...box(other));
      ink.lineWidth = 1.25;
      ink.setLineDash([4, 3]);
      ink.beginPath();
      const down = otherTop > top;
      ink.moveTo(x + 1, top + (down ? LANE - 3 : 0)); ink.lineTo(otherX + 1, otherTop + (down ? 0 : LANE - 3));
      ink.stroke();
      ink.setLineDash([]);
      ink.lineWidth = 2;
    }
  };
  const draw = () => { if (!waiting) { waiting = true; requestAnimationFrame(paint); } };

  const show = (start, end) => {
    const room = (high - low) * 0.02, least = 0.02;
    let span = Math.min(Math.max(end - start, least), high - low + 2 * room);
    let from = (start + end) / 2 - span / 2;
    from = Math.min(Math.max(from, low - room), high + room - span);
    view = [from, from + span];
    holder.dataset.view = view.join(" ");
    draw();
  };
  const zoom = (factor, x = width / 2) => {
    const at = usOf(x);
    show(at - (at - view[0]) * factor, at + (view[1] - at) * factor);
  };
  const pan = (share) => { const by = (view[1] - view[0]) * share; show(view[0] + by, view[1] + by); };
  const facts = ({ bar, lane }) => {
    const lines = [`${spoken[text(bar[KIND])]}, ${timeText(bar[LENGTH])}, from ${timeText(bar[START])}`];
    if (text(bar[NODE])) lines.push(`node ${text(bar[NODE])}`);
    if (text(bar[DETAIL])) lines.push(text(bar[DETAIL]));
    const iteration = data.iterations.find(([, start, end]) => bar[START] >= start && bar[START] <= end);
    lines.push(iteration ? `${lane.row.label}, inference ${iteration[0]}` : lane.row.label);
    return lines;
  };
  const pick = (found, announce) => {
    chosenBar = found;
    picked.replaceChildren();
    if (found) {
      const name = document.createElement("b");
      name.textContent = text(found.bar[NAME]);
      picked.append(name, document.createElement("br"), facts(found).join(" \u00b7 "));
      if (announce) {
        const a = found.bar[START], b = a + found.bar[LENGTH];
        if (a > view[1] || b < view[0]) show(a - (view[1] - view[0]) / 2, a + (view[1] - view[0]) / 2);
      }
    } else picked.textContent = picked.dataset.empty;
    draw();
  };
  const hit = (x, at) => {
    const lane = lanes.find(({ top }) => at >= top && at < top + LANE);
    if (!lane) return null;
    const us = usOf(x), slack = 2 / (width - 2 * SIDE) * (view[1] - view[0]);
    let best = null, nearest = Infinity;
    for (let place = Math.max(0, firstAfter(lane.bars, us - slack) - 1); place < lane.bars.length && lane.bars[place][START] <= us + slack; place++) {
      const bar = lane.bars[place], away = Math.max(bar[START] - us, us - bar[START] - bar[LENGTH], 0);
      if (away <= slack && away <= nearest) [best, nearest] = [bar, away];
    }
    return best && { lane, bar: best };
  };
  const showTip = (found, x, at) => {
    over = found;
    tip.hidden = !found;
    if (found) {
      const name = document.createElement("b");
      name.textContent = text(found.bar[NAME]).slice(0, 300);
      tip.replaceChildren(name);
      for (const line of facts(found)) tip.append(Object.assign(document.createElement("div"), { textContent: line }));
      tip.style.left = `${Math.max(4, Math.min(x + 14, width - tip.offsetWidth - 6))}px`;
      tip.style.top = `${at + 18 + tip.offsetHeight > height ? Math.max(2, at - tip.offsetHeight - 12) : at + 18}px`;
    }
    draw();
  };

  // pointers: one drags, two pinch, none hovers
  const pointers = new Map();
  let moved = 0;
  const place = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    pointers.set(event.pointerId, place(event));
    moved = 0;
    canvas.setPointerCapture(event.pointerId);
    canvas.classList.add("dragging");
    showTip(null);
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, at] = place(event);
    const before = pointers.get(event.pointerId);
    if (!before) { showTip(hit(x, at), x, at); return; }
    const others = [...pointers.entries()].filter(([id]) => id !== event.pointerId);
    if (others.length) {
      const fixed = others[0][1][0];
      const now = Math.max(20, Math.abs(x - fixed)), then = Math.max(20, Math.abs(before[0] - fixed));
      zoom(then / now, (x + fixed) / 2);
    } else pan(-(x - before[0]) / (width - 2 * SIDE));
    moved += Math.abs(x - before[0]) + (others.length ? 10 : 0);
    pointers.set(event.pointerId, [x, at]);
  });
  const release = (event) => {
    if (!pointers.delete(event.pointerId)) return;
    if (!pointers.size) canvas.classList.remove("dragging");
    if (event.type === "pointerup" && moved < 4) pick(hit(...place(event)), false);
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", () => { if (!pointers.size) showTip(null); });
  canvas.addEventListener("dblclick", (event) => {
    const [x, at] = place(event), found = hit(x, at);
    if (found) show(found.bar[START] - found.bar[LENGTH] * 0.3, found.bar[START] + found.bar[LENGTH] * 1.3);
    else zoom(0.4, x);
  });
  canvas.addEventListener("wheel", (event) => {
    const [x] = place(event);
    if (event.ctrlKey || event.metaKey) { event.preventDefault(); zoom(Math.exp(event.deltaY * (event.deltaMode ? 0.05 : 0.0022)), x); }
    else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      pan((event.deltaX || event.deltaY) / width);
    }
  }, { passive: false });

  const step = (by) => {
    const lane = chosenBar ? chosenBar.lane : lanes[lanes.length - 1];
    if (!lane) return;
    const middle = (view[0] + view[1]) / 2;
    const at = chosenBar ? lane.bars.indexOf(chosenBar.bar) + by : firstAfter(lane.bars, typical ? typical[1] : middle);
    pick({ lane, bar: lane.bars[Math.min(Math.max(at, 0), lane.bars.length - 1)] }, true);
  };
  const lift = (by) => {
    if (!chosenBar) { step(1); return; }
    const lane = lanes[Math.min(Math.max(lanes.indexOf(chosenBar.lane) + by, 0), lanes.length - 1)];
    const at = Math.min(firstAfter(lane.bars, chosenBar.bar[START]), lane.bars.length - 1);
    pick({ lane, bar: lane.bars[at] }, true);
  };
  const whole = () => show(low, high);
  const one = () => (typical ? show(...around(typical)) : whole());
  const keys = {
    ArrowLeft: () => pan(-0.15), ArrowRight: () => pan(0.15), "+": () => zoom(0.6), "=": () => zoom(0.6), "-": () => zoom(1 / 0.6),
    _: () => zoom(1 / 0.6), 0: whole, 1: one, Home: () => show(low, low + view[1] - view[0]), End: () => show(high - (view[1] - view[0]), high),
    n: () => step(1), p: () => step(-1), N: () => step(1), P: () => step(-1), ArrowDown: () => lift(1), ArrowUp: () => lift(-1),
    Enter: () => { if (chosenBar) show(chosenBar.bar[START] - chosenBar.bar[LENGTH] * 0.3, chosenBar.bar[START] + chosenBar.bar[LENGTH] * 1.3); },
    Escape: () => { showTip(null); pick(null, false); },
  };
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(keys, event.key)) return;
    event.preventDefault();
    keys[event.key]();
  });
  const act = { in: () => zoom(0.6), out: () => zoom(1 / 0.6), left: () => pan(-0.3), right: () => pan(0.3), one, whole };
  for (const button of document.querySelectorAll("button[data-act]")) {
    if (button.dataset.act === "one" && !typical) button.remove();
    button.addEventListener("click", () => {
      act[button.dataset.act]();
      say(`Shown: ${timeText(view[0])} to ${timeText(view[1])}`);
    });
  }
  document.getElementById("timeline-part").hidden = false;
  document.getElementById("timeline-missing").hidden = true;
  const recolour = () => { readColours(); draw(); };
  onTheme.push(recolour);
  for (const query of ["(prefers-color-scheme: dark)", "print"]) matchMedia(query).addEventListener("change", () => { readColours(); paint(); });
  readColours();
  show(...view);
  new ResizeObserver(resize).observe(holder);
})();
