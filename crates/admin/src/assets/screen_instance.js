// One instance beside the others: whether it is slower on all paths or on one, its charts over time, and its paths.

import { question } from './api.js';
import { anchor, card, offerExport } from './card.js';
import { against, instancesWith, level } from './change.js';
import { attr, el, labelled, say, show, text } from './dom.js';
import { count, duration, isNumber, moment, perUnit, percent, plural, rateOf, unitName, visible } from './format.js';
import { lengthName } from './overview.js';
import { isZoomed, link, range, seconds, state } from './state.js';
import { Table, contextColumn, errorColumn, numberColumn, ratioColumn, requestsColumn, statistic } from './table.js';
import { Tiles } from './tiles.js';
import { Trends, chartOf, countsOf, exportedChart, valuesOf, withView } from './trends.js';
import { changePanel } from './verdict.js';

const NAMED = 3; // paths that a sentence names
const A_MINUTE_OR_TWO = 120; // seconds by which an answer may be shorter than the range
const REQUESTS = [
	{ key: 'count', label: 'this instance', color: 'c-p50' },
	{ key: 'others_count', label: 'mean of the others', color: 'c-mean' },
	{ key: 'errors', label: 'errors', color: 'c-5xx' },
];
const LATENCY = [
	{ key: 'mean', label: 'mean', color: 'c-p50' },
	{ key: 'p95', label: 'p95', color: 'c-p95' },
	{ key: 'others_mean', label: 'mean of the others', color: 'c-mean' },
];

const CPU = [
	{ key: 'cpu', label: 'CPUs used', color: 'c-p95' },
	{ key: 'busy', label: 'workers busy', color: 'c-mean' },
];
const DELAY = [
	{ key: 'delay', label: 'scheduling delay, median', color: 'c-p50' },
	{ key: 'worst_delay', label: 'worst', color: 'c-p95' },
];
const MEMORY = [{ key: 'resident_bytes', label: 'resident memory', color: 'c-p50' }];

export function mount(root, page) {
	const name = state.context;
	const back = anchor('', 'Health');
	const facts = el('p', 'muted');
	const verdict = el('strong', 'change');
	const said = el('section', 'card', el('p', '', verdict), facts);
	labelled(said, 'About this instance').dataset.panel = 'instance';
	const change = changePanel(page);
	const tiles = new Tiles(['requests', 'mean', 'p50', 'p95', 'p99', 'errors', 'target']);
	const charts = el('div', 'pair');
	const all = new Trends(page, name); // shown if the service has only this instance
	const [requests, latency] = [
		['requests', 'Requests', REQUESTS, perUnit, unitName],
		['latency', 'Latency', LATENCY, duration],
	].map((options) => chart(charts, page, name, options));
	const machine = el('div', 'pair'); // charts of the instance's runtime and process
	const machines = [
		['cpu', 'CPU and workers', CPU, (value) => percent(value, 1)],
		['delay', 'Scheduling delay', DELAY, duration],
		['memory', 'Memory', MEMORY, (value) => `${count(Math.round(value / 1e6))} MB`],
	].map((options) => chart(machine, page, name, options, 'machine'));
	const machineNote = el('p', 'muted');
	const table = pathTable();
	const until = el('span', 'muted');
	const paths = card('instance-paths', 'Its paths, compared with the others', { head: [until], parts: [table.node] });
	const body = el('div', 'stack', said, change.node, tiles.node, charts, all.node, machine, machineNote, paths);
	const note = el('p', 'nothing card');
	root.append(el('p', 'crumbs', back, ' / ', el('h2', 'title', el('bdi', 'mono path', visible(name)))), note, body);
	let isAlone = false;
	let since = 0; // when the change of this instance, or of one of its paths, began

	return {
		remove() {
			for (const one of [all, requests, latency, ...machines]) one.remove();
		},
		questions: () => ({
			instance: question('instance', { instance: name, ...range() }),
			// The figures of a change cover the time since it began.
			...(since && !isZoomed() ? { after: question('instance', { instance: name, from: since }) } : {}),
			marks: 'marks',
			...(isAlone ? all.questions() : {}),
		}),
		draw({ instance, after, marks, changes: log, ...series }, now, { asOf, refused }) {
			attr(back, 'href', link({ screen: 'health' }));
			show(body, Boolean(instance));
			say(note, refused.instance ?? '');
			if (!instance) return;
			const about = (log?.changes ?? []).filter((one) => instancesWith(one).includes(name));
			const began = about.find((one) => one.is_ongoing)?.since ?? 0;
			if (began !== since || instance.alone !== isAlone) {
				[since, isAlone] = [began, instance.alone];
				page.ask();
			}
			const compared = since && after ? after : instance;
			text(verdict, sentence(compared));
			attr(verdict, 'data-level', levelOf(compared));
			text(facts, factsOf(instance, since && after ? since : 0, now));
			show(change.node, about.length > 0);
			const marked = marks?.marks ?? [];
			change.draw(about, marked, now, log);
			tiles.draw(compared, { now, target: page.config.target, length: lengthName() });
			// For a longer range, `factsOf` says which part is included.
			if (!isPart(instance)) page.complete(instance, instance.count > 0);
			const isKept = instance.to > instance.from;
			show(charts, !isAlone && isKept);
			show(all.node, isAlone);
			const drawn = { marks: marked, changes: about, asOf };
			if (isAlone) all.draw(series, drawn);
			else if (isKept) for (const one of [requests, latency]) one.draw(instance, drawn);
			const known = instance.machine;
			const hasMemory = known.some(([, point]) => isNumber(point.resident_bytes));
			show(machine, known.length > 0);
			if (known.length) for (const one of machines) one.draw(instance, drawn);
			show(machine.lastChild, hasMemory);
			say(machineNote, known.length ? machineOf(known.at(-1)[1]) : '');
			show(paths, !isAlone && isKept);
			table.draw(compared.paths, compared.reported_paths ? '' : 'No requests in this range');
			const shown = compared.paths.length;
			const part = shown < compared.reported_paths ? `${shown} of ${compared.reported_paths} paths, ` : '';
			const during = `${moment(compared.from, now)} – ${moment(Math.min(compared.to, now), now)}`;
			text(until, `${part}${during}; only each minute’s busiest paths are reported`);
		},
	};
}

