// The page of suspects: one sample at a time, and what each verdict says about those that are left.
//
//   p_i = 1 / (1 + exp(−(e_i + a + b_g + Σ_j n_ij)))        e_i = log(s_i / (1 − s_i)), s the score
//
// a is how far all scores are off, b_g how far those of one label with one suggestion are: the most probable offsets
// of the verdicts given so far, normal around 0. n_ij is NEAR where a similar sample j turned out to have the label
// that is suggested for i, −NEAR where it has the label of i.
const SPREAD_OF_ALL = 2, SPREAD_OF_GROUP = 1, NEAR = 0.7, NOBODY = 4294967295;
const isNumber = data.classes === null, n = data.faces.length;
const label = unpack(data.label), suggested = unpack(data.suggested), score = unpack(data.score), near = unpack(data.near);
const votes = data.votes && { own: unpack(data.votes.own), other: unpack(data.votes.other) };
const chance = data.chance && { own: unpack(data.chance.own), other: unpack(data.chance.other) };
const said = isNumber ? { neighbors: unpack(data.byNeighbors), model: unpack(data.byModel) } : null;
const evidence = Float64Array.from(score, (s) => Math.log(Math.max(s, 1e-6) / Math.max(1 - s, 1e-6)));
const groupOf = (i) => (isNumber ? String(suggested[i] > label[i]) : `${label[i]}/${suggested[i]}`);
const verdicts = new Map();  // sample: its right label
const chances = new Float64Array(n);
const done = [];  // samples in the order of the verdicts and of what was put off, for undo
let later = new Set(), queue = [], allOff = 0;
const sigmoid = (x) => 1 / (1 + Math.exp(-x));
const isWrong = (i) => verdicts.get(i) !== label[i];

// The most probable offset of some verdicts, by Newton's steps.
function offset(some, start, spread) {
  let at = 0;
  for (let step = 0; step < 20; step++) {
    let slope = -at / spread ** 2, bend = 1 / spread ** 2;
    for (const i of some) {
      const p = sigmoid(start(i) + at);
      slope += isWrong(i) - p;
      bend += p * (1 - p);
    }
    at += Math.max(-1, Math.min(1, slope / bend));
  }
  return at;
}

function similarity(i) {
  let sum = 0;
  for (let k = i * data.nNear; k < (i + 1) * data.nNear; k++) {
    const right = verdicts.get(near[k]);
    if (right === undefined || near[k] === NOBODY) continue;
    const forOther = isNumber ? Math.abs(right - suggested[i]) < Math.abs(right - label[i]) : right === suggested[i];
    const forOwn = isNumber ? !forOther : right === label[i];
    sum += forOther ? NEAR : forOwn ? -NEAR : 0;
  }
  return label[i] === suggested[i] ? Math.min(0, sum) : sum;
}

function rank() {
  const decided = [...verdicts.keys()], groups = new Map();
  for (const i of decided) groups.set(groupOf(i), [...(groups.get(groupOf(i)) || []), i]);
  allOff = offset(decided, (i) => evidence[i], SPREAD_OF_ALL);
  const groupOff = new Map([...groups].map(([name, some]) => [name, offset(some, (i) => evidence[i] + allOff, SPREAD_OF_GROUP)]));
  queue = [];
  for (let i = 0; i < n; i++) {
    chances[i] = sigmoid(evidence[i] + allOff + (groupOff.get(groupOf(i)) || 0) + similarity(i));
    if (!verdicts.has(i)) queue.push(i);
  }
  queue.sort((a, b) => later.has(a) - later.has(b) || chances[b] - chances[a] || a - b);
}

const textOf = (value) => (isNumber ? number(value, 5) : data.classes[value]);
const percent = (p) => `${Math.round(100 * p)} %`;

function faceOf(i, small) {
  const face = data.faces[i], parts = [];
  if (face.picture) parts.push(html("img", { src: face.picture, alt: `row ${data.names[i]}` }));
  if (face.text) parts.push(html("p", { class: "text" }, face.text));
  if (face.cells && !small) parts.push(html("dl", { class: "cells" }, ...face.cells.map((cell, k) => html("div", {}, html("dt", {}, data.columns[k]), html("dd", {}, cell)))));
  return parts;
}

function reasons(i) {
  if (isNumber) return `Neighbours' median ${number(said.neighbors[i], 5)}, model ${number(said.model[i], 5)}.`;
  if (label[i] === suggested[i]) return `No other label is expected; the model gives this one ${percent(chance.own[i])}.`;
  return `Of ${data.nAsked} neighbours ${votes.other[i]} are ${textOf(suggested[i])} and ${votes.own[i]} are ${textOf(label[i])}. `
    + `The model gives them ${percent(chance.other[i])} and ${percent(chance.own[i])}.`;
}

function similar(i) {
  const others = [...near.slice(i * data.nNear, (i + 1) * data.nNear)].filter((j) => j !== NOBODY);
  if (!others.length) return null;
  return html("div", {}, html("h3", {}, "Similar samples on this page"), html("ul", { class: "neighbours" }, ...others.map((j) => html("li", {},
    ...faceOf(j, true), html("b", {}, textOf(verdicts.has(j) ? verdicts.get(j) : label[j])),
    html("span", { class: "quiet" }, ` row ${data.names[j]}${verdicts.has(j) ? ", decided" : ""}`)))));
}

