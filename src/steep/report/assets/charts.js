// Small pictures as SVG: lines with points, and gains with their intervals.
function axisLine(scale, axis, room, width, height, across) {
  const marks = scale.marks(across ? Math.max(2, Math.floor(width / 80)) : Math.max(2, Math.floor(height / 50)));
  return marks.flatMap(([t, text]) => (across
    ? [svg("line", { class: "gridline", x1: scale(t), x2: scale(t), y1: room.top, y2: height - room.bottom }),
       svg("text", { x: scale(t), y: height - room.bottom + 17, "text-anchor": "middle" }, text)]
    : [svg("line", { class: "gridline", x1: room.left, x2: width - room.right, y1: scale(t), y2: scale(t) }),
       svg("text", { x: room.left - 6, y: scale(t) + 4, "text-anchor": "end" }, text)]));
}

const MARKS = {
  circle: (x, y, fill) => svg("circle", { cx: x, cy: y, r: 4, fill }),
  square: (x, y, fill) => svg("rect", { x: x - 4, y: y - 4, width: 8, height: 8, fill }),
  triangle: (x, y, fill) => svg("path", { d: `M${x} ${y - 5.5}l5 9h-10z`, fill }),
};

// series: { x, y, colour, line, mark, name }; colours are names of the page's own, so that they follow the theme.
function drawLines(host, { x, y, series, rules = [], label, height = 260 }) {
  const width = Math.max(220, host.clientWidth), room = { left: 54, right: 12, top: 10, bottom: 40 };
  const across = axisScale(x, room.left, width - room.right), up = axisScale(y, height - room.bottom, room.top);
  const marks = [...axisLine(across, x, room, width, height, true), ...axisLine(up, y, room, width, height, false)];
  for (const rule of rules) {
    marks.push(svg("line", { x1: across(rule.at), x2: across(rule.at), y1: room.top, y2: height - room.bottom, stroke: colour("quiet"), "stroke-dasharray": "2 3" }));
    marks.push(svg("text", { x: across(rule.at) + 5, y: room.top + 11 }, rule.text));
  }
  for (const one of series) {
    const paint = colour(one.colour), points = Array.from(one.x, (v, i) => [across(v), up(one.y[i])]);
    if (one.line) marks.push(svg("path", { d: points.map((p, i) => `${i ? "L" : "M"}${p[0].toFixed(1)} ${p[1].toFixed(1)}`).join(""), fill: "none", stroke: paint, "stroke-width": 2, "stroke-linejoin": "round" }));
    if (one.mark) points.forEach((p, i) => {
      const dot = MARKS[one.mark](p[0], p[1], paint);
      dot.append(svg("title", {}, `${one.name ? `${one.name}: ` : ""}${number(one.x[i])}, ${number(one.y[i])}`));
      marks.push(dot);
    });
  }
  marks.push(svg("text", { class: "name", x: (room.left + width - room.right) / 2, y: height - 4, "text-anchor": "middle" }, x.name));
  if (y.name) marks.push(svg("text", { class: "name", transform: `translate(12 ${(room.top + height - room.bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, y.name));
  host.replaceChildren(svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, ...marks));
}
