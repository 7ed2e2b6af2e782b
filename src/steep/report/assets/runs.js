// The page of a design or a campaign: points, the error, slices through the worst point.
const readAxis = (axis) => ({ ...axis, values: unpack(axis.values) });
const inputs = data.axes.map(readAxis), outputs = data.outputs.map(readAxis);
const origin = unpack(data.origin), rows = unpack(data.rows);
const extra = { variation: data.variation && unpack(data.variation), error: data.errors && unpack(data.errors) };
const mapAxes = [...inputs, ...outputs];
const LOOKS = [["light", "circle"], ["heavy", "triangle"], ["quiet", "square"], ["good", "ring"], ["text", "cross"], ["light", "square"]];
const looked = [];  // colours by origin, read once a drawing
const shapeOf = (i) => LOOKS[origin[i]][1];

const picks = { x: byId("map-x"), y: byId("map-y"), colour: byId("map-colour") };
mapAxes.forEach((axis, i) => {
  for (const pick of [picks.x, picks.y]) pick.append(html("option", { value: i }, axis.name));
});
picks.y.value = mapAxes.length > 1 ? 1 : 0;
const paints = { origin: null };
outputs.forEach((axis, i) => { paints[`output ${i}`] = axis; });
if (extra.variation) paints.variation = { name: "variation", values: extra.variation };
if (extra.error) paints.error = { name: "error of the prediction", values: extra.error };
picks.colour.append(...Object.entries(paints).map(([key, axis]) => html("option", { value: key }, axis ? axis.name : "origin")));
const axisOf = (pick) => mapAxes[Number(pick.value)];

function paintOf(i) {
  const axis = paints[picks.colour.value];
  if (!axis) return looked[origin[i]];
  axis.limits ??= limits(axis.values.filter(Number.isFinite));
  const [low, high] = axis.limits;
  if (!Number.isFinite(axis.values[i])) return looked[2];
  return shades(NUMBERS)[Math.round((255 * (axis.values[i] - low)) / (high - low))];
}

// Ends in the order of the runs: the last ones lie on top, and arrow keys begin with them.
const everyPoint = Array.from(rows, (_, i) => i);
const map = makeMap(byId("map"), byId("map-tip"), {
  x: () => axisOf(picks.x),
  y: () => axisOf(picks.y),
  order: () => { LOOKS.forEach(([name], i) => { looked[i] = colour(name); }); return everyPoint; },
  colour: paintOf,
  shape: shapeOf,
  size: () => (rows.length > 2000 ? 2.4 : 4),
  tell: (text) => { byId("map-status").textContent = text; },
  choose: (i) => chooseRow(rows[i]),
  describe: (i) => [
    html("b", {}, `${data.runWord} ${grouped(rows[i])}`),
    html("div", {}, data.origins[origin[i]]),
    ...mapAxes.filter((axis) => Number.isFinite(axis.values[i])).slice(0, 10).map((axis) =>
      html("div", {}, `${axis.name} = ${axis.names ? axis.names[axis.values[i]] : number(axis.values[i], 4)}`)),
    extra.error && Number.isFinite(extra.error[i]) ? html("div", {}, `error ${number(extra.error[i])} deviations`) : null,
  ].filter(Boolean),
});

function legend() {
  const axis = paints[picks.colour.value], host = byId("map-legend");
  if (axis) {
    const [low, high] = limits(axis.values.filter(Number.isFinite));
    host.replaceChildren(...rampLegend(shades(NUMBERS), number(low), number(high)));
    return;
  }
  const used = data.origins.map((name, i) => [name, i]).filter(([, i]) => origin.includes(i));
  host.replaceChildren(...used.map(([name, i]) => {
    const mark = html("canvas", { class: "mark", width: 14, height: 14 }), pen = mark.getContext("2d");
    pen.fillStyle = colour(LOOKS[i][0]);
    SHAPES[LOOKS[i][1]](pen, 7, 7, 4.5);
    return html("span", {}, mark, name);
  }));
}

onRedraw(legend);
for (const pick of Object.values(picks)) pick.addEventListener("change", () => { map.redraw(); legend(); });
if (byId("runs")) linkTable(byId("runs"), map, (row) => rows.indexOf(row));

if (data.nPairs) onRedraw(() => {
  LOOKS.forEach(([name], i) => { looked[i] = colour(name); });
  drawPairs(byId("pairs"), inputs.slice(0, Math.max(3, Math.min(data.nPairs, Math.floor(byId("pairs").clientWidth / 120)))), {
    colour: (i) => looked[origin[i]], shape: shapeOf, group: (i) => origin[i], groupColour: (group) => looked[group],
  });
});

if (data.curve) onRedraw(() => {
  const { sizes, errors, start } = data.curve;
  drawLines(byId("curve"), {
    x: { name: "runs", values: [...sizes, data.nKept], isLog: true },
    y: { name: "error (deviations)", values: errors, isLog: errors.every((e) => e > 0) },
    series: [{ x: sizes, y: errors, colour: "heavy", line: true, mark: "circle", name: "runs, error" }],
    rules: start ? [{ at: start, text: "end of the start" }] : [],
    label: `Error against the number of runs: ${number(errors[0])} at ${sizes[0]} runs, ${number(errors[errors.length - 1])} at ${sizes[sizes.length - 1]}`,
  });
});

if (data.slices) onRedraw(() => {
  const { slices, told, predicted, output } = data.slices, cut = slices.map((one) => ({ ...readAxis(one), heights: unpack(one.heights) }));
  const heights = limits([told, predicted, ...cut.flatMap((one) => [...one.heights])]);
  cut.forEach((one, i) => {
    const host = byId("slices").children[i] || byId("slices").appendChild(html("div", { class: "chart" }));
    drawLines(host, {
      x: one,
      y: { name: i ? "" : output, values: heights },
      series: [
        { x: one.values, y: one.heights, colour: "text", line: !one.isWhole, mark: one.isWhole ? "square" : null, name: "surrogate" },
        { x: [one.at], y: [told], colour: "heavy", mark: "circle", name: "result" },
        { x: [one.at], y: [predicted], colour: "light", mark: "triangle", name: "predicted from the others" },
      ],
      label: `The surrogate along ${one.name}`,
      height: 220,
    });
  });
});

if (data.times) onRedraw(() => {
  const { times, counts, unit } = data.times;
  drawLines(byId("times"), {
    x: { name: `${unit} since the first result was asked for`, values: [0, ...times] },
    y: { name: "results", values: [0, counts[counts.length - 1]] },
    series: [{ x: [0, ...times], y: [0, ...counts], colour: "heavy", line: true }],
    label: `${counts[counts.length - 1]} results in ${number(times[times.length - 1])} ${unit}`,
  });
});

// Numbers as they are, names in quotes where a comma or a quote asks for it.
function csv() {
  const all = unpack({ kind: "f8", base64: byId("kept").textContent }), n = data.nKept;
  const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text);
  const lines = [data.columns.map((column) => quoted(column.name)).join(",")];
  for (let i = 0; i < n; i++) {
    lines.push(data.columns.map((column, j) => (column.names ? quoted(column.names[all[j * n + i]]) : all[j * n + i])).join(","));
  }
  return `${lines.join("\n")}\n`;
}

if (byId("download")) byId("download").addEventListener("click", () => download("points.csv", csv()));
