// Light or dark: what the system says, unless the button says otherwise. Nothing is remembered.
const THEMES = ["system", "light", "dark"];
const system = matchMedia("(prefers-color-scheme: dark)");
let theme = "system";

function isDark() {
  return theme === "dark" || (theme === "system" && system.matches);
}

byId("theme").addEventListener("click", () => {
  theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  byId("theme-name").textContent = theme;
  redrawn.forEach((draw) => draw());
});
system.addEventListener("change", () => redrawn.forEach((draw) => draw()));
