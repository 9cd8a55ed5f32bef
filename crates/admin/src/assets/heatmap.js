// The heat map of latencies: the number of requests by duration, drawn under the lines of a chart over time. A click on
// a cell lists its slow and failed requests.

import { axisTicks } from './axis.js';
import { when } from './chart_readout.js';
import { attr, button, el, labelled, show, svg, text } from './dom.js';
import { count, duration, grouped, percent, plural, time } from './format.js';
import { requestTable } from './requests.js';

const LEVELS = 7; // of colour
const FEWEST_ROWS = 8; // the axis has room for at least so many
const HOUR = 3600;
const HINT = 'Click a cell, or use the arrow keys and Enter, to list slow and failed requests.';

export class HeatMap {
	#kind;
	#unit;
	#answer = { bounds: [], slices: [] };
	#kept = [];
	#now = 0;
	#cells = new Map(); // by the start of a slice: the requests by row
	#most = 0; // the most requests of a cell
	#axis = null; // { low, bottom, step, pixels }: the lowest duration and its y, the factor and the height of a row
	#x = null;
	#row = null; // the row of the pointer or the keys; null before either is used
	#selected = null; // { slice, low, high } of the cell whose requests are listed
	#pointed = svg('path', { class: 'cell' });
	#chosen = svg('path', { class: 'cell chosen' });
	#levels = coloured((at) => svg('path', { class: `heat heat-${at + 1}` }));
	#key = el('p', 'heat-key');
	#sentence = el('p', 'muted');
	#table;
	#list;

