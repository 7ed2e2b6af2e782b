// The page of a weighting: one slider, and everything that follows it.
const axes = data.axes.map((axis) => ({ ...axis, values: unpack(axis.values) }));
const rows = unpack(data.rows), share = unpack(data.share), quantiles = unpack(data.quantiles);
const labels = { names: data.labels.names, values: unpack(data.labels.values) };
const [labelLow, labelHigh] = limits(labels.values);
const groups = data.groups.map((group) => ({ ...group, quantiles: unpack(group.quantiles) }));
const placeOf = new Map([...rows].map((row, i) => [row, i]));

// m on a logarithmic track, which is long enough for the ratio that was used.
const END = Math.max(100, data.ratio);
const toTrack = (m) => (1000 * Math.log(m)) / Math.log(END);
const fromTrack = (t) => END ** (t / 1000);
let ratio = data.ratio;

// The rescaling of Algorithm 2 before the mean is made one; a share below 0 stands for a weight of zero.
const raw = (m, v) => (v < 0 ? 0 : 1 + (m - 1) * v);

function settle() {
  const all = Array.from(quantiles, (v) => raw(ratio, v));
  const mean = all.reduce((sum, w) => sum + w, 0) / all.length;
  return { mean, all: all.map((w) => w / mean), points: Float32Array.from(share, (v) => raw(ratio, v) / mean) };
}
let now = settle();

function figures() {
  const squares = now.all.reduce((sum, w) => sum + w * w, 0);
  const worth = (data.n * now.all.length) / squares;
  const heavy = [...now.all].sort((a, b) => b - a).slice(0, Math.max(1, Math.round(now.all.length / 10)));
  byId("figure-ratio").textContent = number(ratio);
  byId("figure-worth").textContent = number(worth);
  byId("figure-tenth").textContent = `${Math.round((100 * heavy.reduce((sum, w) => sum + w, 0)) / now.all.length)} %`;
}

// Bars: the share of the weight that each class carries, beside its share of the samples.
function drawGroups() {
  const host = byId("groups-chart"), width = Math.max(240, host.clientWidth), line = 30;
  const sums = groups.map((g) => (g.n * g.quantiles.reduce((sum, v) => sum + raw(ratio, v), 0)) / (g.quantiles.length || 1));
  const all = sums.reduce((a, b) => a + b, 0), n = groups.reduce((sum, g) => sum + g.n, 0);
  const most = Math.max(...sums.map((s) => s / all), ...groups.map((g) => g.n / n));
  const room = Math.min(110, width * 0.35), x = scaleOf(0, most, room, width - 46);
  const marks = groups.flatMap((g, i) => {
    const y = i * line, weight = sums[i] / all, before = g.n / n;
    const name = svg("text", { class: "name", x: room - 8, y: y + 17, "text-anchor": "end" }, g.name.length > 14 ? `${g.name.slice(0, 13)}…` : g.name);
    name.append(svg("title", {}, g.name));
    return [
      name,
      svg("rect", { x: room, y: y + 4, height: line - 12, width: Math.max(1, x(weight) - room), fill: shades(WEIGHTS)[weightShade(weight / before)] }),
      svg("line", { x1: x(before), x2: x(before), y1: y + 1, y2: y + line - 5, stroke: colour("text"), "stroke-width": 2 }),
      svg("text", { x: x(Math.max(weight, before)) + 6, y: y + 17 }, `${Math.round(100 * weight)} %`),
    ];
  });
  const words = groups.map((g, i) => `${g.name} ${Math.round((100 * sums[i]) / all)} %`).join(", ");
  host.replaceChildren(svg("svg", { viewBox: `0 0 ${width} ${groups.length * line}`, role: "img", "aria-label": `Share of the weight: ${words}` }, ...marks));
}

const labelText = (value) => (labels.names ? labels.names[value] : number(value, 4));
const labelColour = (value) => {
  if (labels.names) return shades(CLASSES)[value % 8];
  return shades(NUMBERS)[Math.round((255 * (value - labelLow)) / (labelHigh - labelLow))];
};

