// Requests to the JSON API: all questions of a screen in one request. If nothing has changed, the answer is a 304. The
// ETag is kept here: the API's header `no-store` forbids the browser to store an answer.

export const base = document.querySelector('meta[name="pulse-base"]').getAttribute('content');
const DEADLINE = 10_000;
let last = {}; // the last answer: url, etag, result
let ahead = 0; // server clock - own clock, in seconds

/** An answer that is not a success: its `status` and the message of the API. */
export class ApiError extends Error {
	constructor(status, body) {
		super(body?.error ? String(body.error) : `The server answered with status ${status}`);
		this.status = status;
	}
}

/** An answer in a form that this page does not know, such as from another version of the service. */
export class UnexpectedAnswer extends Error {}

/** Unix seconds by the server's clock. Slices also start by this clock. */
export const serverNow = () => Date.now() / 1000 + ahead;

/** A question such as `paths?window=1h`, without parameters that are empty or 0. */
export function question(name, parameters = {}) {
	const given = Object.entries(parameters).filter(
		([, value]) => value !== '' && value !== null && value !== undefined && value !== 0,
	);
	return given.length ? `${name}?${new URLSearchParams(given)}` : name;
}

/**
 * Asks `questions`, an object of questions by name. Resolves to an object: `answers` has `status` and `body` by name,
 * `asOf` is the Unix second up to which the answers are complete.
 */
export async function ask(questions, signal) {
	const url = new URL(`${base}api/screen`, location.href);
	url.username = url.password = ''; // fetch refuses a URL with credentials
	url.hash = '';
	url.search = String(new URLSearchParams(Object.values(questions).map((one) => ['ask', one])));
	const known = last.url === url.href ? last : {};
	const response = await fetch(url, {
		headers: { accept: 'application/json', ...(known.etag && { 'if-none-match': known.etag }) },
		cache: known.etag ? 'no-store' : 'no-cache',
		credentials: 'same-origin',
		signal: AbortSignal.any([signal, AbortSignal.timeout(DEADLINE)]),
	});
	const date = Date.parse(response.headers.get('date'));
	if (date) ahead = Math.abs(date - Date.now()) < 2000 ? 0 : (date - Date.now()) / 1000;
	if (response.status === 304 && known.result) {
		signal.throwIfAborted();
		return known.result;
	}
	if (!response.ok) throw new ApiError(response.status, await response.json().catch(() => null));
	const body = await response.text();
	signal.throwIfAborted();
	const result = readAnswers(body, Object.keys(questions));
	last = { url: url.href, etag: response.headers.get('etag'), result };
	return result;
}

/** Parses the answers for `ask`. Each answer has a status. The body of a successful answer is an object. */
function readAnswers(text, names) {
	try {
		const { answers: list, as_of: asOf } = JSON.parse(text);
		const answers = names.map((name, index) => {
			const { status, body } = list[index];
			if (!(status > 200 || (status === 200 && body instanceof Object))) throw new TypeError(name);
			return [name, list[index]];
		});
		return { answers: Object.fromEntries(answers), asOf };
	} catch (error) {
		throw new UnexpectedAnswer(error.message);
	}
}

/** Writes: sends `content` as JSON to an endpoint such as `marks`. Resolves to the answer. */
export async function send(method, endpoint, content) {
	const url = new URL(`${base}api/${endpoint}`, location.href);
	url.username = url.password = url.hash = '';
	const body = content && { headers: { 'content-type': 'application/json' }, body: JSON.stringify(content) };
	const signal = AbortSignal.timeout(DEADLINE);
	const response = await fetch(url, { method, ...body, credentials: 'same-origin', signal });
	const answer = await response.json().catch(() => null);
	if (!response.ok) throw new ApiError(response.status, answer);
	return answer;
}