/**
 * A chart of the instance's minutes; `draw` takes an answer, marks and changes.
 * @param {any[]} options
 */
function chart(root, page, name, options, of = 'points') {
	const [key, title, series, format, unit] = options;
	const figure = el('figure', 'card');
	figure.dataset.chart = key;
	root.append(figure);
	const offers = key === 'latency' ? 'log' : '';
	const shown = chartOf(page, figure, { title, kind: 'lines', series, format, unit, name: key, offers });
	offerExport(`${title} beside the others`, key, figure, () => exportedChart(shown, `${name}-${key}`));
	return {
		remove: () => shown.remove(),
		draw(answer, { marks, changes, asOf: now }) {
			const { from, to, precision, [of]: points } = answer;
			const began = changes.map((one) => ({ at: one.since, text: 'worse than the others', level: level(one) }));
			shown.update({
				...withView({ marks, changes: began, now }),
				from,
				to,
				precision,
				values: valuesOf(points, series, (one, point) =>
					unit ? rateOf(point[one.key], precision) : point[one.key],
				),
				counts: key === 'latency' ? countsOf(points) : null,
				recordedFrom: to - answer.recorded_seconds - answer.not_running_seconds,
				notRunning: [],
				log: key === 'latency' && state.log === 1,
			});
		},
	};
}

/**
 * The last minute's values that no chart shows: 4 of 1 024 files open · 9 threads · 2 CPUs · 2 workers, 37 tasks alive,
 * 0 queued
 */
function machineOf(point) {
	const files = isNumber(point.max_open_files) ? ` of ${count(point.max_open_files)}` : '';
	return [
		isNumber(point.open_files) ? `${count(point.open_files)}${files} files open` : '',
		isNumber(point.threads) ? plural(point.threads, 'thread') : '',
		plural(point.cpus, 'CPU'),
		`${plural(point.workers, 'worker')}, ${plural(point.alive_tasks, 'task')} alive, ${count(point.queued_tasks)} queued`,
		point.is_delayed ? 'tasks wait for a CPU: raise the CPU limit, or move the instance' : '',
	]
		.filter(Boolean)
		.join(' · ');
}