const picks = { x: byId("map-x"), y: byId("map-y"), colour: byId("map-colour") };
axes.forEach((axis, i) => {
  for (const pick of [picks.x, picks.y]) pick.append(html("option", { value: i }, axis.name));
});
picks.y.value = axes.length > 1 ? 1 : 0;
const axisOf = (pick) => axes[Number(pick.value)];
const byWeight = () => picks.colour.value === "weight";

let order = null;
const map = makeMap(byId("map"), byId("map-tip"), {
  x: () => axisOf(picks.x),
  y: () => axisOf(picks.y),
  order: () => (order ??= Array.from(rows, (_, i) => i).sort((a, b) => now.points[a] - now.points[b])),
  colour: (i) => (byWeight() ? shades(WEIGHTS)[weightShade(now.points[i])] : labelColour(labels.values[i])),
  size: (i) => (rows.length > 3000 ? 1.6 : 2.6) * Math.max(0.75, Math.min(2.6, Math.sqrt(now.points[i]))),
  tell: (text) => { byId("map-status").textContent = text; },
  choose: (i) => chooseRow(rows[i]),
  describe: (i) => [
    html("b", {}, `row ${grouped(rows[i])}`),
    html("div", {}, `${picks.colour.options[1].textContent}: ${labelText(labels.values[i])}`),
    html("div", {}, `weight ${number(now.points[i])}`),
  ],
});

function legend() {
  const host = byId("map-legend");
  if (byWeight()) {
    host.replaceChildren(html("span", {}, "weight"), ...rampLegend(shades(WEIGHTS), "≤ 0.1", "≥ 10"), html("span", {}, "grey is the average, 1"));
  } else if (labels.names) {
    const dots = labels.names.slice(0, 12).map((name, i) => {
      const dot = html("span", { class: "dot" });
      dot.style.background = labelColour(i);
      return html("span", {}, dot, name);
    });
    host.replaceChildren(...dots, ...(labels.names.length > 12 ? [`and ${labels.names.length - 12} more`] : []));
  } else {
    host.replaceChildren(...rampLegend(shades(NUMBERS), number(labelLow), number(labelHigh)));
  }
  const about = [axisOf(picks.x), axisOf(picks.y)].filter((axis) => axis.about).map((axis) => `${axis.name} (${axis.about})`);
  byId("map-about").textContent = about.length ? `Axes: ${about.join(", ")}.` : "";
}

const histogram = onRedraw(() => {
  drawHistogram(byId("histogram"), now.all, (w) => shades(WEIGHTS)[weightShade(w)]);
  if (groups.length) drawGroups();
  legend();
});
byId("groups").hidden = !groups.length;

function tableWeights() {
  for (const row of byId("samples").tBodies[0].rows) {
    const weight = raw(ratio, Number(row.dataset.share)) / now.mean, cell = row.querySelector(".weight");
    cell.textContent = number(weight);
    cell.dataset.key = weight;
  }
}

function follow() {
  now = settle();
  order = null;
  byId("ratio-value").textContent = number(ratio);
  figures();
  tableWeights();
  map.redraw();
  histogram();
}

const slider = byId("ratio");
slider.addEventListener("input", () => {
  ratio = Number(fromTrack(Number(slider.value)).toPrecision(3));
  slider.setAttribute("aria-valuetext", number(ratio));
  follow();
});
byId("ratio-reset").addEventListener("click", () => {
  ratio = data.ratio;
  slider.value = toTrack(ratio);
  follow();
});
slider.value = toTrack(ratio);
slider.setAttribute("aria-valuetext", number(ratio));
for (const pick of Object.values(picks)) pick.addEventListener("change", () => { map.redraw(); histogram(); });
linkTable(byId("samples"), map, (row) => placeOf.get(row));

follow();
