// Charts over time: outcomes as stacked bars, or latencies as lines. All charts of a screen share one crosshair.

import { axisTicks, flags, linearTicks, logTicks, timeTicks } from './axis.js';
import { attr, button, el, labelled, retried, say, show, svg, text } from './dom.js';
import { time } from './format.js';
import { NOT_RUNNING, slicesOf, valueOf } from './slices.js';

const PAD = { top: 8, right: 10, bottom: 22, left: 66 };
const ROW = 15; // height of a row of labels above the plot
const SHAPES = [
	'M1 1h10v10h-10z',
	'M1 6a5 5 0 1 0 10 0a5 5 0 1 0-10 0',
	'M6 0l6 11h-12z',
	'M6 0l6 6-6 6-6-6z',
	'M0 3h12v6h-12z',
];
const EMPTY = { message: '', why: '', counts: null, log: false, heat: 0, layer: null, notRunning: [] };
const listeners = new Set();
let charts = 0;

/** The time at which all charts of a screen point. */
export const cursor = {
	at: null, // Unix seconds
	range: null, // [from, to] that is being selected
	owner: null, // the chart that the pointer or the focus is on: it shows the tooltip
	move(at, range, owner) {
		Object.assign(this, { at, range, owner });
		for (const listener of listeners) listener();
	},
	subscribe(listener) {
		listeners.add(listener);
		return () => listeners.delete(listener);
	},
};

export class TimeChart {
	#state = null;
	#slices = [];
	#plot;
	#view; // the drawn content, for chart_pointer.js
	#isConnected = false; // to the pointer and the keys
	#redrawTip = null;
	/** The function that draws the table, while the table is shown. */
	drawTable = null;
	/** Shows the chart or its table, according to the state. */
	follow = null;
	#svg;
	#parts = {};
	#note = el('p', 'note');
	#table = el('div', 'chart-table');
	#caption;
	#buttons = [];
	#why = el('span', 'muted'); // why series have no values
	#unsubscribe = cursor.subscribe(() => this.#showCursor());
	#observer = new ResizeObserver(() => this.#draw());