/** The colour of the sentence: bad, good, or none if nothing can be said. */
function levelOf({ verdict: { compared, slower, failing }, stands_out: standsOut }) {
	if (slower !== 'none' || failing !== 'none' || standsOut) return 'bad';
	return compared > 0 ? 'good' : 'none';
}

/** Whether the instance is slower on all paths, or on one: the API's verdict in words. */
function sentence({ alone, verdict, paths, ratio, stands_out: standsOut }) {
	if (alone) return 'This is the only instance.';
	const { compared, slower_paths: slow, failing_paths: failed } = verdict;
	if (compared === 0)
		return 'Too few requests: a path needs 10 here and 10 elsewhere, in two or more shared minutes.';
	const beside = against(ratio, 'the others');
	const slower = {
		all: `It is the instance, not a page: ${slow} of its ${compared} paths are surely slower, about ${beside}`,
		most: `Most of its paths (${slow} of ${compared}) are slower, ${beside} in total`,
		some: onlySome(paths, 'slower', slow, 'slower'),
	}[verdict.slower];
	const failing = {
		all: `It is the instance, not a page: ${failed} of its ${compared} paths surely fail more often`,
		most: `Most of its paths (${failed} of ${compared}) fail more often than on the others`,
		some: onlySome(paths, 'failing', failed, 'failing more often'),
	}[verdict.failing];
	const said = [slower, failing].filter(Boolean);
	if (said.length) return `${said.join('. ')}.`;
	if (standsOut) return `Its mean is ${beside}, but no single path differs clearly.`;
	return `It is like the others on each of the ${plural(compared, 'path')} with enough requests.`;
}

function onlySome(paths, field, total, how) {
	const rows = paths.filter((row) => row[field]);
	const names = rows.slice(0, NAMED).map((row) => visible(row.context));
	const more =
		total > names.length ? `${names.length ? ' and ' : ''}${plural(total - names.length, 'more path')}` : '';
	return `Only ${names.join(', ')}${more} ${total === 1 ? 'is' : 'are'} ${how} here, not the whole instance`;
}

/** Whether the answer covers only a part of the range: reports of instances are kept for about two hours. */
const isPart = ({ from, to }) => seconds() - (to - from) > A_MINUTE_OR_TWO;

/** The instance's version, state, share and first request, and the time that its figures cover. */
function factsOf(one, since, now) {
	const first =
		isNumber(one.first_minute) && one.first_minute > one.from
			? `first request in this range at ${moment(one.first_minute, now)}`
			: '';
	const shown = `figures of ${moment(one.from, now)} – ${moment(one.to, now)}`;
	const covered = one.to > one.from ? shown : 'nothing of this range is kept';
	const seen = isNumber(one.last_seen) ? moment(one.last_seen, now) : '';
	const life = one.alive ? 'running' : seen ? `gone since ${seen}` : '';
	return [
		one.version ? `version ${visible(one.version)}` : '',
		life,
		one.alive && isNumber(one.in_flight) ? `${one.in_flight} in flight` : '',
		isNumber(one.share) ? `${percent(one.share, 1)} of all request time` : '',
		one.others > 0 ? `compared with ${plural(one.others, 'other')}` : '',
		first,
		isPart(one) ? `reports are kept for about two hours; ${covered}` : '',
		since ? `figures since ${moment(since, now)}` : '',
	]
		.filter(Boolean)
		.join(' · ');
}

/** The instance's paths, with their figures on the other instances. */
function pathTable() {
	const beside = (id, label, format) =>
		numberColumn(`others_${id}`, label, format, { value: (row) => row.others?.[id] });
	return new Table({
		name: 'instance-paths',
		caption: 'Its paths, compared with the others',
		key: (row) => row.context,
		href: true,
		figures: ['ratio', 'mean'],
		mark: (node, row) => attr(node, 'data-odd', row.slower || row.failing ? 'true' : null),
		columns: [
			contextColumn(),
			ratioColumn('ratio', 'vs others', {
				title: 'Its mean ÷ the mean of the others in line, in the same minutes',
				level: (row) => (row.slower ? 'bad' : null),
			}),
			requestsColumn(),
			statistic('mean'),
			beside('mean', 'Others', duration),
			statistic('p95'),
			beside('p95', 'Others', duration),
			errorColumn((row) => row.failing),
			beside('error_share', 'Others', (value) => percent(value, 1)),
		],
	});
}
