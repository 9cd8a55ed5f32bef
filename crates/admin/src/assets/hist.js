// Access times on a logarithmic axis: now filled, before as an outline, each as shares of its own total.

import { logTicks } from './axis.js';
import { el, show, svg, text } from './dom.js';
import { duration, grouped, percent } from './format.js';
import { Table, numberColumn } from './table.js';

const HEIGHT = 130;
const BASE = HEIGHT - 20;
const ROW = 13; // height of the label of a vertical line
const COLUMNS = 56;
const NOTHING = 'No access times yet';

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

/** The columns that a shape is drawn in: each is a whole number of buckets wide. `null` if it has no requests. */
function columnsOf({ now = [], before }) {
	const octaves = [now, before ?? []].map((buckets) =>
		buckets
			.filter(([, , n]) => n > 0)
			.map(([low, high, n]) => [
				Math.log2(Math.max(low, (high ?? low) / 4, 1e-9)),
				Math.log2(high ?? low * 2),
				n,
			]),
	);
	const all = octaves.flat();
	if (!all.length) return null;
	const first = Math.min(...all.map(([low]) => low));
	const span = Math.max(...all.map(([, high]) => high)) - first;
	const per = [16, 8, 4, 2].find((n) => n * span <= COLUMNS) ?? 1; // of an octave
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
	const label = [
		...sets.map(
			({ name, cells, total }) => `${grouped(total)} ${name}, most ${between(cells.indexOf(Math.max(...cells)))}`,
		),
		...lines.map(([name, value]) => `${name} ${duration(value)}`),
	].join('; ');
	const picture = svg(
		'svg',
		{ width, height: HEIGHT, role: 'img', 'aria-label': label },
		at,
		...sets.map(({ name, cells, total }) => {
			const y = (n) =>
				(n ? Math.min(BASE - (n / total / most) * (BASE - 6 - lines.length * ROW), BASE - 1) : BASE).toFixed(1);
			const left = (cell) => (cell * slot).toFixed(1);
			const step = (n, i) =>
				name === 'now'
					? `M${left(i)} ${BASE}V${y(n)}h${(slot - 1).toFixed(1)}V${BASE}z`
					: `V${y(n)}H${left(i + 1)}`;
			return svg('path', { class: name, d: `M0 ${BASE}${cells.map(step).join('')}V${BASE}` });
		}),
		svg('path', { class: 'base', d: `M0 ${BASE + 0.5}H${width}` }),
	);
	const write = (left, top, className, string) =>
		picture.append(svg('text', { x: left, y: top, class: className }, string));
	lines.forEach(([name, value], row) => {
		const flipped = x(value) > width - 110;
		picture.append(svg('path', { class: `c-${name}`, d: `M${x(value).toFixed(1)} ${row * ROW + 2}V${BASE}` }));
		write(
			x(value) + (flipped ? -5 : 5),
			row * ROW + 11,
			flipped ? 'halo before' : 'halo',
			`${name} ${duration(value)}`,
		);
	});
	let free = 16;
	for (const value of logTicks(start(0), start(length), slot * per < 50 ? [1] : undefined)) {
		if (x(value) < free || x(value) > width - 22) continue;
		free = x(value) + 50;
		write(x(value), HEIGHT - 5, '', duration(value, true));
	}
	root.replaceChildren(picture, tip);
	root.readAt = (left) => {
		const cell = Math.floor(left / slot);
		root.left = left;
		show(tip, cell in sets[0].cells);
		at.setAttribute('width', tip.hidden ? 0 : slot);
		if (tip.hidden) return;
		at.setAttribute('x', cell * slot);
		text(
			tip,
			[
				between(cell),
				...sets.map(
					({ name, cells, total }) => `${name} ${percent(cells[cell], total)} (${grouped(cells[cell])})`,
				),
			].join('\n'),
		);
		tip.style.left = `${Math.max(Math.min(left + 14, width - tip.offsetWidth), 0)}px`;
	};
	root.readAt(root.left);
}

/** The table of a shape, and the button that shows it in the place of `picture`: { node, button, draw(shape) }. */
export function histogramTable(picture) {
	let sets = []; // now, and before if that is known
	const cellsOf = (name) => sets.find((set) => set.name === name) ?? { cells: [], total: 0 };
	const counted = (name, label) =>
		numberColumn(name, label, grouped, { value: ({ cell }) => cellsOf(name).cells[cell] });
	const share = (name, label) => {
		const part = ({ cell }) => (cellsOf(name).total ? cellsOf(name).cells[cell] / cellsOf(name).total : null);
		return numberColumn(`${name}_share`, label, (n) => percent(n, 1), { value: part });
	};
	const caption = 'Distribution of the access times';
	const table = new Table({
		name: 'distribution',
		caption,
		key: ({ cell }) => cell,
		columns: [
			{ id: 'from', label: 'Access time', value: ({ from }) => from, text: ({ between }) => between },
			counted('now', 'Now'),
			share('now', 'Share'),
			counted('before', 'Before'),
			share('before', 'Share before'),
		],
	});
	const node = el('div', 'distribution-table', table.node);
	const button = el('button', 'button quiet', 'Table');
	button.dataset.view = 'table';
	const toggle = (isTable) => {
		button.setAttribute('aria-pressed', isTable);
		show(node, isTable);
		show(picture, !isTable);
	};
	button.addEventListener('click', () => toggle(node.hidden));
	toggle(false);
	return {
		node,
		button,
		draw(shape) {
			const columns = columnsOf(shape);
			sets = columns?.sets ?? [];
			const rows = Array.from({ length: columns?.length ?? 0 }, (_, cell) => ({
				cell,
				from: columns.start(cell),
				between: columns.between(cell),
			}));
			table.draw(rows, rows.length ? '' : NOTHING);
		},
	};
}

/** What a file of a shape contains: each bucket in seconds, with its requests now and before. */
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
