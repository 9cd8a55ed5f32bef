// Requests to the JSON API. An unchanged answer costs a 304; its ETag is kept here,
// as the browser keeps nothing of a response that says no-store.

const base = document.querySelector('meta[name="pulse-base"]').content;
const DEADLINE = 10_000;
const KEPT = 40;
const answers = new Map(); // URL -> { etag, data }
let ahead = 0; // server clock - own clock, in seconds

/** An answer other than 200: `status`, the API's message, and its JSON if there was any. */
export class ApiError extends Error {
	constructor(status, body) {
		super(body?.error ? String(body.error) : `The server answered with status ${status}`);
		this.status = status;
		this.body = body;
	}
}

/** Unix seconds by the server's clock, which slices are named after. */
export const serverNow = () => Date.now() / 1000 + ahead;

export async function get(path, parameters, signal) {
	const url = new URL(`${base}api/${path}`, location.href);
	url.username = url.password = ''; // fetch refuses a URL with credentials in it
	url.hash = '';
	url.search = new URLSearchParams(parameters);
	const kept = answers.get(url.href);
	const response = await fetch(url, {
		headers: { accept: 'application/json', ...(kept && { 'if-none-match': kept.etag }) },
		cache: kept ? 'no-store' : 'no-cache',
		credentials: 'same-origin',
		signal: AbortSignal.any([signal, AbortSignal.timeout(DEADLINE)]),
	});
	const date = Date.parse(response.headers.get('date'));
	if (date) ahead = Math.abs(date - Date.now()) < 2000 ? 0 : (date - Date.now()) / 1000;
	if (response.status === 304 && kept) {
		signal.throwIfAborted();
		return kept.data;
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
	if (answers.size > KEPT) answers.delete(answers.keys().next().value);
}
