"use strict";
document.getElementById("code").value = new URLSearchParams(location.search).get("code") || "";
history.replaceState(null, "", "/login");
