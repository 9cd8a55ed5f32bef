// What has changed on a path: how much, since when, how sure, what is suspected, and whether a deploy did it.

import { cost, explanation, headline, isOfAll, level, since, sure, values } from './change.js';
import { anchor } from './card.js';
import { attr, el, show, sync, text } from './dom.js';
import { duration, moment, span, visible } from './format.js';
import { instanceLink } from './instances.js';
import { link, state } from './state.js';
import { taker } from './taking.js';

/**
 * The change that stands, or the last one that has ended, in a sentence each. A timer is not compared with its own
 * past: of it, the changes of the paths that it is suspected of, each with its path.
 */
export function changePanel(page, { isTimer = false } = {}) {
	const lines = el('ul', 'verdict');
	const calm = el('p', 'calm');
	const node = el('section', 'card', lines, calm);
	node.dataset.panel = 'change';
	attr(node, 'aria-label', 'What has changed');
	return {
		node,
		/** `timers`: those of the page, of which the API says which fail more often than before. */
		draw(changes, marks, now, log, timers = []) {
			const stand = changes.filter((one) => one.stands);
			const last = changes.filter((one) => !one.stands).sort((a, b) => b.ended - a.ended)[0];
			const shown = stand.length ? stand : last ? [last] : [];
			sync(
				lines,
				shown,
				(one) => one.id,
				() => line(page),
				(node, one) => {
					const [label, start, figures, certainty, , suspect, links] = node.children;
					node.taker.draw(one, now);
					const path = isTimer ? `${visible(one.context)}: ` : '';
					const where = isOfAll(one)
						? `, all pages${one.instance ? ` on ${visible(one.instance)}` : ''}`
						: '';
					text(label, `${path}${one.stands ? '' : 'Was '}${headline(one)}${where}`);
					attr(label, 'data-level', one.stands ? level(one) : null);
					text(
						start,
						one.ended ? `from ${moment(one.since, now)} to ${moment(one.ended, now)}` : since(one, now),
					);
					text(figures, figuresOf(one));
					text(certainty, sure(one));
					text(suspect, explanation(one, marks, now, timers));
					const looks = instancesOf(one).map((instance) => [instance, instanceLink(instance)]);
					if (isTimer && one.context !== '<queue>')
						looks.push([one.context, link({ screen: 'path', context: one.context, kind: '' })]);
					sync(
						links,
						looks,
						([name]) => name,
						([name]) => anchor('', `Look at ${visible(name)}`),
						(anchored, [, href]) => {
							attr(anchored, 'href', href);
						},
					);
					node.dataset.kind = one.kind;
				},
			);
			const mark = marks.find((one) => one.version);
			show(calm, shown.length === 0);
			const canJudge = log?.judged_until > 0 && log.sight?.compared > 0;
			const calmly = isTimer
				? 'No path has changed for which this timer is suspected'
				: 'Nothing has changed here';
			const words = canJudge
				? `${calmly}, as of the minutes finished until ${moment(log.judged_until, now)}`
				: 'Too early to tell: each page is compared with its own past';
			text(
				calm,
				`${words}${mark ? `; the last deploy, ${visible(mark.text)}, was ${span(now - mark.at)} ago` : ''}`,
			);
		},
	};
}

/** The sentences of a change, empty yet, with the button by which one takes it. */
function line(page) {
	const part = (name) => el('span', name);
	const by = taker(page);
	const node = el(
		'li',
		'',
		el('strong', 'change'),
		...['since', 'values', 'sure'].map(part),
		by.node,
		part('suspect'),
		part('links'),
	);
	return Object.assign(node, { taker: by });
}

/** The instances that a change is about or that are suspected, but for the one whose page this is. */
function instancesOf({ instance, suspects: known = [] }) {
	const named = known.filter((one) => one.kind === 'instance').map((one) => one.instance);
	const all = new Set(instance ? [instance, ...named] : named);
	if (state.screen === 'instance') all.delete(state.context);
	return [...all];
}

function figuresOf(one) {
	const traffic =
		one.kind === 'slower' && one.from_traffic > 0.0005
			? `, and more requests ${duration(one.from_traffic)} more`
			: '';
	return `${values(one)}${cost(one)}${traffic}`;
}
