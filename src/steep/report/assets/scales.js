// From numbers to places on an axis, round ticks, and colours.
function ticksOf(low, high, n) {
  const rough = (high - low) / n;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= rough) || rough;
  const ticks = [];
  for (let t = Math.ceil(low / step - 1e-9) * step; t <= high + 1e-9 * step; t += step) ticks.push(Math.abs(t) < step / 1e6 ? 0 : t);
  return ticks;
}

// Powers of ten, fewer of them where there is no room; with others between them where the axis is short.
function logTicks(low, high, n = 8) {
  const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high)), decades = Math.log10(high / low);
  if (decades < 0.7) return ticksOf(low, high, Math.min(n, 4));
  const step = Math.max(1, Math.ceil(decades / n)), between = decades < n / 3 ? [1, 2, 5] : decades < n / 2 ? [1, 3] : [1];
  const ticks = [];
  for (let p = first; p <= last; p += step) ticks.push(...between.map((f) => f * 10 ** p));
  return ticks.filter((t) => t >= low * 0.999 && t <= high * 1.001);
}

function scaleOf(low, high, from, to, isLog = false) {
  const f = isLog ? Math.log : (x) => x;
  const a = f(low), b = f(high);
  const scale = (x) => from + ((f(x) - a) / (b - a || 1)) * (to - from);
  scale.from = from;
  scale.to = to;
  scale.ticks = (n) => (isLog ? logTicks(low, high, n) : ticksOf(low, high, n));
  return scale;
}

// An axis is { name, values }.
function axisScale(axis, from, to) {
  const [low, high] = limits(axis.values), edge = 0.03 * (high - low);
  const scale = scaleOf(low - edge, high + edge, from, to);
  scale.marks = (n) => scale.ticks(n).map((t) => [t, number(t)]);
  return scale;
}

const hex = (text) => [1, 3, 5].map((i) => parseInt(text.slice(i, i + 2), 16));

function rampOf(stops) {
  const points = stops.map(hex);
  const colours = [];
  for (let i = 0; i < 256; i++) {
    const at = (i / 255) * (points.length - 1), j = Math.min(Math.floor(at), points.length - 2);
    colours.push(`rgb(${points[j].map((c, k) => Math.round(c + (at - j) * (points[j + 1][k] - c))).join(",")})`);
  }
  return colours;
}

// Two hues that colour-blind readers tell apart, with lightness falling (or rising, on dark) to both ends.
const WEIGHTS = {
  light: rampOf(["#4f8cc4", "#86add3", "#b9c3cd", "#e5843a", "#8c3200"]),
  dark: rampOf(["#4f93d6", "#4a7db0", "#717d8a", "#d9762b", "#ffcf9a"]),
};
const NUMBERS = {
  light: rampOf(["#fde8c4", "#f0a860", "#b85c8f", "#5e3c99", "#1d1147"]),
  dark: rampOf(["#3b2a6b", "#7d4fb5", "#d0709f", "#f5a873", "#fff0c0"]),
};
// Okabe and Ito's colours, which all readers tell apart; a darker and a brighter set for the two themes.
const CLASSES = {
  light: ["#0072b2", "#d55e00", "#009e73", "#b0669a", "#8a7300", "#4a9fd0", "#c28400", "#444c55"],
  dark: ["#56b4e9", "#ff8a3c", "#2ecc9a", "#e0a0cb", "#f0e442", "#9bd3f5", "#ffc04d", "#c5ccd3"],
};
const shades = (set) => (isDark() ? set.dark : set.light);

// A weight's colour: grey at the average, full at a tenth of it and at ten times it.
const WEIGHT_ENDS = [0.1, 10];
function weightShade(weight) {
  if (!(weight > 0)) return 0;
  const at = (Math.log(weight) - Math.log(WEIGHT_ENDS[0])) / (Math.log(WEIGHT_ENDS[1]) - Math.log(WEIGHT_ENDS[0]));
  return Math.max(0, Math.min(255, Math.round(255 * at)));
}
