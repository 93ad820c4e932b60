// Exchanges the code in the fragment of the link, which browsers do not send, for a cookie.

async function logIn(code) {
  const problem = document.getElementById("problem");
  problem.textContent = "";
  try {
    const response = await fetch("/login", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ code }),
    });
    if (response.ok) location.replace("/");
    else problem.textContent = (await response.json()).error.message;
  } catch {
    problem.textContent = "The server cannot be reached.";
  }
}

const code = decodeURIComponent(location.hash.slice(1));
if (code) {
  history.replaceState(null, "", "/login");
  logIn(code);
}
document.querySelector("form").addEventListener("submit", (event) => {
  event.preventDefault();
  logIn(document.getElementById("code").value);
});
