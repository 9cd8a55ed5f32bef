// The state of the dashboard, in the URL's fragment: a reload, a shared link and the Back button restore it.

const DAY = 86400;
const UNITS = { m: 60, h: 3600, d: DAY };
/** Ranges that move with the clock, in seconds. */
export const RANGES = Object.fromEntries(
	['5m', '15m', '1h', '6h', '24h', '7d', '30d', '90d'].map((name) => [name, parseInt(name) * UNITS[name.at(-1)]]),
);
const ALWAYS_KEPT = RANGES['7d'];
/** The screens of the navigation. */
export const SCREENS = ['overview', 'paths', 'slowest', 'errors', 'timers', 'counters', 'deploy', 'health'];
const NAMES = [...SCREENS, 'path', 'instance'];
// The fields that all screens share, and those of single screens.
const SHARED = {
	range: '',
	from: 0,
	to: 0,
	against: '',
	precision: 0,
	refresh: 2,
	utc: 0,
	unit: '',
	log: 1,
	heat: 0,
	hide: '',
	table: '',
	paused: 0,
};
const OWN = {
	context: '',
	kind: '',
	mark: '',
	name: '',
	q: '',
	sort: '',
	order: '',
	limit: 0,
	offset: 0,
	instance: '',
	status: '',
	per: '',
};
const FIELDS = { ...SHARED, ...OWN };
const ALIASES = { deploys: 'deploy', instances: 'health' }; // names that users type
export const REFRESH = [1, 2, 5, 10, 30, 60];
const MAX_UNIX = 1e11;
const MAX_SLICES = 800;

/** The configuration that the server gives to the dashboard. */
export const config = JSON.parse(document.querySelector('meta[name="pulse-config"]').getAttribute('content') || '{}');

/**
 * The state in a fragment such as `#paths?range=6h` or `#instance/web-1`, where `web-1` becomes the field `context`. A
 * missing or invalid value gets its default.
 */
export function parse(fragment) {
	const [, name, own, query] = /^#?([^?/]*)\/?([^?]*)\??(.*)$/s.exec(fragment);
	const given = new URLSearchParams(own ? `context=${own}&${query}` : query);
	const screen = ALIASES[name] ?? name;
	const state = { screen: NAMES.includes(screen) ? screen : NAMES[0] };
	for (const [field, initial] of Object.entries(FIELDS)) {
		const value = given.get(field);
		if (value === null) state[field] = initial;
		else if (typeof initial === 'string') state[field] = value;
		else state[field] = /^\d{1,12}$/.test(value) ? Math.min(Number(value), MAX_UNIX) : initial;
	}
	if (!Object.hasOwn(RANGES, state.range)) state.range = '';
	if (state.from >= state.to || state.from > Date.now() / 1000 + DAY) state.from = state.to = 0;
	if (!/^(yesterday|week_ago|\d{1,12})$/.test(state.against)) state.against = '';
	if (state.unit !== 'second') state.unit = '';
	if (!REFRESH.includes(state.refresh)) state.refresh = SHARED.refresh;
	if (!config.precisions?.includes(state.precision)) state.precision = 0;
	if (state.order !== 'asc') state.order = '';
	return state;
}

export function fragment(state) {
	const query = new URLSearchParams();
	const own = state.screen === 'instance' ? 'context' : '';
	for (const [field, initial] of Object.entries(FIELDS)) {
		if (field !== own && state[field] !== initial) query.set(field, state[field]);
	}
	return `#${state.screen}${own && `/${encodeURIComponent(state.context)}`}${query.size ? `?${query}` : ''}`;
}

export const state = parse(location.hash);

/** The fragment after a change. Another screen keeps only the fields that all screens share. */
export function link(values) {
	const reset = values.screen && values.screen !== state.screen ? OWN : {};
	return fragment({ ...state, ...reset, ...values });
}

/** Reads the state from the URL again. */
export function read() {
	Object.assign(state, parse(location.hash));
}

/** Changes the state and the URL. The Back button restores the old state, unless `inPlace`. */
export function write(values, inPlace = false) {
	const url = `${location.pathname}${location.search}${link(values)}`;
	if (inPlace) history.replaceState(null, '', url);
	else history.pushState(null, '', url);
	read();
}

export const isZoomed = () => state.to > 0;

let automatic = '1h'; // the range while none is chosen

/** The name of the range that moves with the clock. */
export const rangeName = () => state.range || automatic;

/** Sets the automatic range for a recording of `age` seconds. Returns whether the range changed. */
export function adaptRange(age) {
	const old = rangeName();
	automatic = age < 330 ? '5m' : age < 960 ? '15m' : '1h';
	return !isZoomed() && rangeName() !== old;
}

let historyDays = 0; // 0 until the server has answered

/** Sets the number of days that the store keeps. Returns whether the number has grown. */
export function setDays(days) {
	if (days <= historyDays) return false;
	historyDays = days;
	return true;
}

/** Whether a range is offered, because the store keeps it or the URL names it. */
export const isOffered = (name) => RANGES[name] <= Math.max(ALWAYS_KEPT, historyDays * DAY) || name === state.range;

/** The state's range as parameters of the API. */
export function range() {
	return isZoomed() ? { from: state.from, to: state.to } : { window: rangeName() };
}

/** The state's range, and the time that it is compared with, as parameters of the API. */
export const compared = () => ({ ...range(), against: state.against });

/** The name of the time that the range is compared with. `before`: the name of the time before the range. */
export const againstName = (before) =>
	state.against ? ({ yesterday: 'yesterday', week_ago: 'a week ago' }[state.against] ?? 'the chosen time') : before;

/** The length of the state's range, in seconds. */
export const seconds = () => (isZoomed() ? state.to - state.from : RANGES[rangeName()]);

/** Whether the range has at least one slice of this length, and not too many. */
export const fitsRange = (precision) => precision <= seconds() && seconds() <= MAX_SLICES * precision;

/**
 * The newest time up to which the records of the range will not change. A record covers a minute, half an hour, six
 * hours or a day.
 */
export function settled(now) {
	const slice = seconds() <= 7200 ? 60 : seconds() <= 2 * DAY ? 1800 : seconds() <= ALWAYS_KEPT ? 21600 : DAY;
	return Math.floor(now / slice) * slice;
}

/** Whether the time from `since` to `ended` (`null`: not ended) overlaps the zoomed range; `true` without a zoom. */
export const isInRange = ({ since, ended }) => !isZoomed() || (since < state.to && (ended ?? Infinity) > state.from);
