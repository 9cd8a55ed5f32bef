// The two charts that the overview and the screen of a path share: hits by outcome, and latency.

import { TimeChart } from './chart.js';
import { el, retried } from './dom.js';
import { headline, level } from './change.js';
import { duration, perUnit, rateOf, unitName } from './format.js';
import { question } from './api.js';
import { fitsRange, range, seconds, state } from './state.js';
import { offerExport } from './card.js';
import { beginOf, chartRows } from './slices.js';

/** The slice lengths of records in the API, in seconds; counters have others. */
const RECORDED = [60, 300, 1800, 3600, 21600, 86400];
/** The most slices of a heat map. */
const HEAT_SLICES = 340;

const OUTCOMES = [
	{ key: '2xx', label: '2xx', color: 'c-2xx', of: ['1xx', '2xx'] },
	{ key: '3xx', label: '3xx', color: 'c-3xx', of: ['3xx'] },
	{ key: '4xx', label: '4xx', color: 'c-4xx', of: ['4xx'] },
	{ key: 'cut', label: 'aborted', color: 'c-cancelled', of: ['cancelled', 'body_aborted'] },
	{ key: '5xx', label: '5xx, failed', color: 'c-5xx', of: ['5xx', 'error', 'panicked', 'body_failed'] },
];
const RUNS = [
	{ key: 'completed', label: 'completed', color: 'c-2xx', of: ['completed'] },
	{ key: 'cancelled', label: 'cancelled', color: 'c-cancelled', of: ['cancelled'] },
	{ key: 'failed', label: 'failed', color: 'c-5xx', of: ['error', 'panicked'] },
];
const ERRORS = [
	{ key: 'ok', label: 'no error', color: 'c-2xx' },
	{ key: 'errors', label: 'errors', color: 'c-5xx' },
];
const LATENCY = ['mean', 'p50', 'p95', 'p99'].map((key) => ({ key, label: key, color: `c-${key}` }));

export class Trends {
	#hits = el('figure', 'card');
	#latency = el('figure', 'card');
	#charts = new Map();
	#layer = null; // the heat map, once it is loaded
	#loading = null;
	#drawn; // the arguments of the last `draw`

