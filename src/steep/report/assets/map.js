// Points on a canvas, with axes, a pointer and keys. What they mean is the page's business.
function makeMap(canvas, tip, options) {
  const room = { left: 54, right: 14, top: 12, bottom: 42 };
  let places = null, at = -1, pinned = -1;

  function place() {
    const box = canvas.getBoundingClientRect(), ratio = devicePixelRatio || 1;
    canvas.width = Math.max(1, Math.round(box.width * ratio));
    canvas.height = Math.max(1, Math.round(box.height * ratio));
    const x = options.x(), y = options.y();
    const pad = (ends) => [ends[0] - 0.03 * (ends[1] - ends[0]), ends[1] + 0.03 * (ends[1] - ends[0])];
    const sx = scaleOf(...pad(limits(x)), room.left, box.width - room.right);
    const sy = scaleOf(...pad(limits(y)), box.height - room.bottom, room.top);
    places = { box, ratio, sx, sy, px: Float32Array.from(x, sx), py: Float32Array.from(y, sy) };
  }

  function drawAxes(pen) {
    const { box, sx, sy } = places;
    pen.font = "12px system-ui, sans-serif";
    pen.lineWidth = 1;
    pen.textAlign = "center";
    for (const t of sx.ticks(Math.max(2, Math.floor(box.width / 90)))) {
      pen.strokeStyle = colour("grid");
      pen.beginPath(); pen.moveTo(sx(t), room.top); pen.lineTo(sx(t), box.height - room.bottom); pen.stroke();
      pen.fillStyle = colour("quiet");
      pen.fillText(number(t), sx(t), box.height - room.bottom + 16);
    }
    pen.textAlign = "right";
    for (const t of sy.ticks(Math.max(2, Math.floor(box.height / 60)))) {
      pen.strokeStyle = colour("grid");
      pen.beginPath(); pen.moveTo(room.left, sy(t)); pen.lineTo(box.width - room.right, sy(t)); pen.stroke();
      pen.fillStyle = colour("quiet");
      pen.fillText(number(t), room.left - 7, sy(t) + 4);
    }
    pen.fillStyle = colour("text");
    pen.textAlign = "center";
    const across = box.width - room.left - room.right;
    pen.fillText(options.xName(), room.left + across / 2, box.height - 6, across);
    pen.save();
    pen.translate(12, room.top + (box.height - room.top - room.bottom) / 2);
    pen.rotate(-Math.PI / 2);
    pen.fillText(options.yName(), 0, 0, box.height - room.top - room.bottom);
    pen.restore();
  }

  function draw() {
    place();
    const pen = canvas.getContext("2d");
    pen.setTransform(places.ratio, 0, 0, places.ratio, 0, 0);
    pen.clearRect(0, 0, places.box.width, places.box.height);
    drawAxes(pen);
    pen.globalAlpha = places.px.length > 3000 ? 0.75 : 0.9;
    let last = "";
    for (const i of options.order()) {
      const fillStyle = options.colour(i);
      if (fillStyle !== last) pen.fillStyle = last = fillStyle;
      const r = options.size(i);
      pen.beginPath();
      pen.arc(places.px[i], places.py[i], r, 0, 6.2832);
      pen.fill();
    }
    pen.globalAlpha = 1;
    const i = at >= 0 ? at : pinned;
    if (i >= 0) {
      pen.strokeStyle = colour("text");
      pen.lineWidth = 2;
      pen.beginPath(); pen.arc(places.px[i], places.py[i], options.size(i) + 5, 0, 6.2832); pen.stroke();
    }
  }

  const redraw = onRedraw(draw);

  function point(i, told) {
    at = i;
    redraw();
    if (i < 0) { tip.hidden = true; return; }
    tip.replaceChildren(...options.describe(i));
    tip.hidden = false;
    const left = places.px[i] + 14, width = tip.offsetWidth;
    tip.style.left = `${left + width > places.box.width ? Math.max(0, places.px[i] - width - 14) : left}px`;
    tip.style.top = `${Math.max(0, Math.min(places.py[i] - 10, places.box.height - tip.offsetHeight))}px`;
    if (told) options.tell(tip.textContent);
  }

  function nearest(event) {
    const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    let best = -1, least = 20 * 20;
    for (let i = 0; i < places.px.length; i++) {
      const d = (places.px[i] - x) ** 2 + (places.py[i] - y) ** 2;
      if (d < least) { least = d; best = i; }
    }
    return best;
  }

  canvas.addEventListener("pointermove", (event) => point(nearest(event), false));
  canvas.addEventListener("pointerleave", () => point(-1, false));
  canvas.addEventListener("blur", () => point(-1, false));
  canvas.addEventListener("click", (event) => {
    pinned = nearest(event);
    if (pinned >= 0 && options.choose) options.choose(pinned);
    redraw();
  });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") return point(-1, false);
    if (event.key === "Enter" && at >= 0 && options.choose) return options.choose(at);
    if (!step && event.key !== "Home") return;
    event.preventDefault();
    const order = [...options.order()].reverse(), now = order.indexOf(at >= 0 ? at : pinned);
    point(order[event.key === "Home" ? 0 : Math.max(0, Math.min(order.length - 1, now + step))], true);
  });

  return { redraw, show(i) { pinned = i; point(i, true); } };
}
