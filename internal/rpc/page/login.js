"use strict";
document.getElementById("code").value = new URLSearchParams(location.search).get("code") || "";
// the code to pair with, which is behind #, goes on to the page that follows
document.querySelector("form").action = "/login" + location.hash;
history.replaceState(null, "", "/login" + location.hash);
document.querySelector("button").disabled = false;
