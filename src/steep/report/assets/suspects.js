// The page of suspects: the map, and the list as a file.
if (data.map) {
  const axes = data.map.axes.map((axis) => ({ ...axis, values: unpack(axis.values) }));
  const rows = unpack(data.map.rows), score = unpack(data.map.score);
  const labels = { names: data.map.labels.names, values: unpack(data.map.labels.values) }, [low, high] = limits(labels.values);
  const picks = { x: byId("map-x"), y: byId("map-y"), colour: byId("map-colour") };
  axes.forEach((axis, i) => {
    for (const pick of [picks.x, picks.y]) pick.append(html("option", { value: i }, axis.name));
  });
  picks.y.value = axes.length > 1 ? 1 : 0;
  const axisOf = (pick) => axes[Number(pick.value)], byScore = () => picks.colour.value === "score";
  const labelColour = (value) => (labels.names ? shades(CLASSES)[value % 8] : shades(NUMBERS)[Math.round((255 * (value - low)) / (high - low))]);
  const order = Array.from(rows, (_, i) => i).sort((a, b) => score[a] - score[b]);
  const faceOf = (i) => {
    const found = data.map.faces && data.map.faces[i];
    if (!found) return null;
    return data.map.facesArePictures ? html("img", { src: found, alt: "" }) : html("div", {}, found);
  };
  const map = makeMap(byId("map"), byId("map-tip"), {
    x: () => axisOf(picks.x),
    y: () => axisOf(picks.y),
    order: () => order,
    colour: (i) => (byScore() ? shades(WEIGHTS)[Math.round(128 + 127 * Math.min(1, score[i]))] : labelColour(labels.values[i])),
    shape: (i) => (score[i] > 0.5 ? "triangle" : "circle"),
    size: (i) => (score[i] > 0.5 ? 5 : rows.length > 3000 ? 1.6 : 2.6),
    tell: (text) => { byId("map-status").textContent = text; },
    choose: (i) => chooseRow(rows[i]),
    describe: (i) => [
      html("b", {}, `row ${grouped(rows[i])}`),
      html("div", {}, `${picks.colour.options[1].textContent}: ${labels.names ? labels.names[labels.values[i]] : number(labels.values[i], 4)}`),
      html("div", {}, `score ${number(score[i], 2)}`),
      faceOf(i),
    ].filter(Boolean),
  });
  const legend = () => {
    const host = byId("map-legend");
    if (byScore()) host.replaceChildren(html("span", {}, "score"), ...rampLegend(shades(WEIGHTS).slice(128).flatMap((c) => [c, c]), "0", "1"));
    else if (!labels.names) host.replaceChildren(...rampLegend(shades(NUMBERS), number(low), number(high)));
    else host.replaceChildren(...labels.names.slice(0, 12).map((name, i) => {
      const dot = html("span", { class: "dot" });
      dot.style.background = labelColour(i);
      return html("span", {}, dot, name);
    }));
    const about = [axisOf(picks.x), axisOf(picks.y)].filter((axis) => axis.about).map((axis) => `${axis.name} (${axis.about})`);
    byId("map-about").textContent = about.length ? `Axes: ${about.join(", ")}.` : "";
  };
  onRedraw(legend);
  for (const pick of Object.values(picks)) pick.addEventListener("change", () => { map.redraw(); legend(); });
  linkTable(byId("suspects"), map, (row) => rows.indexOf(row));
}

// The rows that are shown, in the order they are shown in.
byId("download").addEventListener("click", () => {
  const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text);
  const heads = [...byId("suspects").tHead.rows[0].cells].map((cell) => cell.textContent.trim());
  const wanted = heads.map((_, i) => i).filter((i) => heads[i] !== "picture");
  const cell = (one) => (one.dataset.key !== undefined && !one.querySelector("details") ? one.dataset.key : (one.querySelector("summary") || one).textContent.trim());
  const lines = [...byId("suspects").tBodies[0].rows].filter((row) => !row.hidden).map((row) => wanted.map((i) => quoted(cell(row.cells[i]))).join(","));
  download("suspects.csv", `${[wanted.map((i) => quoted(heads[i])).join(","), ...lines].join("\n")}\n`);
});
