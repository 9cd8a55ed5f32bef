// Requests that write: marks and acknowledgements.

import { ApiError, DEADLINE, base } from './api.js';

/** Sends `content` as JSON to an endpoint of the API such as `marks`. Resolves to the answer. */
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
