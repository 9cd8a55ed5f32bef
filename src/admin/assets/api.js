// Requests to the JSON API. An unchanged answer costs a 304. Its ETag is held here, because the browser
// stores no response that says no-store.

const base = document.querySelector('meta[name="pulse-base"]').content;
const DEADLINE = 10_000;
const MAX_ANSWERS = 40;
const answers = new Map(); // URL -> { etag, data }
let ahead = 0; // server clock - own clock, in seconds

/** An answer other than 200: its `status`, the message of the API, and its JSON if it has any. */
export class ApiError extends Error {
	constructor(status, body) {
		super(body?.error ? String(body.error) : `The server answered with status ${status}`);
		this.status = status;
		this.body = body;
	}
}

/** Unix seconds by the server's clock, which also gives the starts of slices. */
export const serverNow = () => Date.now() / 1000 + ahead;

export async function get(path, parameters, signal) {
	const url = new URL(`${base}api/${path}`, location.href);
	url.username = url.password = ''; // fetch refuses a URL with credentials
	url.hash = '';
	url.search = new URLSearchParams(parameters);
	const cached = answers.get(url.href);
	const response = await fetch(url, {
		headers: { accept: 'application/json', ...(cached && { 'if-none-match': cached.etag }) },
		cache: cached ? 'no-store' : 'no-cache',
		credentials: 'same-origin',
		signal: AbortSignal.any([signal, AbortSignal.timeout(DEADLINE)]),
	});
	const date = Date.parse(response.headers.get('date'));
	if (date) ahead = Math.abs(date - Date.now()) < 2000 ? 0 : (date - Date.now()) / 1000;
	if (response.status === 304 && cached) {
		signal.throwIfAborted();
		return cached.data;
	}
	if (!response.ok) throw new ApiError(response.status, await response.json().catch(() => null));
	const data = await response.json();
	signal.throwIfAborted();
	keep(url.href, response.headers.get('etag'), data);
	return data;
}

function keep(url, etag, data) {
	answers.delete(url);
	if (etag) answers.set(url, { etag, data });
	if (answers.size > MAX_ANSWERS) answers.delete(answers.keys().next().value);
}
