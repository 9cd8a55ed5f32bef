// The two charts that the overview and the screen of a path share: hits by outcome, and latency.

import { TimeChart } from './chart.js';
import { el } from './dom.js';
import { headline } from './change.js';
import { count, duration } from './format.js';
import { question } from './api.js';
import { isCoarse, range, seconds, state } from './state.js';
import { beginOf, chartRows } from './slices.js';

/** The slices that records have; counters have others. */
const RECORDED = [60, 300, 1800, 3600, 21600, 86400];
/** Ranges below this are drawn from counters, whose slices are shorter. */
const SHORT = 900;

const OUTCOMES = [
	{ key: '2xx', label: '2xx', color: 'c-2xx', of: ['1xx', '2xx'] },
	{ key: '3xx', label: '3xx', color: 'c-3xx', of: ['3xx'] },
	{ key: '4xx', label: '4xx', color: 'c-4xx', of: ['4xx'] },
	{ key: 'cut', label: 'aborted', color: 'c-cancelled', of: ['cancelled', 'body_aborted'] },
	{ key: '5xx', label: '5xx, failed', color: 'c-5xx', of: ['5xx', 'error', 'panicked'] },
];
const CALLS = [
	{ key: 'completed', label: 'completed', color: 'c-2xx', of: ['completed'] },
	{ key: 'cancelled', label: 'cancelled', color: 'c-cancelled', of: ['cancelled'] },
	{ key: 'failed', label: 'failed', color: 'c-5xx', of: ['error', 'panicked'] },
];
const ERRORS = [{ key: 'ok', label: 'successful', color: 'c-2xx' }, { key: 'errors', label: 'errors', color: 'c-5xx' }];
const LATENCY = ['mean', 'p50', 'p95', 'p99'].map((key) => ({ key, label: key, color: `c-${key}` }));

export class Trends {
	#hits = el('figure', 'card');
	#latency = el('figure', 'card');
	#charts = new Map();

	/** `page`: how the charts change the state. `name` begins the names of exported files. `kind`: "http" or "timer". */
	constructor(page, name, kind = 'http') {
		this.page = page;
		this.kind = kind;
		this.title = kind === 'timer' ? 'Calls' : 'Requests';
		this.name = name;
		this.#hits.dataset.chart = 'hits';
		this.#latency.dataset.chart = 'latency';
		this.node = el('div', 'pair', this.#hits, this.#latency);
	}

	/** The questions for all requests, or for those of a context. */
	questions(context) {
		const precision = isCoarse(state.precision) ? state.precision : 0;
		const of = (metric) => question('series', { metric, context, kind: context && this.kind, precision, ...range() });
		const isRecorded = !precision || RECORDED.includes(precision);
		const hits = isRecorded && (precision || seconds() >= SHORT) ? { outcomes: of('outcomes') } : { hits: of('hits'), errors: of('errors') };
		return { ...hits, ...(isRecorded ? { times: of('times') } : { mean: of('mean') }) };
	}

	remove() {
		for (const { chart } of this.#charts.values()) chart.remove();
	}

	#chart(root, name, title, kind, series, format) {
		const shape = series.map((one) => one.key).join();
		const known = this.#charts.get(name);
		if (known?.shape === shape) return known.chart;
		known?.chart.remove();
		const hadFocus = root.contains(document.activeElement);
		root.replaceChildren();
		const chart = new TimeChart(root, {
			name, title, kind, series, format,
			onZoom: (from, to) => this.page.go({ from, to }),
			onView: (view) => this.#view(chart, name, view),
		});
		this.#charts.set(name, { chart, shape });
		if (hadFocus) root.querySelector('.plot').focus({ preventScroll: true });
		return chart;
	}

	async #view(chart, name, { hidden, log, export: format }) {
		if (hidden) this.page.go({ hide: [...hidden].join() }, true);
		if (log !== undefined) this.page.go({ log: log ? 1 : 0 }, true);
		if (format) (await import('./export.js')).save(format, { name: `${this.name}-${name}`, ...chartRows(chart.state) });
	}

	/** Draws the answers to `questions`; `changes` are drawn where they began. */
	draw(answers, { marks, changes, asOf: now }) {
		const common = {
			marks: marks.map(({ at, text, id }) => ({ at, text, id })),
			changes: changes.map((change) => ({ since: change.since, text: headline(change) })),
			hidden: new Set(state.hide.split(',').filter(Boolean)),
			utc: state.utc === 1, now,
		};
		if (answers.outcomes) {
			const { points } = answers.outcomes;
			const kinds = this.kind === 'timer' ? CALLS : OUTCOMES;
			const values = new Map(kinds.map(({ key, of }) => [key, new Map(points.map(([start, counts]) => [start, of.reduce((sum, name) => sum + (counts[name] ?? 0), 0)]))]));
			this.#chart(this.#hits, 'hits', this.title, 'stack', kinds, count).update({ ...common, ...bounds(answers.outcomes, now), values, log: false });
		} else if (answers.hits && answers.errors) {
			const errors = new Map(answers.errors.points);
			const values = new Map([['ok', new Map(answers.hits.points.map(([start, n]) => [start, Math.max(n - (errors.get(start) ?? 0), 0)]))], ['errors', errors]]);
			this.#chart(this.#hits, 'hits', this.title, 'stack', ERRORS, count).update({ ...common, ...bounds(answers.hits, now), values, log: false });
		}
		if (answers.times) {
			const { points } = answers.times;
			const values = new Map(LATENCY.map(({ key }) => [key, new Map(points.map(([start, times]) => [start, times[key]]))]));
			const counts = new Map(points.map(([start, times]) => [start, times.count]));
			this.#chart(this.#latency, 'latency', 'Latency', 'lines', LATENCY, duration).update({ ...common, ...bounds(answers.times, now), values, counts, log: state.log === 1 });
		} else if (answers.mean) {
			const values = new Map([['mean', new Map(answers.mean.points)]]);
			this.#chart(this.#latency, 'latency', 'Latency', 'lines', LATENCY.slice(0, 1), duration).update({ ...common, ...bounds(answers.mean, now), values, counts: null, log: state.log === 1 });
		}
	}
}

/** What a series covers. */
function bounds(series, now) {
	const { from, to, precision, not_running: notRunning } = series;
	return { from, to, precision, notRunning, recordedFrom: beginOf(series, now) };
}
