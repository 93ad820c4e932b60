// Requests to the server. The cookie of the login comes with them; the page itself knows no secret.

export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** Raised when the server cannot be reached. */
export class Offline extends Error {}

export const wait = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

/** Seconds grow with each attempt up to half a minute, with some chance in it so that clients do not return all at once. */
export function backoff(attempt) {
  return Math.min(30_000, 500 * 2 ** attempt) * (0.75 + Math.random() / 2);
}

/** Send a request and return the decoded answer, or null if it is empty. */
export async function call(method, path, body) {
  const response = await request(path, {
    method,
    headers: body === undefined ? {} : { "content-type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const text = await response.text().catch(() => {
    throw new Offline("The connection was lost.");
  });
  return text ? JSON.parse(text) : null;
}

/** Send a request. Raises ApiError and Offline. Without a login, the login page opens. */
export async function request(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Offline("The server cannot be reached.");
  }
  if (response.ok) return response;
  const text = await response.text().catch(() => "");
  if (response.status === 401) {
    sessionStorage.setItem("return", location.hash); // the login page returns there
    location.replace("/login");
  }
  let detail = { code: "error", message: `The server answered with status ${response.status}.` };
  try {
    detail = JSON.parse(text).error ?? detail;
  } catch {
    // A proxy between may answer with something else than JSON.
  }
  throw new ApiError(response.status, detail.code, detail.message);
}

/** Send a request that may be repeated, until the server can be reached. Raises the last error after about a minute and a half. */
export async function persist(method, path, body, onTrouble = () => {}) {
  for (let attempt = 0; ; attempt++) {
    try {
      return await call(method, path, body);
    } catch (error) {
      const isTemporary = error instanceof Offline || [502, 503, 504].includes(error.status);
      if (!isTemporary || attempt >= 8) throw error;
      onTrouble(error);
      await wait(backoff(attempt));
    }
  }
}

export const sessionPath = (id, ...rest) => ["/v1/sessions", encodeURIComponent(id), ...rest].join("/");
