// What every script here stands on: the data, packed arrays, elements whose text is never read as markup, and numbers.
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);

function bytesOf(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

const KINDS = { f4: Float32Array, f8: Float64Array, u2: Uint16Array, u4: Uint32Array };

function unpack(packed) {
  return new KINDS[packed.kind](bytesOf(packed.base64).buffer);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") element.setAttribute("class", value);
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

function html(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

// Thousands apart, from five digits on: four may be a year. The browser's own way takes a hundred times as long.
const grouped = (whole) => (whole < 10000 ? String(whole) : String(whole).replace(/\B(?=(\d{3})+$)/g, ","));

function number(value, digits = 3) {
  if (value === null || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  let text;
  if (size >= 10 ** (digits - 1) && size < 1e15) text = grouped(Math.round(size));
  else if (size !== 0 && (size < 1e-4 || size >= 1e15)) text = size.toExponential(digits - 1).replace(/\.?0+e/, "e");
  else text = String(Number(size.toPrecision(digits)));
  return value < 0 && Number(text.replace(/,/g, "")) !== 0 ? `−${text}` : text;
}

function limits(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (value < low && value > -Infinity) low = value;
    if (value > high && value < Infinity) high = value;
  }
  if (!(low <= high)) return [0, 1];
  if (low === high) return [low - (Math.abs(low) || 1) / 2, high + (Math.abs(high) || 1) / 2];
  return [low, high];
}

// A picture is drawn anew at most once a frame, however often it is asked for.
function oncePerFrame(draw) {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; draw(); });
  };
}

// Called when the theme or the width changes: colours and sizes of canvases are not the browser's to keep.
const redrawn = [];
function onRedraw(draw) {
  const later = oncePerFrame(draw);
  redrawn.push(later);
  later();
  return later;
}
addEventListener("resize", () => redrawn.forEach((draw) => draw()));
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function download(name, text) {
  const link = html("a", { href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// Parts of a bar are as wide as their share; a style in the markup would need a hole in the policy.
for (const part of document.querySelectorAll(".progress [data-share]")) part.style.flexGrow = part.dataset.share;
