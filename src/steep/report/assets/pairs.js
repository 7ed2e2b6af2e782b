// Every pair of inputs on one canvas, and how the points spread along each: the steepest input first.
function drawPairs(canvas, axes, options) {
  const n = axes.length, box = canvas.parentElement.getBoundingClientRect();
  canvas.style.height = `${Math.min(box.width, 170 * n)}px`;
  const [pen, size] = sized(canvas), gap = 10, left = 62, bottom = 34;
  const side = [(size.width - left) / n - gap, (size.height - bottom) / n - gap];
  pen.clearRect(0, 0, size.width, size.height);
  for (let row = 0; row < n; row++) {
    for (let column = 0; column <= row; column++) {
      const x0 = left + column * (side[0] + gap), y0 = row * (side[1] + gap) + 2, x1 = x0 + side[0], y1 = y0 + side[1];
      const sx = axisScale(axes[column], x0, x1), sy = axisScale(axes[row], y1, y0);
      pen.strokeStyle = colour("line");
      pen.lineWidth = 1;
      pen.strokeRect(x0, y0, side[0], side[1]);
      if (column === row) drawBars(pen, axes[row], sx, y0, y1, options);
      else drawDots(pen, spread(axes[column]), spread(axes[row]), sx, sy, options);
      pen.fillStyle = colour("quiet");
      if (row === n - 1) {
        pen.textAlign = "center";
        for (const [t, text] of sx.marks(2)) pen.fillText(text, sx(t), y1 + 14);
        pen.fillStyle = colour("text");
        pen.fillText(axes[column].name, (x0 + x1) / 2, y1 + 30, side[0]);
      }
      if (column === 0) {
        pen.fillStyle = colour("quiet");
        pen.textAlign = "right";
        if (row) for (const [t, text] of sy.marks(2)) pen.fillText(text, x0 - 5, sy(t) + 4, left - 22);
        pen.save();
        pen.translate(11, (y0 + y1) / 2);
        pen.rotate(-Math.PI / 2);
        pen.textAlign = "center";
        pen.fillStyle = colour("text");
        pen.fillText(axes[row].name, 0, 0, side[1]);
        pen.restore();
      }
    }
  }
}

function drawDots(pen, xs, ys, sx, sy, options) {
  pen.globalAlpha = 0.85;
  const r = xs.length > 2000 ? 1.2 : 2;
  for (let i = 0; i < xs.length; i++) {
    pen.fillStyle = options.colour(i);
    SHAPES[options.shape(i)](pen, sx(xs[i]), sy(ys[i]), r);
  }
  pen.globalAlpha = 1;
}

// Stacked bars, one group on the other, in the order of the groups.
function drawBars(pen, axis, sx, y0, y1, options) {
  const n = axis.names ? axis.names.length : 14, [from, to] = [sx.from, sx.to], counts = new Map();
  for (let i = 0; i < axis.values.length; i++) {
    const bin = Math.max(0, Math.min(n - 1, Math.floor(((sx(axis.values[i]) - from) / (to - from)) * n)));
    const group = options.group(i), bins = counts.get(group) || new Array(n).fill(0);
    bins[bin] += 1;
    counts.set(group, bins);
  }
  const groups = [...counts.keys()].sort((a, b) => a - b);
  const most = Math.max(1, ...Array.from({ length: n }, (_, b) => groups.reduce((sum, g) => sum + counts.get(g)[b], 0)));
  const width = (to - from) / n;
  for (let b = 0; b < n; b++) {
    let y = y1;
    for (const group of groups) {
      const h = ((y1 - y0) * 0.92 * counts.get(group)[b]) / most;
      pen.fillStyle = options.groupColour(group);
      pen.fillRect(from + b * width + 0.5, y - h, Math.max(1, width - 1), h);
      y -= h;
    }
  }
}
