// The page draws the document that the server sends. Names of keys and nodes are others' text: they get into the page by
// textContent and setAttribute only.
"use strict";

const SCHEMA = 1;
const at = (id) => document.getElementById(id);
const number = new Intl.NumberFormat("en");
const plural = (n, what) => `${number.format(n)} ${what}${n === 1 ? "" : "s"}`;

function make(space, tag, attributes = {}, text = "") {
  const e = document.createElementNS(space, tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  if (text !== "") e.textContent = text;
  return e;
}
const html = (tag, attributes, text) => make("http://www.w3.org/1999/xhtml", tag, attributes, text);
const svg = (tag, attributes, text) => make("http://www.w3.org/2000/svg", tag, attributes, text);

function write(e, text) {
  if (e.textContent !== text) e.textContent = text;
}

// sync gives parent one child for each item, in order. A child stays as long as its item's key does, and so does its focus.
function sync(parent, items, keyOf, create, fill) {
  const old = new Map([...parent.children].map((e) => [e.dataset.key, e]));
  items.forEach((item, i) => {
    const key = String(keyOf(item));
    let e = old.get(key);
    if (!e) {
      e = create(item);
      e.dataset.key = key;
    }
    old.delete(key);
    if (parent.children[i] !== e) parent.insertBefore(e, parent.children[i] || null);
    fill(e, item);
  });
  for (const e of old.values()) e.remove();
}

// cells fills a row: each cell is a text, or an object with text, kind, class or share.
function cells(row, list) {
  sync(row, list.map((cell, i) => ({ ...(typeof cell === "object" ? cell : { text: cell }), i })), (c) => c.i,
    (c) => html(c.i === 0 ? "th" : "td", c.i === 0 ? { scope: "row" } : {}), fillCell);
}

function fillCell(e, c) {
  e.className = c.class || "";
  if (c.share !== undefined) {
    if (!e.firstChild) e.append(html("meter", { min: 0, max: 1 }));
    e.firstChild.value = c.share;
    e.firstChild.setAttribute("aria-label", `${Math.round(100 * c.share)} percent of ${c.of}`);
  } else if (c.kind || c.problem) {
    sync(e, [c.kind && { part: c.kind }, c.problem && { part: c.problem, problem: true }].filter(Boolean),
      (p) => Boolean(p.problem), () => html("div"), (div, p) => {
        if (p.problem) div.className = "problem";
        else if (!div.firstChild) div.append(html("span"));
        const span = div.firstElementChild || div;
        if (!p.problem) {
          span.className = c.plain ? "" : "pill";
          span.dataset.kind = c.kind.split(" ")[0];
        }
        write(span, p.problem ? p.part : c.text || c.kind);
      });
  } else write(e, String(c.text));
}

const rows = (body, items, keyOf, list) => sync(body, items, keyOf, () => html("tr"), (tr, item) => cells(tr, list(item)));
const n = (value) => ({ text: number.format(value), class: "n" });

// The chains.

const WIDTH = 118, HEIGHT = 58, GAP = 44;

function arrow(x, busy) {
  const g = svg("g");
  g.append(svg("path", { class: busy ? "arrow busy" : "arrow", d: `M${x + 4} ${HEIGHT / 2}H${x + GAP - 10}` }),
    svg("path", { class: "tip", d: `M${x + GAP - 4} ${HEIGHT / 2}l-8 -5v10z` }));
  return g;
}

function box(x, kind, lines, load) {
  const g = svg("g", { transform: `translate(${x} 0)` });
  g.append(svg("rect", { class: `box ${kind}`, x: 1, y: 1, width: WIDTH - 2, height: HEIGHT - 2, rx: 8 }));
  lines.forEach(([style, text], i) =>
    g.append(svg("text", { class: style, x: WIDTH / 2, y: lines.length === 1 ? 34 : 20 + 16 * i, "text-anchor": "middle" }, clip(text))));
  if (load !== undefined) {
    g.append(svg("rect", { class: "back", x: 10, y: HEIGHT - 13, width: WIDTH - 20, height: 5, rx: 2.5 }),
      svg("rect", { class: "load", x: 10, y: HEIGHT - 13, width: Math.max(0, load * (WIDTH - 20)), height: 5, rx: 2.5 }));
  }
  return g;
}

const clip = (text) => ([...text].length > 16 ? [...text].slice(0, 15).join("") + "…" : text);

// row draws boxes with arrows between them.
function row(boxes, busy) {
  const width = boxes.length * WIDTH + (boxes.length - 1) * GAP;
  const picture = svg("svg", { viewBox: `0 0 ${Math.max(width, 1)} ${HEIGHT}`, width, height: HEIGHT, "aria-hidden": "true" });
  boxes.forEach((draw, i) => {
    const x = i * (WIDTH + GAP);
    picture.append(draw(x));
    if (i + 1 < boxes.length) picture.append(arrow(x + WIDTH, busy));
  });
  return picture;
}

function copied(m) {
  return m.copies ? `${plural(m.copies.objects, "object")} copied` : "copying";
}

function drawChain(c, nodes) {
  const boxes = c.members.map((m) => (x) => {
    const node = nodes.get(m.name) || { standing: "up", load: 0 };
    const kind = m.new ? "new" : node.standing.split(" ")[0];
    return box(x, kind, [["name", m.name], m.new ? ["role copy", copied(m)] : ["role", m.role]], node.load);
  });
  for (let i = 0; i < c.missing; i++) boxes.push((x) => box(x, "missing", [["bad", "missing"]]));
  if (boxes.length === 0) boxes.push((x) => box(x, "missing", [["bad", "no node"]]));
  return row(boxes, c.reads_per_s + c.writes_per_s > 0);
}

// say is a chain in words.
function say(c) {
  const parts = c.members.map((m) => `${m.name} ${m.new ? copied(m) : m.role}`);
  if (c.missing > 0) parts.push(`${plural(c.missing, "member")} missing`);
  return `${plural(c.count, "shard")} ${c.shards}, ${c.state}: ${parts.join(", then ") || "no node"}`;
}

function createChain() {
  const li = html("li", { tabindex: "-1", "aria-expanded": "false" });
  const title = html("div", { class: "title" });
  title.append(html("strong"), html("span", { class: "pill" }));
  li.append(title, html("div"), html("p", { class: "side-text" }), html("p", { class: "more", hidden: "" }));
  return li;
}

const shorten = (text) => (text.length > 34 ? text.slice(0, 33) + "…" : text);

function fillChain(li, c, nodes) {
  const [title, picture, beside, more] = li.children;
  const [name, pill] = title.children;
  write(name, `${c.count === 1 ? "shard" : plural(c.count, "shard") + ":"} ${shorten(c.shards)}`);
  write(pill, c.state);
  pill.dataset.kind = c.state;
  write(beside, [`epoch ${c.epoch}`].concat(c.hot_shards.slice(0, 2).map((h) => `shard ${h.shard}: ${rates(h)}`)).join("\n"));
  const drawn = JSON.stringify([c.members, c.missing, c.reads_per_s + c.writes_per_s > 0,
    c.members.map((m) => { const node = nodes.get(m.name); return node && [node.standing, Math.round(50 * node.load)]; })]);
  if (picture.dataset.drawn !== drawn) {
    picture.replaceChildren(drawChain(c, nodes));
    picture.dataset.drawn = drawn;
  }
  if (li.getAttribute("aria-label") !== say(c)) li.setAttribute("aria-label", say(c));
  const leases = c.members.map((m) => [m.name, nodes.get(m.name)]).filter(([, node]) => node && node.lease_left_ms !== null)
    .map(([name, node]) => `${name} ${lease(node.lease_left_ms)}`);
  write(more, `Shards ${c.shards}. ` + (leases.length ? `Leases left: ${leases.join(", ")}. ` : "") +
    c.hot_shards.map((h) => `Shard ${h.shard}: ${rates(h)}. `).join(""));
}

const rates = (h) => `${number.format(h.reads_per_s)} reads/s, ${number.format(h.writes_per_s)} writes/s`;

const lease = (ms) => (ms > 0 ? `${number.format(Math.round(ms))} ms` : "none");

function drawChains(d, nodes) {
  const list = at("chains");
  sync(list, d.chains, (c) => c.shards, createChain, (li, c) => fillChain(li, c, nodes));
  if (!list.querySelector("[tabindex='0']") && list.firstElementChild) list.firstElementChild.tabIndex = 0;
  at("more").hidden = d.more_chains === 0;
  write(at("more"), `and ${plural(d.more_chains, "more chain")} in no worse state`);
}

// step moves the focus among the chains, of which one is in the order of Tab.
function step(event) {
  const list = [...at("chains").children], i = list.indexOf(document.activeElement);
  const to = { ArrowDown: i + 1, ArrowRight: i + 1, ArrowUp: i - 1, ArrowLeft: i - 1, Home: 0, End: list.length - 1 }[event.key];
  if (i < 0) return;
  if (event.key === "Enter" || event.key === " ") toggle(list[i]);
  else if (to === undefined) return;
  else if (list[to]) {
    for (const li of list) li.tabIndex = -1;
    list[to].tabIndex = 0;
    list[to].focus();
  }
  event.preventDefault();
}

function toggle(li) {
  const more = li.lastElementChild;
  more.hidden = !more.hidden;
  li.setAttribute("aria-expanded", String(!more.hidden));
}

// The rest of the page.

// worst is the state of the chains in a sentence.
function worst(d) {
  if (d.chains.length === 0) return ["unknown", "waiting for the cluster"];
  const of = (state) => d.chains.filter((c) => c.state === state).reduce((sum, c) => sum + c.count, 0);
  const words = { lost: "lost", away: "without a node", short: "short of a member", copying: "getting a copy" };
  for (const [state, text] of Object.entries(words)) if (of(state) > 0) return [state, `${plural(of(state), "shard")} ${text}`];
  return ["whole", "all shards whole"];
}

function drawHead(d) {
  write(at("cluster"), d.cluster);
  const [kind, text] = worst(d), s = d.status;
  at("health").dataset.kind = kind;
  write(at("health"), text);
  document.title = `${text} · NetCRAQ ${d.cluster}`;
  const facts = s ? [["leader", s.leader || "none"], ["members wanted", s.replicas], ["term", s.term], ["change", s.change],
    ...s.controllers.filter((c) => !c.reachable).map((c) => ["away", c.address])] : [];
  sync(at("facts"), facts, (f) => f[0] + f[1], () => {
    const div = html("div");
    div.append(html("dt"), html("dd"));
    return div;
  }, (div, f) => {
    write(div.firstChild, f[0]);
    write(div.lastChild, typeof f[1] === "number" ? number.format(f[1]) : f[1]);
  });
  const troubles = d.troubles.concat(s ? s.notes : []);
  sync(at("troubles"), troubles, (t) => t, () => html("li"), write);
  const p = d.progress;
  at("work").hidden = !p;
  if (!p) return;
  at("bar").value = p.done / p.total;
  write(at("worktext"), `${number.format(p.done)} of ${plural(p.total, "shard")}` +
    (p.left_s > 0 ? `, about ${Math.ceil(p.left_s)} s left` : "") +
    (p.bytes_per_s >= 1 ? `, ${number.format(Math.round(p.bytes_per_s / 1024))} KiB/s` : ""));
}

function drawNodes(d) {
  const managed = d.status !== null;
  rows(at("nodes"), d.nodes, (x) => x.name, (x) => [{ text: x.name }, { kind: x.standing, problem: x.trouble },
    { share: x.load, of: "the busiest node's messages" }, n(x.messages_per_s), managed ? n(x.reads_per_s) : { text: "–", class: "n" },
    managed ? n(x.writes_per_s) : { text: "–", class: "n" }, n(x.heads), n(x.shards), n(x.objects),
    { text: x.lease_left_ms === null ? "–" : lease(x.lease_left_ms), class: "n" },
    { text: [x.plane, x.mode].filter(Boolean).join(" ") || "–", class: "tight" }, { text: x.addr, class: "tight" }]);
  sync(at("tracenode"), [""].concat(d.nodes.map((x) => x.name)), (name) => "=" + name, (name) => html("option", { value: name }),
    (e, name) => write(e, name || "any"));
}

function drawTables(d) {
  const hot = d.chains.flatMap((c) => c.hot_shards).sort((a, b) => b.reads_per_s + b.writes_per_s - a.reads_per_s - a.writes_per_s);
  at("hotbox").hidden = hot.length === 0;
  rows(at("hot"), hot, (h) => h.shard, (h) => [{ text: h.shard, class: "n" }, n(h.reads_per_s), n(h.writes_per_s), h.members.join(" → ")]);
  at("keysbox").hidden = d.gateways.length === 0;
  sync(at("gateways"), d.gateways, (g) => g.address, () => html("li", { class: "pill" }), (li, g) => {
    li.dataset.kind = g.trouble ? "away" : "up";
    write(li, g.trouble ? `${g.address}: ${g.trouble}` : g.address);
  });
  const rate = (x) => ({ text: x.toFixed(1), class: "n" });
  rows(at("keys"), d.keys, (k) => k.key, (k) => [{ text: visible(k.key), class: "key" }, rate(k.reads_per_s), rate(k.writes_per_s),
    { share: k.hit_share, of: "its reads" }, n(k.value_bytes), k.placed ? "yes" : "no", k.reason]);
  const keyspaces = (d.status && d.status.keyspaces) || [];
  at("keyspacebox").hidden = keyspaces.length === 0;
  rows(at("keyspaces"), keyspaces, (k) => k.name, (k) => [k.name,
    { text: number.format(k.era) + (k.prepared ? `, ${number.format(k.prepared)} is prepared` : ""), class: "n" },
    k.disks.join(", ") || "none", k.gateways.join(", ") || "none"]);
}

// visible shows what would change the text around it, such as marks of writing direction, as escapes.
const visible = (key) => key.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);

