// A histogram of durations on a logarithmic axis: bars for now, an outline for before, each as shares of its own total.

import { logTicks } from './axis.js';
import { attr, button, el, show, svg, text } from './dom.js';
import { duration, grouped, percent } from './format.js';
import { Table, numberColumn } from './table.js';

const HEIGHT = 130;
const BASE = HEIGHT - 20;
const ROW = 13; // height of the label of a vertical line
const COLUMNS = 56;
const NOTHING = 'No durations yet';

/** `shape`: { now: [[low, high, n], …], before: likewise or null, p50, p95, target }, in seconds. */
export function drawHistogram(root, shape) {
	if (!root.shape) {
		new ResizeObserver(() => draw(root)).observe(root);
		root.onpointermove = (event) => root.readAt?.(event.clientX - root.getBoundingClientRect().left);
		root.onpointerleave = () => root.readAt?.(NaN);
	}
	root.shape = shape;
	draw(root);
}

/** The columns in which a shape is drawn, each a whole number of buckets wide. `null` for a shape without requests. */
function columnsOf({ now = [], before }) {
	const edges = ([low, high]) => [Math.max(low, (high ?? low) / 4, 1e-9), high ?? low * 2].map(Math.log2);
	const octaves = [now, before ?? []].map((buckets) =>
		buckets.filter(([, , n]) => n > 0).map((bucket) => [...edges(bucket), bucket[2]]),
	);
	const all = octaves.flat();
	if (!all.length) return null;
	const first = Math.min(...all.map(([low]) => low));
	const span = Math.max(...all.map(([, high]) => high)) - first;
	const per = [16, 8, 4, 2].find((n) => n * span <= COLUMNS) ?? 1; // columns per octave
	const length = Math.max(Math.ceil(span * per - 1e-6), 8);
	const sets = octaves
		.map((buckets, i) => {
			const cells = Array(length).fill(0);
			for (const [low, high, n] of buckets) cells[Math.floor(((low + high) / 2 - first) * per)] += n;
			const total = cells.reduce((a, b) => a + b);
			return { name: ['now', 'before'][i], cells, total, most: Math.max(...cells) / total };
		})
		.filter(({ total }) => total);
	const start = (cell) => 2 ** (first + cell / per);
	const between = (cell) => `${duration(start(cell))} – ${duration(start(cell + 1))}`;
	return { first, per, length, sets, start, between };
}