	/** `options.offers`: the optional views, "heat" and "log". */
	constructor(figure, options) {
		this.options = { clock: time, band: ['p50', 'p95'], ...options };
		const { title, kind, series } = options;
		const hatch = `hatch-${++charts}`;
		const add = (name, className = name, tag = 'path') => (this.#parts[name] = svg(tag, { class: className }));
		this.#svg = svg(
			'svg',
			{ 'aria-hidden': 'true' },
			pattern(hatch),
			pattern(`${hatch}-unfinished`),
			add('unrecorded'),
			add('gaps'),
			add('layer', '', 'g'),
			add('grid'),
			add('selection'),
			add('band', 'band c-p95'),
			...series.flatMap(({ key, color }) => [
				add(`${key} line`, `${kind} ${color}`),
				add(`${key} unfinished`, `${kind} unfinished ${color}`),
			]),
			add('unfinished'),
			add('lines', '', 'g'),
			add('crosshair'),
			add('labels', '', 'g'),
		);
		for (const name of ['unrecorded', 'gaps']) attr(this.#parts[name], 'fill', `url(#${hatch})`);
		this.#parts.gaps.append(svg('title', {}, NOT_RUNNING));
		attr(this.#parts.unfinished, 'fill', `url(#${hatch}-unfinished)`);
		this.#plot = el('div', 'plot', this.#svg, this.#note);
		this.#view = { ...this.options, plot: this.#plot, slices: [], x: null, swatch: (key) => this.#swatch(key) };
		show(this.#table, false);
		this.#caption = el('figcaption', '', el('h2', '', title), this.#legend(), el('div', 'menu'));
		figure.append(this.#caption, this.#plot, this.#table);
		this.#observer.observe(this.#plot);
		this.#showCursor();
	}

	/** Connects the pointer and the keys, and adds the controls. */
	async #connect() {
		try {
			const load = (query) =>
				Promise.all([import('./chart_pointer.js' + query), import('./chart_controls.js' + query)]);
			const [{ connectPointer }, { addControls }] = await retried(load);
			this.#redrawTip = connectPointer(this.#view, cursor);
			addControls(this, { caption: this.#caption, plot: this.#plot, table: this.#table });
			this.update(this.#state);
		} catch {
			this.#isConnected = false; // the next update tries again
		}
	}

	/** The data that `update` was given, with the options: `chartRows` needs both. */
	get state() {
		return this.#state;
	}

	update(state) {
		this.#state = { ...EMPTY, ...this.options, ...state };
		this.#slices = slicesOf(state);
		// Connects after the first paint, which needs no pointer and no controls.
		if (!this.#isConnected) setTimeout(() => this.#connect());
		this.#isConnected = true;
		for (const [button, pressed] of this.#buttons) {
			attr(button, 'aria-pressed', pressed(this.#state));
			const { series } = button.dataset;
			button.disabled = series && !state.values.has(series);
		}
		text(this.#why, this.#state.why);
		say(this.#note, this.#state.message);
		this.#draw();
		this.follow?.(this.#state);
	}

	remove() {
		this.#unsubscribe();
		this.#observer.disconnect();
		if (cursor.owner === this.#view) cursor.move(null, null, null);
	}

	/** A button of the chart, pressed while `pressed(state)` is true. */
	button(label, name, value, pressed, onClick) {
		const node = button('', onClick, '');
		node.append(...label);
		node.dataset[name] = value;
		this.#buttons.push([node, pressed]);
		return node;
	}

	#legend() {
		const buttons = this.options.series.map(({ key, label }) => {
			const toggle = () => this.options.onView({ hide: toggled(this.#state?.hidden, key) });
			return this.button([this.#swatch(key), label], 'series', key, ({ hidden }) => !hidden.has(key), toggle);
		});
		return labelled(el('div', 'legend', ...buttons, this.#why), 'Series', 'group');
	}

	#swatch(key) {
		const { kind, series } = this.options;
		const index = series.findIndex((one) => one.key === key);
		const [width, d] = kind === 'lines' ? [18, 'M1 6h16'] : [12, SHAPES[index % SHAPES.length]];
		const shape = svg('path', { class: `${kind} ${series[index].color}`, d });
		return svg('svg', { class: 'swatch', width, height: 12, 'aria-hidden': 'true' }, shape);
	}

	#draw() {
		const { clientWidth: width, clientHeight: height } = this.#plot;
		if (!this.#state) return;
		if (this.drawTable) return this.drawTable(this.#table, this.#state);
		if (width < 120 || height < 60 || !this.#slices.length) return;
		const { from, to, recordedFrom, notRunning, now, kind, format, clock, utc, layer } = this.#state;
		const parts = this.#parts;
		const rows = this.#lines();
		const box = {
			left: PAD.left,
			right: width - PAD.right,
			top: PAD.top + rows.length * ROW,
			bottom: height - PAD.bottom,
		};
		const x = (at) =>
			round(box.left + ((Math.min(Math.max(at, from), to) - from) / (to - from)) * (box.right - box.left));
		Object.assign(this.#view, { state: this.#state, slices: this.#slices, box, x });
		attr(this.#svg, 'viewBox', `0 0 ${width} ${height}`);
		const { ticks, y } = layer ? layer.scale(box) : this.#scale(box);
		parts.layer.replaceChildren(...(layer ? layer.draw(x, y) : []));
		if (kind === 'stack') this.#drawBars(x, y, box);
		else this.#drawLines(x, y);
		const label = (left, top, className, string) => svg('text', { x: left, y: top, class: className }, string);
		const level = (value) => Math.round(y(value)) + 0.5;
		attr(parts.grid, 'd', ticks.map((value) => `M${box.left} ${level(value)}H${box.right}`).join(''));
		const labels = ticks.map((value) => label(box.left - 8, level(value) + 3.5, 'value', format(value, true)));
		for (const { at, style } of timeTicks(from, to, (box.right - box.left) / 72, utc)) {
			if (x(at) > box.left + 14 && x(at) < box.right - 14)
				labels.push(label(x(at), height - 5, style, clock(at, style, utc)));
		}
		const since = x(Math.min(recordedFrom, now));
		const gaps = notRunning.map((gap) => gap.map(x));
		attr(parts.unrecorded, 'd', rect(box.left, since, box.top, box.bottom));
		const gap = ([left, right]) => rect(left, Math.max(right, left + 1), box.top, box.bottom);
		attr(parts.gaps, 'd', gaps.map(gap).join(''));
		for (const [left, right] of [[box.left, since], ...gaps]) {
			if (right - left > 90)
				labels.push(label((left + right) / 2, (box.top + box.bottom) / 2, 'halo', 'not recorded'));
		}
		const lines = [];
		rows.forEach(({ name, list }, row) => {
			const top = PAD.top + row * ROW - 4;
			const placed = list.map((line) => ({ ...line, x: x(line.at) }));
			for (const line of placed) {
				lines.push(svg('path', { class: `${name} ${name}-line`, d: `M${line.x} ${top}V${box.bottom}` }));
				attr(lines.at(-1), 'data-level', line.level);
				if (line.id !== undefined) lines.at(-1).dataset.mark = line.id;
			}
			for (const flag of flags(placed, width, `${name}s`)) {
				const [by, side] = flag.isLeft ? [-4, ' before'] : [4, ''];
				labels.push(label(flag.x + by, top + 10, `halo ${name} ${name}-label${side}`, flag.label));
				attr(labels.at(-1), 'data-level', flag.level);
				labels.at(-1).append(svg('title', {}, flag.texts.join('\n')));
			}
		});
		parts.lines.replaceChildren(...lines);
		parts.labels.replaceChildren(...labels);
		this.#showCursor();
	}

	/** The vertical lines within the range: a row of labels for the marks, and one for the changes. */
	#lines() {
		const { from, to, marks, changes } = this.#state;
		const within = (list) => list.filter(({ at }) => at >= from && at <= to).sort((a, b) => a.at - b.at);
		const rows = [within(marks), within(changes)].map((list, at) => ({ name: ['mark', 'change'][at], list }));
		return rows.filter(({ list }) => list.length);
	}

	/** { ticks, y } of the visible values. */
	#scale({ top, bottom }) {
		const { kind, log, series, hidden } = this.#state;
		const stack = kind === 'stack';
		const visible = series.filter(({ key }) => !hidden.has(key));
		const values = this.#slices.map((slice) => visible.map(({ key }) => valueOf(this.#state, slice, key)));
		const all = values.flat();
		const heights = stack ? values.map((list) => list.reduce((a, b) => a + b, 0)) : all;
		const most = heights.reduce((a, b) => Math.max(a, b), 0);
		const height = bottom - top;
		if (most === 0) return { ticks: [0], y: () => bottom };
		if (stack || !log) {
			const ticks = linearTicks(most, stack && all.every((value) => value === null || Number.isInteger(value)));
			return { ticks, y: (value) => bottom - height * Math.min(value / ticks.at(-1), 1) };
		}
		const least = all.filter((value) => value > 0).reduce((a, b) => Math.min(a, b));
		const wide = logTicks(least / 10, most * 10);
		const low = wide.findLast((value) => value <= least);
		const high = wide.find((value) => value > least && value >= most);
		return {
			ticks: axisTicks(low, high, height),
			y: (value) => bottom - height * Math.max(Math.log(value / low) / Math.log(high / low), 0),
		};
	}

	#drawBars(x, y, { bottom }) {
		const { from, precision, series, hidden } = this.#state;
		const tops = this.#slices.map(() => bottom);
		const width = x(from + precision) - x(from);
		const gap = width > 5 ? 1.5 : width > 2.5 ? 0.5 : 0;
		for (const { key } of series) {
			const bar = (slice, i) => {
				const value = valueOf(this.#state, slice, key);
				if (!value || hidden.has(key)) return '';
				const base = tops[i];
				tops[i] -= Math.max(bottom - y(value), 1); // one error among thousands stays visible
				return rect(x(slice.start), x(slice.end) - gap, tops[i], base);
			};
			attr(this.#parts[`${key} line`], 'd', this.#slices.map(bar).join(''));
		}
		const unfinished = (slice, i) => (slice.open ? rect(x(slice.start), x(slice.end), tops[i], bottom) : '');
		attr(this.#parts.unfinished, 'd', this.#slices.map(unfinished).join(''));
	}

	#drawLines(x, y) {
		const { series, hidden, band } = this.#state;
		const open = this.#slices.findIndex((slice) => slice.open);
		const lines = new Map();
		for (const { key } of series) {
			/** @type {any[]} */
			const points = this.#slices.map((slice) => {
				const value = hidden.has(key) ? null : valueOf(this.#state, slice, key);
				return value === null ? null : [round((x(slice.start) + x(slice.end)) / 2), round(y(value))];
			});
			lines.set(key, points);
			const point = (at, i) => {
				if (!at || i === open) return '';
				// If the data is ahead of the clock, the previous slice may be the unfinished one.
				if (points[i - 1] && i - 1 !== open) return `L${at}`;
				return points[i + 1] ? `M${at}` : dot(at);
			};
			attr(this.#parts[`${key} line`], 'd', points.map(point).join(''));
			const [before, last] = [points[open - 1], points[open]];
			attr(this.#parts[`${key} unfinished`], 'd', !last ? '' : before ? `M${before}L${last}` : dot(last));
		}
		const [low, high] = band.map((key) => lines.get(key) ?? []);
		const between = (at, i) =>
			at && high[i] && low[i - 1] && high[i - 1] ? `M${low[i - 1]}L${high[i - 1]}L${high[i]}L${at}z` : '';
		attr(this.#parts.band, 'd', low.map(between).join(''));
	}

	#showCursor() {
		const { state, slices, box, x } = this.#view;
		if (x) {
			const { at, range } = cursor;
			const slice = at === null ? undefined : slices[Math.floor((at - slices[0].start) / state.precision)];
			const line = slice && `M${round((x(slice.start) + x(slice.end)) / 2)} ${box.top}V${box.bottom}`;
			attr(this.#parts.crosshair, 'd', line ?? '');
			attr(this.#parts.selection, 'd', range ? rect(...range.map(x), box.top, box.bottom) : '');
		}
		this.#redrawTip?.();
	}
}

/** The names with `name` removed, or added if it is missing; joined by commas. */
export function toggled(names, name) {
	const changed = new Set(names);
	if (!changed.delete(name)) changed.add(name);
	return [...changed].join();
}

const round = (pixels) => Math.round(pixels * 10) / 10;

function rect(left, right, top, bottom) {
	return `M${round(left)} ${round(top)}H${round(right)}V${round(bottom)}H${round(left)}z`;
}

function pattern(id) {
	const attributes = { id, width: 6, height: 6, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)' };
	return svg('pattern', attributes, svg('path', { d: 'M0 0V6' }));
}

/** A point without neighbours. */
function dot([x, y]) {
	return `M${round(x - 1.2)} ${y}a1.2 1.2 0 1 0 2.4 0a1.2 1.2 0 1 0-2.4 0`;
}