function drawEvents(d) {
  const list = d.events.slice().reverse();
  sync(at("events"), list.length ? list : [{ number: 0 }], (e) => e.number, (e) => {
    const li = html("li");
    if (e.number === 0) {
      li.append(html("span", { class: "none" }, "nothing since this server started"));
      return li;
    }
    li.dataset.kind = e.kind;
    const when = new Date(e.at_ms);
    li.append(html("time", { datetime: when.toISOString() }, when.toLocaleTimeString("en-GB")), html("b", {}, e.kind), html("span", {}, e.text));
    return li;
  }, () => {});
}

function draw(d) {
  const nodes = new Map(d.nodes.map((x) => [x.name, x]));
  drawHead(d);
  drawChains(d, nodes);
  drawNodes(d);
  drawTables(d);
  drawEvents(d);
}

// follow asks the server to read a key, or to write one beside it, and draws the path of the request.
async function follow(event) {
  event.preventDefault();
  const query = new URLSearchParams({ key: at("tracekey").value, node: at("tracenode").value });
  const said = at("pathtext"), path = at("path");
  try {
    const answer = await fetch("trace?" + query, { method: at("traceop").value });
    if (!answer.ok) throw new Error(await answer.text());
    const t = await answer.json();
    const picture = drawPath(t.path);
    path.replaceChildren(picture);
    path.setAttribute("aria-label", t.path.map((s) => [s.name, s.role, s.action].filter(Boolean).join(" ")).join(", then "));
    write(said, `${plural(t.hops, "hop")}, ${t.elapsed_us.toFixed(1)} µs, ${plural(t.attempts, "attempt")}; ` +
      `version ${number.format(t.version)}, shard ${t.shard}, epoch ${t.epoch}, chain ${t.chain.join(" → ")}`);
  } catch (error) {
    path.replaceChildren();
    write(said, error.message.trim());
  }
}

