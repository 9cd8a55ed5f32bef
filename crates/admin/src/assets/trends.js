// The two charts that the overview and the screen of a path share: hits by outcome, and latency.

import { TimeChart } from './chart.js';
import { el, retried } from './dom.js';
import { headline } from './change.js';
import { count, duration } from './format.js';
import { question } from './api.js';
import { isCoarse, range, seconds, state } from './state.js';
import { offerExport } from './card.js';
import { beginOf, chartRows } from './slices.js';

/** The slices that records have; counters have others. */
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
const CALLS = [
	{ key: 'completed', label: 'completed', color: 'c-2xx', of: ['completed'] },
	{ key: 'cancelled', label: 'cancelled', color: 'c-cancelled', of: ['cancelled'] },
	{ key: 'failed', label: 'failed', color: 'c-5xx', of: ['error', 'panicked'] },
];
const ERRORS = [
	{ key: 'ok', label: 'successful', color: 'c-2xx' },
	{ key: 'errors', label: 'errors', color: 'c-5xx' },
];
const LATENCY = ['mean', 'p50', 'p95', 'p99'].map((key) => ({ key, label: key, color: `c-${key}` }));

export class Trends {
	#hits = el('figure', 'card');
	#latency = el('figure', 'card');
	#charts = new Map();
	#layer = null; // the heat map, once it is loaded
	#loading = null;
	#drawn; // what `draw` was given

	/** `page`: how the charts change the state. `name` begins the names of exported files. `kind`: "http" or "timer". */
	constructor(page, name, kind = 'http') {
		this.page = page;
		this.kind = kind;
		this.title = kind === 'timer' ? 'Calls' : 'Requests';
		this.name = name;
		this.#hits.dataset.chart = 'hits';
		this.#latency.dataset.chart = 'latency';
		this.node = el('div', 'pair', this.#hits, this.#latency);
		for (const [key, title, root] of [
			['hits', this.title, this.#hits],
			['latency', 'Latency', this.#latency],
		]) {
			offerExport(`${title} over time`, key, root, () =>
				exportedChart(this.#charts.get(key).chart, `${name}-${key}`),
			);
		}
	}

	/** The questions for all requests, or for those of a context. */
	questions(context) {
		const precision = isCoarse(state.precision) ? state.precision : 0;
		const whose = { context, kind: context && this.kind, ...range() };
		const of = (metric) => question('series', { metric, precision, ...whose });
		const isRecorded = !precision || RECORDED.includes(precision);
		if (!isRecorded) return { hits: of('hits'), errors: of('errors'), mean: of('mean') };
		const outcomes = of('outcomes');
		if (!state.heat) return { outcomes, times: of('times') };
		// The requests of a context come with the answer about it.
		const kept = context ? {} : { hour: 'slowest_requests', last_hour: 'slowest_requests?window=last_hour' };
		const fits = seconds() <= HEAT_SLICES * precision;
		return { outcomes, heat: question('heat_map', { ...whose, precision: fits ? precision : 0 }), ...kept };
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
			title,
			kind,
			series,
			format,
			onZoom: (from, to) => this.page.go({ from, to }),
			onView: (view) => this.page.go(view, true),
			name,
			offers: kind === 'lines' ? 'heat log' : '',
		});
		this.#charts.set(name, { chart, shape });
		if (hadFocus) root.querySelector('.plot').focus({ preventScroll: true });
		return chart;
	}

	/** Loads the heat map, and draws again. */
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
	 * Draws the answers to `questions`; `changes` are drawn where they began. `kept`: the requests of a context that are
	 * kept one by one.
	 */
	draw(answers, given) {
		const { marks, changes, asOf: now } = given;
		this.#drawn = [answers, given];
		const common = {
			marks: marks.map(({ at, text, id }) => ({ at, text, id })),
			changes: changes.map((change) => ({ since: change.since, text: headline(change) })),
			...shownSeries(),
			utc: state.utc === 1,
			now,
		};
		const { outcomes, hits, mean, heat } = answers;
		if (outcomes) {
			const { points } = outcomes;
			const kinds = this.kind === 'timer' ? CALLS : OUTCOMES;
			const values = new Map(
				kinds.map(({ key, of }) => [
					key,
					new Map(
						points.map(([start, counts]) => [
							start,
							of.reduce((sum, name) => sum + (counts[name] ?? 0), 0),
						]),
					),
				]),
			);
			this.#chart(this.#hits, 'hits', this.title, 'stack', kinds, count).update({
				...common,
				...bounds(outcomes, now),
				values,
			});
		} else if (hits && answers.errors) {
			const errors = new Map(answers.errors.points);
			const values = new Map([
				['ok', new Map(hits.points.map(([start, n]) => [start, Math.max(n - (errors.get(start) ?? 0), 0)]))],
				['errors', errors],
			]);
			const why = 'of such slices, only errors are told apart';
			this.#chart(this.#hits, 'hits', this.title, 'stack', ERRORS, count).update({
				...common,
				...bounds(hits, now),
				values,
				why,
			});
		}
		if (heat && !this.#layer) this.#loading ??= this.#load();
		this.#layer?.update(answers, given);
		const times = answers.times ?? (heat && { ...heat, points: heat.slices.map((slice) => [slice.start, slice]) });
		const series = times ?? mean;
		if (!series) return;
		const of = (key) => new Map(series.points.map(([start, value]) => [start, times ? value[key] : value]));
		this.#chart(this.#latency, 'latency', 'Latency', 'lines', LATENCY, duration).update({
			...common,
			...bounds(series, now),
			values: new Map((times ? LATENCY : LATENCY.slice(0, 1)).map(({ key }) => [key, of(key)])),
			counts: times ? of('count') : null,
			why: times ? '' : 'of such slices, only the mean is kept',
			log: state.log === 1,
			heat: state.heat,
			layer: heat?.slices.length ? this.#layer : null,
		});
	}
}

/** What a file of a chart contains. */
export function exportedChart({ state: shown }, name) {
	return { name, ...(shown.layer ? shown.layer.exported() : chartRows(shown)) };
}

/** Which series are hidden, and which charts are shown as tables. */
export const shownSeries = () => ({ hidden: names(state.hide), tables: names(state.table) });

const names = (list) => new Set(list.split(',').filter(Boolean));

/** What a series covers. */
function bounds(series, now) {
	const { from, to, precision, not_running: notRunning } = series;
	return { from, to, precision, notRunning, recordedFrom: beginOf(series, now) };
}
