// The state of the page, in the URL's hash so that a reload or a shared link shows the same.

const FIELDS = {
	window: ['hour', 'last_hour'],
	kind: ['http', 'timer', 'all'],
	sort: ['total', 'count', 'mean', 'p95', 'max', 'errors'],
	order: ['desc', 'asc'],
	limit: [25, 10, 50, 100],
	precision: [1, 5, 60, 300, 3600, 18000, 86400],
	slowest: [10, 25, 50, 100],
	offset: 0,
	q: '',
	path: '',
};

export const state = {};
read();

/** Reads the state from the hash. A missing or invalid value gets its default. */
export function read() {
	const hash = new URLSearchParams(location.hash.slice(1));
	for (const [name, field] of Object.entries(FIELDS)) {
		const given = hash.get(name);
		if (Array.isArray(field)) state[name] = field.find((value) => String(value) === given) ?? field[0];
		else if (field === 0) state[name] = Math.min(Math.max(Number.parseInt(given, 10) || 0, 0), 1e6);
		else state[name] = given ?? field;
	}
}

/** Changes the state, and the hash with it. */
export function change(values) {
	Object.assign(state, values);
	const hash = new URLSearchParams();
	for (const [name, field] of Object.entries(FIELDS)) {
		const initial = Array.isArray(field) ? field[0] : field;
		if (state[name] !== initial) hash.set(name, state[name]);
	}
	const tail = hash.size ? `#${hash}` : '';
	if (location.hash !== tail) history.replaceState(null, '', `${location.pathname}${location.search}${tail}`);
}