	/** `figure`: the element of the chart. `kind`: the kind of the chart's context, "http" or "timer". */
	constructor(figure, kind) {
		this.#kind = kind;
		this.#unit = kind === 'timer' ? 'run' : 'request';
		const isOfAll = document.body.dataset.screen === 'overview';
		this.#table = requestTable(isOfAll, { name: 'cell-requests', caption: 'Requests of the cell' });
		const close = button('×', () => this.select(null));
		labelled(close, 'Close the requests of the cell').title = 'Close';
		attr(this.#sentence, 'role', 'status');
		const head = el('div', 'bar', this.#sentence, el('span', 'grow'), close);
		this.#list = labelled(el('section', 'card cell-list', head, this.#table.node), 'Requests of the cell');
		this.node = el('div', 'tip heat-notes'); // the readout of a cell, or the key to the colours
		this.pointAt(null);
		show(this.#list, false);
		figure.append(this.node);
		figure.after(this.#list);
	}

	/**
	 * Takes the answer of `api/heat_map`, and the kept requests: those of a context, or those of all contexts in this
	 * hour and the hour before. Without slices, the map is hidden.
	 * @param {any} answers
	 */
	update({ heat, hour, last_hour: lastHour }, { kept, asOf }) {
		const isShown = heat?.slices.length > 0;
		show(this.node, isShown);
		if (!isShown) return show(this.#list, false);
		this.#answer = heat;
		this.#kept = kept ?? [hour, lastHour].flatMap((one) => one?.requests ?? []);
		this.#now = asOf;
		this.#cells = new Map(heat.slices.map(({ start, cells }) => [start, new Map(cells)]));
		this.#most = heat.slices.reduce((most, { cells }) => cells.reduce((a, [, n]) => Math.max(a, n), most), 0);
		const most = el('span', '', `${count(this.#most)} `);
		this.#key.replaceChildren('1 ', ...coloured(() => el('i')), most, `${this.#unit}s per cell`);
		this.#row = this.#row === null ? null : Math.min(this.#row, this.#rows - 1);
		this.#drawList();
	}

	get #rows() {
		return this.#answer.bounds.length - 1;
	}

	/** { ticks, y } of the rows, on a logarithmic axis. */
	scale({ top, bottom }) {
		const { bounds } = this.#answer;
		const step = bounds[1] / bounds[0];
		const rows = Math.max(this.#rows, FEWEST_ROWS);
		const low = bounds[0] / step ** ((rows - this.#rows) / 2);
		this.#axis = { low, step, bottom, pixels: (bottom - top) / rows };
		const y = (value) => Math.min(Math.max(this.#height(value), top), bottom);
		return { ticks: axisTicks(low, low * step ** rows, bottom - top), y };
	}

	#height(seconds) {
		const { low, step, bottom, pixels } = this.#axis;
		return bottom - (Math.log(seconds / low) / Math.log(step)) * pixels;
	}

	/** The nodes of the cells: one path per colour, for any number of cells. */
	draw(x) {
		this.#x = x;
		const { bounds, slices, precision } = this.#answer;
		const edges = bounds.map((bound) => Math.round(this.#height(bound)));
		const paths = this.#levels.map(() => []);
		for (const { start, cells } of slices) {
			const left = Math.round(x(start));
			const width = Math.max(Math.round(x(start + precision)) - left, 1);
			for (const [row, n] of cells) {
				const height = edges[row] - edges[row + 1];
				paths[this.#level(n) - 1].push(`M${left} ${edges[row + 1]}h${width}v${height}h${-width}z`);
			}
		}
		this.#levels.forEach((path, at) => attr(path, 'd', paths[at].join('')));
		attr(this.#chosen, 'd', this.#selected ? this.#outline(this.#selected.slice, this.#selectedRow()) : '');
		return [...this.#levels, this.#chosen, this.#pointed];
	}

	/** 1 to LEVELS, logarithmic: a cell of few requests among thousands stays visible. */
	#level(n) {
		return this.#most < 2 ? LEVELS : 1 + Math.floor(((LEVELS - 1) * Math.log(n)) / Math.log(this.#most) + 1e-9);
	}

	#outline({ start, end }, row) {
		const [low, high] = this.#bounds(row).map((bound) => Math.round(this.#height(bound)) + 0.5);
		const [left, right] = [start, end].map((at) => Math.round(this.#x(at)) + 0.5);
		return `M${left} ${high}H${right}V${low}H${left}z`;
	}

	#bounds(row) {
		return this.#answer.bounds.slice(row, row + 2);
	}

	/** The row of the selected cell. Its number may differ in a newer answer. */
	#selectedRow() {
		return this.#rowOf(Math.sqrt(this.#selected.low * this.#selected.high));
	}

	#rowOf(seconds) {
		const { bounds } = this.#answer;
		const row = Math.floor(Math.log(seconds / bounds[0]) / Math.log(bounds[1] / bounds[0]) + 1e-9);
		return Math.min(Math.max(row, 0), this.#rows - 1);
	}

	/** The row that is pointed at, or the row with the most requests of a slice. */
	#rowIn({ start }) {
		if (this.#row !== null) return this.#row;
		const cells = [...(this.#cells.get(start) ?? [])];
		return cells.reduce((most, cell) => (cell[1] > most[1] ? cell : most), [0, 0])[0];
	}

	#requests({ start }, row) {
		return this.#cells.get(start)?.get(row) ?? 0;
	}

	/** Points at the row `top` pixels below the top of the plot. */
	toHeight(top) {
		if (!this.#axis) return;
		const { low, step, bottom, pixels } = this.#axis;
		this.#row = this.#rowOf(low * step ** ((bottom - top) / pixels));
	}

	/** Points at a row above, or below if `by` is negative. */
	moveRow(by, slice) {
		this.#row = Math.min(Math.max(this.#rowIn(slice) + by, 0), this.#rows - 1);
	}

	/** Highlights the pointed cell of a slice; `null` highlights none, and shows how to read the map. */
	pointAt(slice) {
		if (!slice) this.node.replaceChildren(this.#key, this.#kind === 'timer' ? '' : el('p', '', HINT));
		attr(this.#pointed, 'd', slice && this.#x ? this.#outline(slice, this.#rowIn(slice)) : '');
	}

	/** The row of the readout for the pointed cell. */
	cellRow(slice) {
		const row = this.#rowIn(slice);
		const n = this.#requests(slice, row);
		const all = [...(this.#cells.get(slice.start)?.values() ?? [])].reduce((a, b) => a + b, 0);
		return { label: range(this.#bounds(row)), value: grouped(n), extra: n ? percent(n, all) : '' };
	}

	/** Lists the requests of the pointed cell of a slice; `null` lists none. */
	select(slice) {
		const [low, high] = slice ? this.#bounds(this.#rowIn(slice)) : [];
		this.#selected = slice ? { slice, low, high } : null;
		attr(this.#chosen, 'd', slice ? this.#outline(slice, this.#rowIn(slice)) : '');
		this.#drawList();
	}

	#drawList() {
		const cell = this.#selected;
		show(this.#list, cell !== null);
		if (!cell) return;
		const { slice, low, high } = cell;
		const isIn = ({ ended, duration: took }) =>
			ended >= slice.start && ended < slice.end && took >= low && took < high;
		const listed = this.#kept.filter(isIn).sort((a, b) => b.duration - a.duration);
		const n = this.#requests(slice, this.#selectedRow());
		const during = when({ precision: this.#answer.precision, now: this.#now, utc: false, clock: time }, slice);
		const counted = `${n ? plural(n, this.#unit) : `No ${this.#unit}`} of ${range([low, high])}, ${during}`;
		const none = n ? `. ${this.#whyNone(slice)}` : '';
		const kept = listed.length ? `, ${listed.length} of them listed below` : none;
		text(this.#sentence, `${counted}${kept}.`);
		this.#table.draw(listed);
		show(this.#table.node, listed.length > 0);
	}

	/** The reason why no request of a cell is listed. */
	#whyNone({ end }) {
		if (this.#kind === 'timer') return 'Runs of a timer are counted, not listed';
		const since = Math.floor(this.#now / HOUR) * HOUR - HOUR;
		if (end <= since) return `Single requests are kept only since ${time(since, 'minute')}`;
		return 'Not listed: only the newest failed and the slowest requests of each hour are kept';
	}

	/** The content of an exported file: each cell that has requests. */
	exported() {
		const { bounds, slices } = this.#answer;
		const rowsOf = ({ start, cells }) => cells.map(([row, n]) => [start, bounds[row], bounds[row + 1], n]);
		const rows = slices.flatMap(rowsOf);
		return { columns: ['start', 'from', 'to', 'requests'], rows };
	}

	/** The table of all cells: a row for each slice, oldest first, and a column for each row of the map. */
	table(slices) {
		const labels = Array.from({ length: this.#rows }, (_, row) => range(this.#bounds(row)));
		const cellsOf = ({ start }) => labels.map((_, row) => this.#requests({ start }, row) || null);
		const rows = slices.map((slice) => [slice.start, ...cellsOf(slice)]);
		return { columns: ['start', ...labels], rows, write: grouped };
	}
}

/** A node of each colour, from few requests to many. The first colour is clearly visible beside an empty cell. */
function coloured(create) {
	const nodes = Array.from({ length: LEVELS }, (_, at) => create(at));
	nodes.forEach((node, at) => node.style.setProperty('--part', `${28 + 12 * at}%`));
	return nodes;
}

/**
 * 20.0 – 23.8 ms
 * @param {number[]} bounds
 */
function range([low, high]) {
	const [from, to] = [duration(low), duration(high)];
	const unit = /[^\d.]+$/.exec(to)[0];
	return `${from.endsWith(unit) ? from.slice(0, -unit.length) : from} – ${to}`;
}
