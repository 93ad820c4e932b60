"""The login page. The code comes in the fragment of the link, which browsers do not send, and leaves in a POST."""

from __future__ import annotations

PAGE = b"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Log in to fairlead</title>
<main>
<h1>Log in to fairlead</h1>
<form method="post" action="/login">
<p><label for="code">Login code or token</label></p>
<p><input id="code" name="code" type="password" autocomplete="off" required></p>
<p><button>Log in</button></p>
</form>
<p id="problem" role="alert"></p>
</main>
<script src="/login.js"></script>
</html>
"""

SCRIPT = b"""const code = decodeURIComponent(location.hash.slice(1));
if (code) {
  history.replaceState(null, "", "/login");
  fetch("/login", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ code }),
  }).then(async (response) => {
    if (response.ok) location.replace("/");
    else document.getElementById("problem").textContent = (await response.json()).error.message;
  });
}
"""