	/** `page`: the functions that change the state. `name`: the prefix of exported files. `kind`: "http" or "timer". */
	constructor(page, name, kind = 'http', titles = [kind === 'timer' ? 'Runs' : 'Requests', 'Latency']) {
		this.page = page;
		this.kind = kind;
		this.title = titles[0];
		this.latencyTitle = titles[1];
		this.name = name;
		this.node = el('div', 'pair', this.#hits, this.#latency);
		this.#offer(this.#hits, 'hits', this.title);
		this.#offer(this.#latency, 'latency', this.latencyTitle);
	}

	#offer(root, key, title) {
		root.dataset.chart = key;
		const exported = () => exportedChart(this.#charts.get(key).chart, `${this.name}-${key}`);
		offerExport(`${title} over time`, key, root, exported);
	}

	/** The questions for all requests, or for those of a context. */
	questions(context) {
		const precision = fitsRange(state.precision) ? state.precision : 0;
		const filter = { context, kind: context && this.kind, ...range() };
		const of = (metric) => question('series', { metric, precision, ...filter });
		const isRecorded = !precision || RECORDED.includes(precision);
		if (!isRecorded) return { hits: of('hits'), errors: of('errors'), mean: of('mean') };
		const outcomes = of('outcomes');
		if (!state.heat) return { outcomes, times: of('times') };
		// The screen of a context has its single requests from `api/path`.
		const kept = context ? {} : { hour: 'slowest_requests', last_hour: 'slowest_requests?window=last_hour' };
		const fits = seconds() <= HEAT_SLICES * precision;
		return { outcomes, heat: question('heat_map', { ...filter, precision: fits ? precision : 0 }), ...kept };
	}

	remove() {
		for (const { chart } of this.#charts.values()) chart.remove();
	}

	#chart(root, name, title, kind, series, format, unit) {
		const shape = series.map((one) => one.key).join();
		const known = this.#charts.get(name);
		if (known?.shape === shape) return known.chart;
		known?.chart.remove();
		const hadFocus = root.contains(document.activeElement);
		root.replaceChildren();
		const offers = kind === 'lines' ? 'heat log' : '';
		const chart = chartOf(this.page, root, { title, kind, series, format, unit, name, offers });
		this.#charts.set(name, { chart, shape });
		if (hadFocus) root.querySelector('.plot').focus({ preventScroll: true });
		return chart;
	}

	/** Loads the heat map, then draws again. */
	async #load() {
		try {
			const { HeatMap } = await retried((query) => import('./heatmap.js' + query));
			this.#layer = new HeatMap(this.#latency, this.kind);
			this.draw(...this.#drawn);
		} catch {
			this.#loading = null;
		}
	}

	/**
	 * Draws the answers to `questions`, and the starts of `given.changes`. The heat map lists `given.kept`: single
	 * requests of a context.
	 */
	draw(answers, given) {
		const { marks, changes, asOf: now } = given;
		this.#drawn = [answers, given];
		const began = changes.map((one) => ({ at: one.since, text: headline(one), level: level(one) }));
		const common = withView({ marks, changes: began, now });
		const stack = (answer, kinds, value, why) =>
			this.#chart(this.#hits, 'hits', this.title, 'stack', kinds, perUnit, unitName).update({
				...common,
				...bounds(answer, now),
				values: valuesOf(answer.points, kinds, (...of) => rateOf(value(...of), answer.precision)),
				why,
			});
		const { outcomes, hits, mean, heat } = answers;
		if (outcomes) {
			const kinds = this.kind === 'timer' ? RUNS : OUTCOMES;
			stack(outcomes, kinds, ({ of }, counts) => of.reduce((sum, name) => sum + (counts[name] ?? 0), 0), '');
		} else if (hits && answers.errors) {
			const errors = new Map(answers.errors.points);
			const failed = (start) => errors.get(start) ?? 0;
			const value = ({ key }, n, start) => (key === 'ok' ? Math.max(n - failed(start), 0) : failed(start));
			stack(hits, ERRORS, value, 'slices of this length have errors, but no outcomes');
		}
		if (heat && !this.#layer) this.#loading ??= this.#load();
		this.#layer?.update(answers, given);
		const times = answers.times ?? (heat && { ...heat, points: heat.slices.map((slice) => [slice.start, slice]) });
		const series = times ?? mean;
		if (!series) return;
		const shown = times ? LATENCY : LATENCY.slice(0, 1);
		this.#chart(this.#latency, 'latency', this.latencyTitle, 'lines', LATENCY, duration).update({
			...common,
			...bounds(series, now),
			values: valuesOf(series.points, shown, ({ key }, value) => (times ? value[key] : value)),
			counts: times ? countsOf(series.points) : null,
			why: times ? '' : 'slices of this length have only the mean',
			log: state.log === 1,
			heat: state.heat,
			layer: heat?.slices.length ? this.#layer : null,
		});
	}
}

/** Maps the key of each series to its values by slice start. */
export const valuesOf = (points, series, value) =>
	new Map(series.map((one) => [one.key, new Map(points.map(([start, point]) => [start, value(one, point, start)]))]));

export const countsOf = (points) => new Map(points.map(([start, point]) => [start, point.count]));

/** A chart that zooms the dashboard, and keeps its view in the state. */
export const chartOf = (page, figure, options) =>
	new TimeChart(figure, {
		onZoom: (from, to) => page.go({ from, to }),
		onView: (view) => page.go(view, true),
		...options,
	});

/** The content of an exported file of a chart. */
export function exportedChart({ state: shown }, name) {
	if (shown.layer) return { name, ...shown.layer.exported() };
	const { columns, rows } = chartRows(shown);
	const unit = shown.unit ? `_${shown.unit()}` : '';
	return { name, columns: columns.map((column, at) => (at > 0 ? column + unit : column)), rows };
}

/** Adds the view of all charts: the hidden series, the charts shown as tables, and the time zone. */
export const withView = (drawn) => ({
	hidden: names(state.hide),
	tables: names(state.table),
	utc: state.utc === 1,
	...drawn,
});

const names = (list) => new Set(list.split(',').filter(Boolean));

/** The range of a series, and the recorded parts. */
function bounds(series, now) {
	const { from, to, precision, not_running: notRunning } = series;
	return { from, to, precision, notRunning, recordedFrom: beginOf(series, now) };
}