function show() {
  rank();
  const i = queue[0], looked = verdicts.size, found = [...verdicts.keys()].filter(isWrong).length;
  const left = queue.reduce((sum, j) => sum + chances[j], 0)
    + data.rest.reduce((sum, [mean, count]) => sum + count * sigmoid(Math.log(Math.max(mean, 1e-6) / Math.max(1 - mean, 1e-6)) + allOff), 0);
  byId("n-looked").textContent = grouped(looked);
  byId("n-wrong").textContent = grouped(found);
  byId("n-left").textContent = grouped(Math.round(left));
  byId("progress").value = found / Math.max(found + left, 1);
  byId("undo").disabled = !done.length;
  for (const name of ["accept", "reject", "relabel", "skip"]) byId(name).disabled = i === undefined;
  if (i === undefined) byId("card").replaceChildren(html("p", {}, "Every sample on this page is decided. Export the decisions and apply them."));
  else {
    byId("card").dataset.row = data.names[i];
    byId("accept").disabled = label[i] === suggested[i];
    byId("card").replaceChildren(...[
      html("p", { class: "question" }, `Row ${data.names[i]}: ${data.target} `, html("b", { class: "given" }, textOf(label[i])), ", suggested ", html("b", {}, textOf(suggested[i]))),
      ...faceOf(i, false), html("p", {}, reasons(i)), similar(i),
    ].filter(Boolean));
    byId("other").value = isNumber ? suggested[i] : String(suggested[i]);
  }
  byId("queue").tBodies[0].replaceChildren(...queue.slice(0, 50).map((j) => html("tr", { "data-row": data.names[j] },
    html("td", {}, data.names[j]), html("td", {}, textOf(label[j])), html("td", {}, textOf(suggested[j])),
    html("td", { class: "number" }, number(chances[j], 2)), html("td", {}, ...faceOf(j, true)))));
}

// A browser may forbid files to keep anything: then the decisions last as long as the page.
const KEY = `steep review ${data.data}`;
function keep() {
  try { localStorage.setItem(KEY, JSON.stringify([...verdicts].map(([i, right]) => [data.names[i], isNumber ? right : data.classes[right]]))); } catch { /* see above */ }
}

function restore() {
  let kept = [];
  try { kept = JSON.parse(localStorage.getItem(KEY)) || []; } catch { /* see above */ }
  const places = new Map(data.names.map((name, i) => [name, i]));
  for (const [name, right] of kept) {
    const i = places.get(name), value = isNumber ? right : data.classes.indexOf(right);
    if (i !== undefined && (isNumber || value >= 0)) { verdicts.set(i, value); done.push(i); }
  }
}

function decide(right) {
  const i = queue[0];
  if (i === undefined || !Number.isFinite(right)) return;
  verdicts.set(i, right);
  later.delete(i);
  done.push(i);
  byId("status").textContent = `Row ${data.names[i]}: ${isWrong(i) ? `now ${textOf(right)}` : "kept"}.`;
  keep();
  show();
}

const actions = {
  accept: () => { if (label[queue[0]] !== suggested[queue[0]]) decide(suggested[queue[0]]); },
  reject: () => decide(label[queue[0]]),
  relabel: () => decide(byId("other").value === "" ? NaN : Number(byId("other").value)),
  skip: () => { later.add(queue[0]); done.push(queue[0]); if (queue.every((i) => later.has(i))) later = new Set(); show(); },
  undo: () => {
    const i = done.pop();
    if (i === undefined) return;
    verdicts.delete(i);
    later.delete(i);
    byId("status").textContent = `Row ${data.names[i]} is open again.`;
    keep();
    show();
  },
};
for (const [name, act] of Object.entries(actions)) byId(name).addEventListener("click", act);

const KEYS = { a: "accept", k: "reject", s: "skip", u: "undo" };
addEventListener("keydown", (event) => {
  const isTyping = event.target.closest("input, select");
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (isTyping) { if (event.key === "Enter") { actions.relabel(); byId("other").blur(); } return; }
  if (event.key === "l") { event.preventDefault(); byId("other").focus(); }
  else if (KEYS[event.key] && !byId(KEYS[event.key]).disabled) actions[KEYS[event.key]]();
});

const exact = (value) => (isNumber ? String(value) : data.classes[value]);
byId("export-csv").addEventListener("click", () => {
  const quoted = (text) => (/[",\r\n]|^\s|\s$/.test(text) ? `"${text.replace(/"/g, '""')}"` : text);
  const lines = [...verdicts].map(([i, right]) => [data.names[i], exact(label[i]), exact(right), data.data].map(quoted).join(","));
  download("decisions.csv", `${["row,label,new_label,data", ...lines].join("\n")}\n`);
});
byId("export-json").addEventListener("click", () => download("decisions.json", JSON.stringify({
  data: data.data,
  decisions: [...verdicts].map(([i, right]) => ({ row: data.names[i], label: exact(label[i]), new_label: exact(right) })),
})));

if (!isNumber) byId("other").append(...data.classes.map((name, code) => html("option", { value: code }, name)));
restore();
show();
