// Shares of the samples by weight, on a logarithmic axis.
function drawHistogram(host, weights, shadeOf) {
  const width = Math.max(240, host.clientWidth), height = 240, room = { left: 40, right: 8, top: 8, bottom: 40 };
  let [low, high] = limits(weights.filter((w) => w > 0));
  low = Math.min(low, 0.1); high = Math.max(high, 10);
  const n = 36, step = Math.log(high / low) / n, counts = new Array(n).fill(0);
  for (const w of weights) if (w > 0) counts[Math.max(0, Math.min(n - 1, Math.floor(Math.log(w / low) / step)))] += 1 / weights.length;
  const most = Math.max(...counts);
  const x = scaleOf(low, high, room.left, width - room.right, true), y = scaleOf(0, most, height - room.bottom, room.top);
  const marks = [];
  for (const t of y.ticks(4)) {
    marks.push(svg("line", { class: "gridline", x1: room.left, x2: width - room.right, y1: y(t), y2: y(t) }));
    marks.push(svg("text", { x: room.left - 6, y: y(t) + 4, "text-anchor": "end" }, `${number(100 * t)} %`));
  }
  counts.forEach((count, i) => {
    if (!count) return;
    const from = low * Math.exp(i * step), to = low * Math.exp((i + 1) * step);
    marks.push(svg("rect", {
      x: x(from) + 0.5, width: Math.max(1, x(to) - x(from) - 1), y: Math.min(y(count), height - room.bottom - 1.5),
      height: Math.max(1.5, height - room.bottom - y(count)), fill: shadeOf(Math.sqrt(from * to)),
    }, svg("title", {}, `${number(100 * count)} % between ${number(from)} and ${number(to)}`)));
  });
  marks.push(svg("line", { x1: x(1), x2: x(1), y1: room.top, y2: height - room.bottom, stroke: colour("text"), "stroke-dasharray": "3 3" }));
  for (const t of x.ticks()) marks.push(svg("text", { x: x(t), y: height - room.bottom + 17, "text-anchor": "middle" }, number(t)));
  marks.push(svg("text", { class: "name", x: (room.left + width - room.right) / 2, y: height - 4, "text-anchor": "middle" }, "weight"));
  host.replaceChildren(svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Histogram of the weights" }, ...marks));
}
