// What has changed on a path: how much, since when, how sure, what is suspected, and whether a deploy did it.

import { cost, explanation, headline, isOfAll, level, since, sure, values } from './change.js';
import { attr, el, show, sync, text } from './dom.js';
import { duration, moment, span, visible } from './format.js';
import { taker } from './taking.js';

/** The change that stands, or the last one that has ended, in a sentence each. */
export function changePanel(page) {
	const lines = el('ul', 'verdict');
	const calm = el('p', 'calm');
	const node = el('section', 'card', lines, calm);
	node.dataset.panel = 'change';
	attr(node, 'aria-label', 'What has changed');
	return {
		node,
		draw(changes, marks, now, log) {
			const stand = changes.filter((one) => one.stands);
			const last = changes.filter((one) => !one.stands).sort((a, b) => b.ended - a.ended)[0];
			const shown = stand.length ? stand : last ? [last] : [];
			sync(lines, shown, (one) => one.id, () => line(page), (node, one) => {
				const [label, start, figures, certainty, , suspect] = node.children;
				node.taker.draw(one, now);
				text(label, `${one.stands ? '' : 'Was '}${headline(one)}${isOfAll(one) ? `, all pages${one.instance ? ` on ${visible(one.instance)}` : ''}` : ''}`);
				attr(label, 'data-level', one.stands ? level(one) : null);
				text(start, one.ended ? `from ${moment(one.since, now)} to ${moment(one.ended, now)}` : since(one, now));
				text(figures, figuresOf(one));
				text(certainty, sure(one));
				text(suspect, explanation(one, marks, now));
				node.dataset.kind = one.kind;
			});
			const mark = marks.find((one) => one.version);
			show(calm, shown.length === 0);
			const canJudge = log?.judged_until > 0 && log.sight?.compared > 0;
			text(calm, `${canJudge ? `Nothing has changed here, as of the minutes finished until ${moment(log.judged_until, now)}` : 'Too early to tell: each page is compared with its own past'}${mark ? `; the last deploy, ${visible(mark.text)}, was ${span(now - mark.at)} ago` : ''}`);
		},
	};
}

/** The sentences of a change, empty yet, with the button by which one takes it. */
function line(page) {
	const part = (name) => el('span', name);
	const by = taker(page);
	const node = el('li', '', el('strong', 'change'), ...['since', 'values', 'sure'].map(part), by.node, part('suspect'));
	node.taker = by;
	return node;
}

function figuresOf(one) {
	const traffic = one.kind === 'slower' && one.from_traffic > 0.0005 ? `, and more requests ${duration(one.from_traffic)} more` : '';
	return `${values(one)}${cost(one)}${traffic}`;
}