// drawPath draws the stations one below the other.
function drawPath(stations) {
  const tall = 54, picture = svg("svg", { viewBox: `0 0 300 ${stations.length * tall}`, width: 300, height: stations.length * tall });
  stations.forEach((s, i) => {
    const g = svg("g", { class: "hop", transform: `translate(0 ${i * tall})` }), end = s.role === undefined;
    g.style.animationDelay = `${i * 0.3}s`;
    g.append(svg("rect", { class: "box", x: 1, y: 1, width: 130, height: 30, rx: 8 }),
      svg("text", { class: "name", x: 66, y: 21, "text-anchor": "middle" }, clip(s.name)));
    if (!end) g.append(svg("text", { class: "role", x: 142, y: 13 }, s.role), svg("text", { x: 142, y: 28 }, s.action || ""));
    if (i + 1 < stations.length) {
      g.append(svg("path", { class: "arrow", d: "M66 33v12" }), svg("path", { class: "tip", d: "M66 52l-5 -8h10z" }));
    }
    picture.append(g);
  });
  return picture;
}

function link(kind, text) {
  at("link").dataset.kind = kind;
  write(at("link"), text);
}

function start() {
  at("chains").addEventListener("keydown", step);
  at("chains").addEventListener("click", (event) => {
    const li = event.target.closest("li");
    if (li) toggle(li);
  });
  at("trace").addEventListener("submit", follow);
  at("traceop").addEventListener("change", (event) => { at("tracenode").disabled = event.target.value === "POST"; }); // the head
  const source = new EventSource("events");
  source.onmessage = (event) => {
    const d = JSON.parse(event.data);
    if (d.schema !== SCHEMA) {
      link("away", "another version serves now: reload the page");
      source.close();
      return;
    }
    link("live", "live");
    draw(d);
  };
  source.onerror = () => link("away", "no connection: this is the last state known");
}

start();
