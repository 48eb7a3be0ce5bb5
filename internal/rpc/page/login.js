"use strict";
document.getElementById("code").value = new URLSearchParams(location.search).get("code") || "";
// the code to pair with, which is behind #, goes on to the page that follows
const form = document.querySelector("form");
form.action = "/login" + location.hash;
history.replaceState(null, "", "/login" + location.hash);
form.addEventListener("submit", () => {
  // the secret of this origin's pages, which goes with every request of theirs: src/device/page.ts reads it
  const bytes = crypto.getRandomValues(new Uint8Array(32));
  const secret = btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  localStorage.setItem("palyra.page", secret);
  document.getElementById("page").value = secret;
});
document.querySelector("button").disabled = false;
