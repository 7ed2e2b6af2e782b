// The page of an improvement: gains as a forest, weights as a histogram.
onRedraw(() => drawGains(byId("gains"), {
  rows: data.gains,
  name: data.unit,
  label: data.gains.map((row) => `${row.name}: ${number(row.mean)}, from ${number(row.low)} to ${number(row.high)}`).join("; "),
}));
if (data.weights) {
  const weights = [...unpack(data.weights)];
  onRedraw(() => drawHistogram(byId("histogram"), weights, (w) => shades(WEIGHTS)[weightShade(w)]));
}
