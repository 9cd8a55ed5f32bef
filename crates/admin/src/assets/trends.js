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
/** The most slices of a heat map. */
const HEAT_SLICES = 340;

const OUTCOMES = [
	{ key: '2xx', label: '2xx', color: 'c-2xx', of: ['1xx', '2xx'] },
	{ key: '3xx', label: '3xx', color: 'c-3xx', of: ['3xx'] },
	{ key: '4xx', label: '4xx', color: 'c-4xx', of: ['4xx'] },
	{ key: 'cut', label: 'cut off', color: 'c-cancelled', of: ['cancelled', 'body_aborted'] },
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
	#layer = null; // the heat map, once it is loaded
	#loads = 0; // of its module
	#isLoading = false;

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
		if (!isRecorded) return { hits: of('hits'), errors: of('errors'), mean: of('mean') };
		return { outcomes: of('outcomes'), ...(state.heat ? this.#heatQuestions(context, precision) : { times: of('times') }) };
	}

	#heatQuestions(context, precision) {
		const whose = { context, kind: context && this.kind, precision: seconds() <= HEAT_SLICES * precision ? precision : 0 };
		// The requests of a context come with the answer about it.
		const kept = context ? [] : ['hour', 'last_hour'].map((window) => [window, question('slowest_requests', { window })]);
		return { heat: question('heat_map', { ...whose, ...range() }), ...Object.fromEntries(kept) };
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
			views: kind === 'lines' && ['Lines', 'Heat map'],
			onZoom: (from, to) => this.page.go({ from, to }),
			onView: (view) => this.#view(chart, name, view),
		});
		this.#charts.set(name, { chart, shape });
		if (hadFocus) root.querySelector('.plot').focus({ preventScroll: true });
		return chart;
	}

	async #view(chart, name, { hidden, log, heat, export: format }) {
		if (hidden) this.page.go({ hide: [...hidden].join() }, true);
		if (log !== undefined) this.page.go({ log: log ? 1 : 0 }, true);
		if (heat !== undefined) this.page.go({ heat }, true);
		const { layer } = chart.state ?? {};
		if (format) (await import('./export.js')).save(format, { name: `${this.name}-${name}`, ...(layer ? layer.exported() : chartRows(chart.state)) });
	}

	/** Loads the heat map, and draws the same again. */
	async #load(answers, given) {
		if (this.#isLoading) return;
		this.#isLoading = true;
		try {
			// A browser may remember that a URL has failed.
			const [{ HeatMap }] = await Promise.all([import('./heatmap.js' + (this.#loads++ ? `?${this.#loads}` : '')), this.page.style()]);
			this.#layer = new HeatMap(this.#latency, this.kind);
			this.draw(answers, given);
		} catch {
			this.#isLoading = false;
		}
	}

	/**
	 * Draws the answers to `questions`; `changes` are drawn where they began. `kept`: the requests of a context that are kept
	 * one by one.
	 */
	draw(answers, given) {
		const { marks, changes, asOf: now, kept } = given;
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
			this.#chart(this.#hits, 'hits', this.title, 'stack', kinds, count).update({ ...common, ...bounds(answers.outcomes, now), values });
		} else if (answers.hits && answers.errors) {
			const errors = new Map(answers.errors.points);
			const values = new Map([['ok', new Map(answers.hits.points.map(([start, n]) => [start, Math.max(n - (errors.get(start) ?? 0), 0)]))], ['errors', errors]]);
			const why = 'outcomes are kept by the minute';
			this.#chart(this.#hits, 'hits', this.title, 'stack', ERRORS, count).update({ ...common, ...bounds(answers.hits, now), values, why });
		}
		const { heat } = answers;
		if (heat && !this.#layer) this.#load(answers, given);
		this.#layer?.update(heat, kept ?? [answers.hour, answers.last_hour].flatMap((one) => one?.requests ?? []), now);
		const shown = { ...common, log: state.log === 1, heat: state.heat, layer: heat?.slices.length ? this.#layer : null };
		const times = answers.times ?? (heat && { ...heat, points: heat.slices.map((slice) => [slice.start, slice]) });
		const latency = () => this.#chart(this.#latency, 'latency', 'Latency', 'lines', LATENCY, duration);
		if (times) {
			const { points } = times;
			const values = new Map(LATENCY.map(({ key }) => [key, new Map(points.map(([start, times]) => [start, times[key]]))]));
			const counts = new Map(points.map(([start, times]) => [start, times.count]));
			latency().update({ ...shown, ...bounds(times, now), values, counts });
		} else if (answers.mean) {
			const values = new Map([['mean', new Map(answers.mean.points)]]);
			latency().update({ ...shown, ...bounds(answers.mean, now), values, counts: null, why: 'percentiles are kept by the minute' });
		}
	}
}

/** What a series covers. */
function bounds(series, now) {
	const { from, to, precision, not_running: notRunning } = series;
	return { from, to, precision, notRunning, recordedFrom: beginOf(series, now) };
}
