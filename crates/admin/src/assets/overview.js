// The overview: what needs attention, the fleet's statistics, and which page to fix first.

import { Attention } from './attention.js';
import { question } from './api.js';
import { anchor, card } from './card.js';
import { fixFirst } from './fix_first.js';
import { span } from './format.js';
import { attr, el, show, text } from './dom.js';
import { beginOf } from './slices.js';
import { isInRange, isZoomed, link, range, rangeName, seconds } from './state.js';
import { Tiles } from './tiles.js';
import { Trends } from './trends.js';

const FIRST = 6;
const SNIPPET = [
	'let pulse = Pulse::builder().build()?;',
	'let app = Router::new()',
	'    .route("/", get(home))',
	'    .layer(pulse.layer())',
	'    .merge(pulse.mount("/admin/pulse", access));',
].join('\n');

export function mount(root, page) {
	const attention = new Attention();
	const tiles = new Tiles();
	const trends = new Trends(page, 'all');
	const first = fixFirst();
	const all = anchor('', 'All paths');
	all.className = 'button quiet';
	const panel = card('fix-first', 'Fix first', { head: [all], parts: [first.node] });
	const empty = emptyState();
	let isEmpty = false; // the range has no requests
	let burning = null; // the targets whose error budget burns, once there were some
	root.append(empty, attention.node, tiles.node, trends.node, panel);
	return {
		remove: () => trends.remove(),
		questions: () => ({
			overview: question('overview', range()),
			marks: 'marks',
			fix: question('fix_first', { ...range(), limit: FIRST }),
			...trends.questions(),
			...(isEmpty ? { ever: question('paths', { window: '7d', limit: 1 }) } : {}),
		}),
		draw({ overview, changes, marks, fix, ever, ...series }, now, { asOf }) {
			attr(all, 'href', link({ screen: 'paths' }));
			const marked = marks?.marks ?? [];
			const length = lengthName();
			const standing = (changes?.changes ?? []).filter((change) => change.stands && isInRange(change));
			if (changes) attention.draw(changes, marked, now);
			if (overview) {
				tiles.draw({ ...overview.window, in_flight: overview.in_flight }, { now, target: overview.target, length });
				const burnt = overview.burning ?? []; // by an older version there are none
				if (burnt.length && !burning) import('./burning.js').then(({ burningList }) => (burning ??= burningList(attention.node)).draw(burnt), () => {});
				burning?.draw(burnt);
				page.complete(overview.window, overview.window.count > 0);
				const wasEmpty = isEmpty;
				isEmpty = overview.window.count === 0;
				if (isEmpty && !wasEmpty) page.ask();
				show(empty, isEmpty && ever?.total === 0);
				if (ever) text(empty.firstChild, isYoung(ever, now) ? `No request yet, ${span(now - beginOf(ever, now))} after the first start` : 'No request in the last week');
			}
			trends.draw(series, { marks: marked, changes: standing, asOf });
			if (fix) first.draw(fix.rows, fix.rows.length ? '' : 'No requests in this range');
		},
	};
}

/** Whether the recording began within a window. */
const isYoung = (covered, now) => beginOf(covered, now) > covered.from + 60;

/** What to do while nothing was ever recorded. */
function emptyState() {
	const node = el('section', 'card nothing', el('h2'), el('p', '', 'The layer records each request that passes it. Add it to the router, outside of its routes, and send a request:'), el('pre', '', SNIPPET));
	node.dataset.panel = 'empty';
	show(node, false);
	return node;
}

/** What the range is called: "hour", "15 min". */
export const lengthName = () => ({ '1h': 'hour', '24h': 'day', '7d': 'week' }[isZoomed() ? '' : rangeName()] ?? span(seconds()));