function draw(root) {
	const width = root.clientWidth;
	if (width < 80) return;
	const { p50, p95, target } = root.shape;
	const columns = columnsOf(root.shape);
	if (!columns) return root.replaceChildren(el('p', 'note', NOTHING));
	const { first, per, length, sets, start, between } = columns;
	const slot = width / length;
	const x = (at) => (Math.log2(at) - first) * per * slot;
	const lines = Object.entries({ p50, p95, target }).filter(([, at]) => x(at ?? 0) >= 0 && x(at) <= width);
	const most = Math.max(...sets.map((set) => set.most));
	const at = svg('rect', { class: 'at', height: BASE });
	const tip = el('div', 'tip');
	const peak = (cells) => between(cells.indexOf(Math.max(...cells)));
	const label = [
		...sets.map(({ name, cells, total }) => `${grouped(total)} ${name}, most in ${peak(cells)}`),
		...lines.map(([name, value]) => `${name} ${duration(value)}`),
	].join('; ');
	const room = BASE - 6 - lines.length * ROW;
	const left = (cell) => (cell * slot).toFixed(1);
	const shapes = sets.map(({ name, cells, total }) => {
		const y = (n) => (n ? Math.min(BASE - (n / total / most) * room, BASE - 1) : BASE).toFixed(1);
		const bar = (n, i) => `M${left(i)} ${BASE}V${y(n)}h${(slot - 1).toFixed(1)}V${BASE}z`;
		const step = name === 'now' ? bar : (n, i) => `V${y(n)}H${left(i + 1)}`;
		return svg('path', { class: name, d: `M0 ${BASE}${cells.map(step).join('')}V${BASE}` });
	});
	const base = svg('path', { class: 'base', d: `M0 ${BASE + 0.5}H${width}` });
	const attributes = { width, height: HEIGHT, role: 'img', 'aria-label': label };
	const picture = svg('svg', attributes, at, ...shapes, base);
	const write = (x, y, className, string) => picture.append(svg('text', { x, y, class: className }, string));
	lines.forEach(([name, value], row) => {
		const [by, side] = x(value) > width - 110 ? [-5, 'halo before'] : [5, 'halo'];
		picture.append(svg('path', { class: `c-${name}`, d: `M${x(value).toFixed(1)} ${row * ROW + 2}V${BASE}` }));
		write(x(value) + by, row * ROW + 11, side, `${name} ${duration(value)}`);
	});
	let free = 16;
	for (const value of logTicks(start(0), start(length), slot * per < 50 ? [1] : undefined)) {
		if (x(value) < free || x(value) > width - 22) continue;
		free = x(value) + 50;
		write(x(value), HEIGHT - 5, '', duration(value, true));
	}
	root.replaceChildren(picture, tip);
	root.readAt = (pixels) => {
		const cell = Math.floor(pixels / slot);
		root.left = pixels;
		show(tip, cell in sets[0].cells);
		at.setAttribute('width', tip.hidden ? 0 : slot);
		if (tip.hidden) return;
		at.setAttribute('x', cell * slot);
		const shares = sets.map(({ name, cells, total }) => {
			return `${name} ${percent(cells[cell], total)} (${grouped(cells[cell])})`;
		});
		text(tip, [between(cell), ...shares].join('\n'));
		tip.style.left = `${Math.max(Math.min(pixels + 14, width - tip.offsetWidth), 0)}px`;
	};
	root.readAt(root.left);
}

/** The table of a shape, and the button that shows it instead of `picture`: { node, button, draw(shape) }. */
export function histogramTable(picture) {
	const part = (n) => percent(n, 1);
	const table = new Table({
		name: 'distribution',
		figures: ['now', 'now_share'],
		caption: 'Distribution of the durations',
		key: ({ from }) => from,
		columns: [
			{ id: 'from', label: 'Duration', value: ({ from }) => from, text: ({ between }) => between },
			numberColumn('now', 'Now', grouped),
			numberColumn('now_share', 'Share', part),
			numberColumn('before', 'Before', grouped),
			numberColumn('before_share', 'Share before', part),
		],
	});
	const node = el('div', 'distribution-table', table.node);
	const toggle = (isTable) => {
		attr(switched, 'aria-pressed', isTable);
		show(node, isTable);
		show(picture, !isTable);
	};
	const switched = button('Table', () => toggle(node.hidden));
	switched.dataset.view = 'table';
	toggle(false);
	return {
		node,
		button: switched,
		draw(shape) {
			const columns = columnsOf(shape);
			const rows = Array.from({ length: columns?.length ?? 0 }, (_, cell) => {
				const row = { from: columns.start(cell), between: columns.between(cell) };
				for (const { name, cells, total } of columns.sets)
					Object.assign(row, { [name]: cells[cell], [`${name}_share`]: cells[cell] / total });
				return row;
			});
			table.draw(rows, rows.length ? '' : NOTHING);
		},
	};
}

/** The content of an exported file: each bucket's bounds in seconds, and its requests now and before. */
export function histogramRows({ now = [], before }) {
	const rows = new Map();
	for (const [at, buckets] of [now, before ?? []].entries()) {
		for (const [low, high, n] of buckets) {
			const row = rows.get(low) ?? [low, high, 0, before ? 0 : null];
			row[2 + at] = n;
			rows.set(low, row);
		}
	}
	return {
		name: 'distribution',
		columns: ['from', 'to', 'now', 'before'],
		rows: [...rows.values()].sort((a, b) => a[0] - b[0]),
	};
}
