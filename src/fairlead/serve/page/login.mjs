// Exchanges the code in the fragment of the link, which browsers do not send, for a cookie.

/** Where the session is kept that the page showed before it needed a login. */
const RETURN = "return";

async function logIn(code) {
  const problem = document.getElementById("problem");
  problem.textContent = "";
  try {
    const response = await fetch("/login", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ code }),
    });
    if (response.ok) {
      const session = sessionStorage.getItem(RETURN) ?? "";
      sessionStorage.removeItem(RETURN);
      location.replace(session.startsWith("#") ? `/${session}` : "/");
    }
    else problem.textContent = (await response.json()).error.message;
  } catch {
    problem.textContent = "The server cannot be reached.";
  }
}

// The server redirects the page here if there is no login. The browser keeps the fragment, which names a session then.
const wasRedirected = performance.getEntriesByType("navigation")[0]?.redirectCount > 0;
const code = wasRedirected ? "" : decodeURIComponent(location.hash.slice(1));
if (wasRedirected && location.hash) {
  sessionStorage.setItem(RETURN, location.hash);
  history.replaceState(null, "", "/login");
}
if (code) {
  history.replaceState(null, "", "/login");
  logIn(code);
}
document.querySelector("form").addEventListener("submit", (event) => {
  event.preventDefault();
  logIn(document.getElementById("code").value);
});
