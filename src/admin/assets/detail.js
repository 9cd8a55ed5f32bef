// The panel of one context: both hours, the distribution of its access times, its outcomes.

import { contextParts } from './context.js';
import { $, attr, el, fill, meter, show, svg, sync, text } from './dom.js';
import { NONE, count, duration, grouped, percent, visible } from './format.js';

const dialog = $('detail');
const FIGURES = [
	['count', 'Count', count], ['errors', 'Errors', count], ['mean', 'Mean', duration], ['stddev', 'Std. deviation', duration],
	['min', 'Min', duration], ['p50', 'p50', duration], ['p95', 'p95', duration], ['p99', 'p99', duration],
	['max', 'Max', duration], ['total', 'Total time', duration],
];
const OUTCOMES = { error: 'service error', cancelled: 'cancelled', panicked: 'panicked', body_aborted: 'body aborted' };
const HEIGHT = 132;
const BASE = HEIGHT - 20;
const COLUMNS = 56;
let buckets = null;

export function connectDetail(onClose) {
	$('detail-close').addEventListener('click', () => dialog.close());
	dialog.addEventListener('click', (event) => event.target === dialog && dialog.close()); // the backdrop
	dialog.addEventListener('close', onClose);
	new ResizeObserver(drawHistogram).observe($('detail-histogram'));
}

/** Opens the panel with the name of the context, before its data arrives. */
export function openDetail(item) {
	$('detail-title').replaceChildren(...contextParts(item));
	$('detail-title').title = visible(item.context);
	failDetail('Loading…');
	if (!dialog.open) dialog.showModal();
	dialog.scrollTop = 0;
}

export function closeDetail() {
	if (dialog.open) dialog.close();
}

export function failDetail(message) {
	text($('detail-note'), message);
	show($('detail-note'), true);
	show($('detail-body'), false);
}

export function drawDetail(data) {
	const title = JSON.stringify([data.context, data.kind, data.method, data.path]);
	if (dialog.drawn !== title) $('detail-title').replaceChildren(...contextParts(data));
	dialog.drawn = title;
	show($('detail-note'), false);
	show($('detail-body'), true);
	drawCompare(data.hour, data.last_hour);
	buckets = data.histogram ?? [];
	drawHistogram();
	drawOutcomes(data.outcomes ?? {});
}

function drawCompare(hour, last) {
	sync($('detail-compare'), FIGURES, ([name]) => name, ([, label]) => {
		const head = el('th', '', label);
		head.scope = 'row';
		return el('tr', '', head, el('td'), el('td', 'muted'));
	}, (row, [name, , format]) => {
		const [, now, before] = row.children;
		text(now, format(hour?.[name]));
		text(before, format(last?.[name]));
		now.classList.toggle('bad-text', name === 'errors' && hour?.errors > 0);
	});
}

/** Joins fine buckets into columns of one width on a logarithmic axis, each a whole number of buckets wide. */
function columns(filled) {
	const octaves = filled.map(([low, high, n]) => [Math.log2(Math.max(low, (high ?? low) / 4, 1e-9)), Math.log2(high ?? low * 2), n]);
	const first = octaves[0][0];
	const per = [16, 8, 4, 2].find((n) => n * (octaves.at(-1)[1] - first) <= COLUMNS) ?? 1;
	const cells = new Map();
	for (const [low, high, n] of octaves) {
		const cell = Math.floor(((low + high) / 2 - first) * per);
		cells.set(cell, (cells.get(cell) ?? 0) + n);
	}
	const start = (cell) => 2 ** (first + cell / per);
	const list = [...cells].map(([cell, n]) => ({ cell, n, from: start(cell), to: start(cell + 1) }));
	return { list, first, per, width: list.at(-1).cell + 1 };
}

function drawHistogram() {
	const root = $('detail-histogram');
	const width = root.clientWidth;
	if (!buckets || width < 80) return;
	const filled = buckets.filter(([, , n]) => n > 0);
	const shape = JSON.stringify([width, filled]);
	if (root.shape === shape) return;
	root.shape = shape;
	if (!filled.length) return root.replaceChildren(el('p', 'note', 'No access times yet'));
	const { list, first, per, width: own } = columns(filled);
	const most = Math.max(...list.map(({ n }) => n));
	const all = list.reduce((sum, { n }) => sum + n, 0);
	const slot = width / Math.max(own, 8);
	const shift = Math.max(8 - own, 0) / 2;
	const picture = svg('svg', { width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: 'img' });
	const peak = list.find(({ n }) => n === most);
	attr(picture, 'aria-label', `From ${duration(list[0].from)} to ${duration(list.at(-1).to)}, most between ${duration(peak.from)} and ${duration(peak.to)}`);
	for (const { cell, n, from, to } of list) {
		const height = Math.max((n / most) * (BASE - 6), 1);
		const box = { x: (cell + shift) * slot + 0.5, y: BASE - height, width: Math.max(slot - 1, 1), height };
		picture.append(svg('rect', box, svg('title', {}, `${duration(from)} – ${duration(to)}: ${grouped(n)} (${percent(n, all)})`)));
	}
	picture.append(svg('line', { x1: 0, x2: width, y1: BASE + 0.5, y2: BASE + 0.5 }));
	let free = 0;
	for (const at of ticks(2 ** (first - shift / per), 2 ** (first + (own + shift) / per), width)) {
		const x = (shift + (Math.log2(at) - first) * per) * slot;
		if (x < Math.max(free, 16) || x > width - 22) continue;
		free = x + 50;
		picture.append(svg('text', { x, y: HEIGHT - 5, 'text-anchor': 'middle' }, duration(at, true)));
	}
	return root.replaceChildren(picture);
}

/** 1, 2, 5, 10, … between two times; only powers of ten where there is little room. */
function ticks(from, to, width) {
	const room = width / Math.log10(to / from);
	const list = [];
	for (let power = Math.floor(Math.log10(from)); power <= Math.log10(to); power++) {
		for (const n of room < 165 ? [1] : [1, 2, 5]) {
			const at = Number(`${n}e${power}`);
			if (at >= from && at <= to) list.push(at);
		}
	}
	return list;
}

function drawOutcomes(outcomes) {
	const entries = Object.entries(outcomes).filter(([name, n]) => n > 0 || /^[2345]xx$/.test(name));
	const all = entries.reduce((sum, [, n]) => sum + n, 0);
	sync($('detail-outcomes'), entries, ([name]) => name, ([name]) => {
		const row = el('div', '', el('dt', '', OUTCOMES[name] ?? name), meter(), el('dd'));
		row.dataset.outcome = /^[123]xx$/.test(name) ? 'good' : /^(4xx|cancelled|body_aborted)$/.test(name) ? 'warn' : 'bad';
		return row;
	}, (row, [, n]) => {
		fill(row.children[1], n / all);
		text(row.lastChild, n > 0 ? `${count(n)} (${percent(n, all)})` : NONE);
		attr(row.lastChild, 'title', grouped(n));
	});
}
