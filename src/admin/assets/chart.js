// The live chart: a bar per slice for all requests, the errors in front of it, a readout below the cursor.

import { attr, el, show, svg, text } from './dom.js';
import { count, grouped, percent, time } from './format.js';

const SLICES = 120;
const HEIGHT = 220;
const PAD = { top: 12, right: 4, bottom: 24, left: 44 };
const LAG = 5; // seconds that the newest slices may lag behind the clock before they count as empty
const STEPS = [5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 1209600, 2592000];

export class Chart {
	#root;
	#svg = svg('svg', { 'aria-hidden': 'true', height: HEIGHT });
	#grid = svg('g', { class: 'grid' });
	#labels = svg('g', { class: 'labels' });
	#cursor = svg('rect', { class: 'cursor', y: PAD.top, height: HEIGHT - PAD.top - PAD.bottom });
	#bars = { hits: svg('path', { class: 'hits' }), open: svg('path', { class: 'hits open' }), errors: svg('path', { class: 'errors' }) };
	#readout = el('div', 'readout');
	#note = el('p', 'note');
	#data = null;
	#slices = [];
	#at = null;

	constructor(root) {
		this.#root = root;
		this.#svg.append(this.#grid, this.#cursor, ...Object.values(this.#bars), this.#labels);
		root.append(this.#svg, this.#readout, this.#note);
		root.tabIndex = 0;
		attr(root, 'role', 'slider'); // of the cursor: arrow keys read the slices one by one
		attr(root, 'aria-label', 'Requests over time');
		attr(root, 'aria-valuemin', 1);
		attr(root, 'aria-valuemax', SLICES);
		for (const type of ['pointermove', 'pointerdown']) root.addEventListener(type, (event) => this.#point(event));
		root.addEventListener('pointerleave', () => this.#move(null));
		root.addEventListener('blur', () => this.#move(null));
		root.addEventListener('keydown', (event) => this.#key(event));
		new ResizeObserver(() => this.#draw()).observe(root);
		this.#move(null);
	}

	/** `hits`, `errors`: [[slice, value or null], …]; slices that are not listed count as zero. */
	update(precision, hits, errors, now) {
		this.#data = { precision };
		const last = Math.max(0, ...hits.map(([slice]) => slice));
		const current = Math.floor(now / precision) * precision;
		const end = last >= current - LAG ? last : current;
		const values = new Map(hits);
		const failed = new Map(errors);
		this.#slices = Array.from({ length: SLICES }, (_, i) => {
			const slice = end - (SLICES - 1 - i) * precision;
			return { slice, hits: values.get(slice) ?? 0, errors: failed.get(slice) ?? 0, open: slice + precision > now };
		});
		this.message(this.#slices.some((s) => s.hits > 0 || s.errors > 0) ? '' : 'No requests in this time');
		this.#draw();
		return this.#slices;
	}

	/** Text in place of the bars. */
	message(string) {
		text(this.#note, string);
		show(this.#note, string !== '');
	}

	/** Removes the data, because other slices were requested. */
	clear(string) {
		this.#data = null;
		this.#slices = [];
		for (const part of [this.#grid, this.#labels]) part.replaceChildren();
		for (const bar of Object.values(this.#bars)) attr(bar, 'd', null);
		this.#move(null);
		this.message(string);
	}

	#draw() {
		const width = this.#root.clientWidth;
		if (!this.#data || width < 80) return;
		const plot = { width: width - PAD.left - PAD.right, height: HEIGHT - PAD.top - PAD.bottom };
		const step = niceStep(Math.max(1, ...this.#slices.map((s) => Math.max(s.hits, s.errors))) / 4);
		const top = Math.ceil(Math.max(1, ...this.#slices.map((s) => s.hits)) / step) * step;
		const y = (value) => PAD.top + plot.height * (1 - Math.min(value / top, 1));
		const slot = plot.width / SLICES;
		const gap = slot > 4 ? 1.5 : 0.6;
		attr(this.#svg, 'width', width);
		attr(this.#svg, 'viewBox', `0 0 ${width} ${HEIGHT}`);
		const path = (value) => this.#slices.map((s, i) => bar(PAD.left + i * slot + gap / 2, y(value(s)), slot - gap, PAD.top + plot.height)).join('');
		attr(this.#bars.hits, 'd', path((s) => (s.open ? 0 : s.hits)));
		attr(this.#bars.open, 'd', path((s) => (s.open ? s.hits : 0)));
		attr(this.#bars.errors, 'd', path((s) => s.errors));
		this.#axes(width, plot, slot, step, top, y);
		this.#move(this.#at);
	}

	#axes(width, plot, slot, step, top, y) {
		const lines = [];
		const labels = [];
		for (let value = 0; value <= top + step / 2; value += step) {
			const at = Math.round(y(value)) + 0.5;
			lines.push(svg('line', { x1: PAD.left, x2: width - PAD.right, y1: at, y2: at, class: value ? '' : 'zero' }));
			labels.push(svg('text', { x: PAD.left - 8, y: at + 3.5, 'text-anchor': 'end' }, count(value)));
		}
		const { precision } = this.#data;
		const every = STEPS.find((s) => s >= precision && (s / precision) * slot >= 60) ?? STEPS.at(-1);
		this.#slices.forEach(({ slice }, i) => {
			const local = slice - new Date(slice * 1000).getTimezoneOffset() * 60;
			if (((local % every) + every) % every >= precision) return;
			const x = PAD.left + (i + 0.5) * slot;
			if (x < PAD.left + 20 || x > width - PAD.right - 22) return;
			const style = every >= 86400 || (every >= 3600 && local % 86400 < precision) ? 'day' : every < 60 ? 'second' : 'minute';
			labels.push(svg('text', { x: x.toFixed(1), y: HEIGHT - 6, 'text-anchor': 'middle' }, time(slice, style)));
		});
		this.#grid.replaceChildren(...lines);
		this.#labels.replaceChildren(...labels);
	}

	#point(event) {
		const box = this.#root.getBoundingClientRect();
		const slot = (box.width - PAD.left - PAD.right) / SLICES;
		const at = Math.floor((event.clientX - box.left - PAD.left) / slot);
		this.#move(Math.min(Math.max(at, 0), SLICES - 1));
	}

	#key(event) {
		const at = this.#at ?? SLICES;
		const to = { ArrowLeft: at - 1, ArrowDown: at - 1, ArrowRight: at + 1, ArrowUp: at + 1, Home: 0, End: SLICES - 1 }[event.key];
		if (to === undefined && event.key !== 'Escape') return;
		event.preventDefault();
		this.#move(to === undefined ? null : Math.min(Math.max(to, 0), SLICES - 1));
	}

	#move(at) {
		this.#at = at;
		const shown = this.#slices[at ?? SLICES - 1];
		const part = shown?.errors ? ` (${percent(shown.errors, shown.hits)})` : '';
		const when = time(shown?.slice, this.#data?.precision >= 3600 ? 'full' : 'second');
		const words = shown ? `${when}\n${grouped(shown.hits)} requests\n${grouped(shown.errors)} errors${part}` : 'no data';
		attr(this.#root, 'aria-valuenow', (at ?? SLICES - 1) + 1);
		attr(this.#root, 'aria-valuetext', words);
		const visible = at !== null && shown !== undefined;
		show(this.#readout, visible);
		attr(this.#cursor, 'visibility', visible ? 'visible' : 'hidden');
		if (!visible) return;
		const width = this.#root.clientWidth;
		const slot = (width - PAD.left - PAD.right) / SLICES;
		const x = PAD.left + at * slot;
		attr(this.#cursor, 'x', x.toFixed(1));
		attr(this.#cursor, 'width', slot.toFixed(1));
		text(this.#readout, words);
		const own = this.#readout.offsetWidth;
		const left = x + slot + 10 + own > width ? x - own - 10 : x + slot + 10;
		this.#readout.style.left = `${Math.max(left, 0)}px`;
	}
}

function bar(x, y, width, base) {
	if (base - y < 0.05) return '';
	const top = Math.min(y, base - 1); // one request among thousands stays visible
	return `M${x.toFixed(1)} ${base}V${top.toFixed(1)}h${width.toFixed(1)}V${base}z`;
}

/** The next of 1, 2, 5, 10, 20, 50, … */
function niceStep(least) {
	const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
	return Math.max([1, 2, 5, 10].find((n) => n * power >= least) * power, 1);
}
