// Points on a canvas, with axes, a pointer and keys. What they mean is the page's business.

function sized(canvas) {
  const box = canvas.getBoundingClientRect(), ratio = devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(box.width * ratio));
  canvas.height = Math.max(1, Math.round(box.height * ratio));
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.font = "12px system-ui, sans-serif";
  return [pen, box];
}

function makeMap(canvas, tip, options) {
  const room = { left: 58, right: 14, top: 12, bottom: 42 };
  let places = null, at = -1, pinned = -1;

  function drawAxes(pen, box, sx, sy) {
    const quiet = colour("quiet"), bottom = box.height - room.bottom, right = box.width - room.right;
    pen.strokeStyle = colour("grid");
    pen.fillStyle = quiet;
    pen.lineWidth = 1;
    pen.textAlign = "center";
    for (const [t, text] of sx.marks(Math.max(2, Math.floor(box.width / 90)))) {
      pen.beginPath(); pen.moveTo(sx(t), room.top); pen.lineTo(sx(t), bottom); pen.stroke();
      pen.fillText(text, sx(t), bottom + 16);
    }
    pen.textAlign = "right";
    for (const [t, text] of sy.marks(Math.max(2, Math.floor(box.height / 60)))) {
      pen.beginPath(); pen.moveTo(room.left, sy(t)); pen.lineTo(right, sy(t)); pen.stroke();
      pen.fillText(text, room.left - 7, sy(t) + 4, room.left - 22);
    }
    pen.fillStyle = colour("text");
    pen.textAlign = "center";
    pen.fillText(options.x().name, (room.left + right) / 2, box.height - 6, right - room.left);
    pen.save();
    pen.translate(12, (room.top + bottom) / 2);
    pen.rotate(-Math.PI / 2);
    pen.fillText(options.y().name, 0, 0, bottom - room.top);
    pen.restore();
  }

  function draw() {
    const [pen, box] = sized(canvas);
    const sx = axisScale(options.x(), room.left, box.width - room.right), sy = axisScale(options.y(), box.height - room.bottom, room.top);
    places = { box, px: Float32Array.from(options.x().values, sx), py: Float32Array.from(options.y().values, sy) };
    pen.clearRect(0, 0, box.width, box.height);
    drawAxes(pen, box, sx, sy);
    pen.globalAlpha = places.px.length > 3000 ? 0.75 : 0.9;
    for (const i of options.order()) {
      if (!Number.isFinite(places.px[i]) || !Number.isFinite(places.py[i])) continue;
      pen.fillStyle = options.colour(i);
      pen.beginPath(); pen.arc(places.px[i], places.py[i], options.size(i), 0, 6.2832); pen.fill();
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
    if (!places) draw();
    at = i;
    redraw();
    if (i < 0) { tip.hidden = true; return; }
    tip.replaceChildren(...options.describe(i));
    tip.hidden = false;
    const left = places.px[i] + 14, width = tip.offsetWidth;
    tip.style.left = `${left + width > places.box.width ? Math.max(0, places.px[i] - width - 14) : left}px`;
    tip.style.top = `${Math.max(0, Math.min(places.py[i] - 10, places.box.height - tip.offsetHeight))}px`;
    if (told) options.tell([...tip.children].map((line) => line.textContent).filter(Boolean).join(", "));
  }

  function nearest(event) {
    if (!places) draw();
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
    if (!step && event.key !== "Home") return undefined;
    event.preventDefault();
    const order = [...options.order()].reverse(), now = order.indexOf(at >= 0 ? at : pinned);
    return point(order[event.key === "Home" ? 0 : Math.max(0, Math.min(order.length - 1, now + step))], true);
  });

  return { redraw, show(i) { pinned = i; point(i, true); } };
}

// A row of a table and its point on the map lead to each other.
function mark(row, scroll) {
  for (const other of document.querySelectorAll("tr.chosen")) other.classList.remove("chosen");
  row.classList.add("chosen");
  if (scroll) { row.hidden = false; row.scrollIntoView({ block: "center" }); }
}

function linkTable(table, map, placeOf) {
  table.addEventListener("click", (event) => {
    const button = event.target.closest("button.find");
    if (!button) return;
    const row = button.closest("tr");
    mark(row, false);
    byId("map").scrollIntoView({ block: "nearest" });
    map.show(placeOf(Number(row.dataset.row)));
  });
}

function chooseRow(number) {
  const row = document.querySelector(`tr[data-row="${number}"]`);
  if (row) mark(row, true);
}

function rampLegend(colours, low, high) {
  const ramp = html("span", { class: "ramp" });
  ramp.style.background = `linear-gradient(90deg, ${[0, 64, 128, 191, 255].map((i) => colours[i]).join(",")})`;
  return [html("span", {}, low), ramp, html("span", {}, high)];
}
