// The overview: the ongoing changes, the fleet's statistics, and the pages to fix first.

import { Attention } from './attention.js';
import { question } from './api.js';
import { anchor, card } from './card.js';
import { longerWait } from './change.js';
import { fixFirst } from './fix_first.js';
import { span } from './format.js';
import { attr, el, text } from './dom.js';
import { compared, isInRange, isZoomed, link, rangeName, seconds } from './state.js';
import { Tiles } from './tiles.js';
import { Trends } from './trends.js';

const FIRST = 6;

export function mount(root, page) {
	const attention = new Attention(page);
	const tiles = new Tiles();
	const trends = new Trends(page, 'all');
	const first = fixFirst();
	const all = anchor('', 'All paths');
	all.className = 'button quiet';
	const of = el('span', 'muted');
	const panel = card('fix-first', 'Fix first', { head: [of, all], parts: [first.node] });
	let isEmpty = false; // the range has no requests
	let drawMore = null; // draws the rare parts, once one of them is needed
	root.append(attention.node, tiles.node, trends.node, panel);
	return {
		remove: () => trends.remove(),
		questions: () => ({
			overview: question('overview', compared()),
			marks: 'marks',
			fix: question('fix_first', { ...compared(), limit: FIRST }),
			...trends.questions(),
			...(isEmpty ? { ever: question('paths', { window: '7d', limit: 1 }) } : {}),
		}),
		draw({ overview, changes, marks, fix, ever, ...series }, now, { asOf }) {
			attr(all, 'href', link({ screen: 'paths' }));
			const marked = marks?.marks ?? [];
			const ongoing = (changes?.changes ?? []).filter((change) => change.is_ongoing && isInRange(change));
			if (changes) attention.draw(changes, now);
			if (overview) {
				const { window, in_flight: inFlight, queue, target, advice, burning } = overview;
				const longer = longerWait(ongoing);
				tiles.draw({ ...window, queue, in_flight: inFlight }, { now, target, length: lengthName(), longer });
				page.complete(window, window.count > 0);
				const wasEmpty = isEmpty;
				isEmpty = window.count === 0;
				if (isEmpty && !wasEmpty) page.ask();
				const drawn = [overview, isEmpty ? ever : null, now];
				if (drawMore) drawMore(...drawn);
				else if (advice || burning?.length || (isEmpty && ever?.total === 0))
					import('./overview_more.js').then(
						({ moreOfOverview }) =>
							(drawMore ??= moreOfOverview(root, attention.node, tiles.node))(...drawn),
						() => {},
					);
			}
			trends.draw(series, { marks: marked, changes: ongoing, asOf });
			text(of, `figures of ${isZoomed() ? 'this range' : `the last ${lengthName()}`}`);
			if (fix) first.draw(fix.rows, fix.rows.length ? '' : 'No requests in this range');
		},
	};
}

/** The name of the range: "hour", "15 min". */
export const lengthName = () =>
	({ '1h': 'hour', '24h': 'day', '7d': 'week' })[isZoomed() ? '' : rangeName()] ?? span(seconds());
