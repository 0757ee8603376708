// Loads the page anew where one of its files did not come: the server had no place for who asked.
addEventListener("error", (event) => {
  if (event.target instanceof HTMLScriptElement || event.target instanceof HTMLLinkElement) setTimeout(() => location.reload(), 1000);
}, true);
