// Connects the parts of the page: which data is fetched when, and what the controls change.

import { ApiError, get, serverNow } from './api.js';
import { drawChanges } from './changes.js';
import { Chart } from './chart.js';
import { splitContext } from './context.js';
import { closeDetail, connectDetail, drawDetail, failDetail, openDetail } from './detail.js';
import { $, show, text } from './dom.js';
import { count, rate, time } from './format.js';
import { drawHealth, drawStatus } from './health.js';
import { drawOverview } from './overview.js';
import { Poller } from './poll.js';
import { connectSlowest, drawSlowest } from './slowest.js';
import { change, read, state } from './state.js';
import { busyPaths, connectPaths, drawPaths, failPaths, markSort } from './table.js';

$('logo').src = $('icon').href;
const chart = new Chart($('chart'));
const radios = document.querySelectorAll('.segments input');
const selects = document.querySelectorAll('select');
let overview = null;

/** Calls `answered` for errors with these statuses, which concern one part of the page only. */
async function expecting(statuses, ask, answered) {
	try {
		await ask();
	} catch (error) {
		if (!(error instanceof ApiError) || !statuses.includes(error.status)) throw error;
		answered(error);
	}
}

const sources = {
	async overview(signal) {
		overview = await get('overview', {}, signal);
		drawOverview(overview);
	},
	async changes(signal) {
		drawChanges(...await Promise.all([get('changes', { limit: 50 }, signal), get('marks', {}, signal)]));
	},
	series: (signal) => expecting([400], async () => {
		const { precision } = state;
		const ask = (metric) => get('series', { metric, precision }, signal);
		const [hits, errors] = await Promise.all([ask('hits'), ask('errors')]);
		const slices = chart.update(precision, hits.points, errors.points, serverNow());
		const peak = Math.max(...slices.map((slice) => slice.hits));
		const closed = slices.filter((slice) => !slice.open);
		const mean = closed.reduce((sum, slice) => sum + slice.hits, 0) / (closed.length * precision);
		text($('chart-summary'), peak > 0 ? `peak ${count(peak)} · mean ${rate(mean)}/s` : '');
	}, (error) => {
		text($('chart-summary'), '');
		chart.clear(error.message);
	}),
	paths: (signal) => expecting([400], async () => {
		const { window, kind, sort, order, q, limit, offset } = state;
		const data = await get('paths', { window, kind, sort, order, q, limit, offset }, signal);
		busyPaths(false);
		if (data.paths.length === 0 && offset > 0) {
			change({ offset: data.total > 0 ? Math.floor((data.total - 1) / limit) * limit : 0 });
			if (state.offset < offset) return sources.paths(signal);
		}
		return drawPaths(data, state, totalTime(data));
	}, (error) => {
		busyPaths(false);
		failPaths(error.message);
	}),
	async slowest(signal) {
		drawSlowest(await get('slowest', { limit: state.slowest }, signal));
	},
	health: (signal) => expecting([503], async () => drawHealth(await get('health', {}, signal)), (error) => {
		if (!error.body?.status) throw error;
		drawHealth(error.body);
	}),
	async detail(signal) {
		const { path } = state;
		if (path) await expecting([400, 404], async () => drawDetail(await get('path', { context: path }, signal)), (error) => failDetail(error.message));
	},
};

/** Total seconds of all rows: from the API, else from the overview, else of the rows shown. */
function totalTime({ total_time: total, paths }) {
	const hour = overview?.[state.window];
	const shown = paths.reduce((sum, path) => sum + (path.total ?? 0), 0);
	if (total > 0) return total;
	return state.kind === 'http' && hour?.mean ? Math.max(hour.requests * hour.mean, shown) : shown;
}

function report(errors, complete) {
	const [error] = errors.filter((e) => e.status === 401).concat(errors);
	const expired = error?.status === 401;
	show($('connection'), Boolean(error));
	if (!error) {
		if (complete) text($('updated'), time(serverNow()));
		return;
	}
	const unreachable = !(error instanceof ApiError);
	if (unreachable) drawStatus('unreachable');
	const stale = 'Shown are the last figures received.';
	text($('connection').firstElementChild, expired ? 'You are no longer logged in. Reload the page to log in again.'
		: unreachable ? `The API cannot be reached. ${stale} Trying again…` : `${error.message}. ${stale} Trying again…`);
	text($('connection').lastElementChild, expired ? 'Reload' : 'Retry now');
	$('connection').expired = expired;
}

const poller = new Poller(sources, report);

function ask(...names) {
	if (names.includes('paths')) busyPaths(true);
	poller.refresh(...names);
}

/** Sets the controls to the state. */
function apply() {
	for (const radio of radios) radio.checked = state[radio.name] === radio.value;
	for (const select of selects) select.value = state[select.name];
	$('filter').value = state.q;
	markSort(state);
	if (state.path) openDetail(splitContext(state.path));
	else closeDetail();
}

function open(item) {
	change({ path: item.context });
	openDetail(item);
	ask('detail');
}

function page(values) {
	change(values);
	markSort(state);
	ask('paths');
}

connectPaths((sort) => {
	const order = state.sort === sort && state.order === 'desc' ? 'asc' : 'desc';
	page({ sort, order, offset: 0 });
}, open);
connectSlowest(open);
connectDetail(() => change({ path: '' }));

for (const radio of radios) {
	radio.addEventListener('change', () => page({ [radio.name]: radio.value, offset: 0 }));
}
for (const select of selects) {
	select.addEventListener('change', () => {
		const { name, value, dataset } = select;
		change({ [name]: Number(value), offset: name === 'limit' ? 0 : state.offset });
		ask(dataset.asks);
	});
}
let typing = 0;
$('filter').addEventListener('input', () => {
	clearTimeout(typing);
	typing = setTimeout(() => page({ q: $('filter').value, offset: 0 }), 250);
});
$('previous').addEventListener('click', () => page({ offset: Math.max(state.offset - state.limit, 0) }));
$('next').addEventListener('click', () => page({ offset: state.offset + state.limit }));
$('pause').addEventListener('click', () => {
	poller.paused = !poller.paused;
	text($('pause'), poller.paused ? 'Resume' : 'Pause');
	document.body.classList.toggle('paused', poller.paused);
});
$('connection').lastElementChild.addEventListener('click', () => ($('connection').expired ? location.reload() : poller.round()));
addEventListener('hashchange', () => {
	read();
	apply();
	ask('paths', 'series', 'slowest', 'detail');
});

apply();
chart.clear('Loading…');
poller.round();
