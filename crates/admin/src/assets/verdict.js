// What has changed on a path: how much, since when, how sure, what is suspected, and whether a deploy did it.

import { cost, headline, isOfAll, level, since, suspects, sure, values } from './change.js';
import { anchor } from './card.js';
import { attr, el, show, sync, text } from './dom.js';
import { duration, moment, percent, span, visible } from './format.js';
import { instanceLink } from './instances.js';
import { link, state } from './state.js';

/**
 * The change that stands, or the last one that has ended, in a sentence each. A timer is not compared with its own past: of
 * it, the changes of the paths that it is suspected of, each with its path.
 */
export function changePanel({ isTimer = false } = {}) {
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
			sync(lines, shown, (one) => one.id, () => el('li', '', el('strong', 'change'), el('span', 'since'), el('span', 'values'), el('span', 'sure'), el('span', 'suspect'), el('span', 'links')), (line, one) => {
				const [label, start, figures, certainty, suspect, links] = line.children;
				const page = isTimer ? `${visible(one.context)}: ` : '';
				text(label, `${page}${one.stands ? '' : 'Was '}${headline(one)}${isOfAll(one) ? `, all pages${one.instance ? ` on ${visible(one.instance)}` : ''}` : ''}`);
				attr(label, 'data-level', one.stands ? level(one) : null);
				text(start, one.ended ? `from ${moment(one.since, now)} to ${moment(one.ended, now)}` : since(one, now));
				text(figures, figuresOf(one));
				text(certainty, sure(one));
				text(suspect, `${suspectsOf(one, marks, now, timers)} ${deployVerdict(one)}`);
				const looks = instancesOf(one).map((instance) => [instance, instanceLink(instance)]);
				if (isTimer) looks.push([one.context, link({ screen: 'path', context: one.context, kind: '' })]);
				sync(links, looks, ([name]) => name, ([name]) => anchor('', `Look at ${visible(name)}`), (node, [, href]) => {
					attr(node, 'href', href);
				});
				line.dataset.kind = one.kind;
			});
			const mark = marks.find((one) => one.version);
			show(calm, shown.length === 0);
			const canJudge = log?.judged_until > 0 && log.sight?.compared > 0;
			text(calm, `${canJudge ? `${isTimer ? 'No path has changed for which this timer is suspected' : 'Nothing has changed here'}, judged until ${moment(log.judged_until, now)}` : 'Nothing can be judged yet: each page is compared with its own past'}${mark ? `; the last deploy, ${visible(mark.text)}, was ${span(now - mark.at)} ago` : ''}`);
		},
	};
}

/** The instances that a change is about or that are suspected, but for the one whose page this is. */
function instancesOf({ instance, suspects: known = [] }) {
	const named = known.filter((one) => one.kind === 'instance').map((one) => one.instance);
	const all = new Set(instance ? [instance, ...named] : named);
	if (state.screen === 'instance') all.delete(state.context);
	return [...all];
}

function figuresOf(one) {
	const traffic = one.kind === 'slower' && one.from_traffic > 0.0005 ? `, and more requests ${duration(one.from_traffic)} more` : '';
	return `${values(one)}${cost(one)}${traffic}`;
}

function suspectsOf(one, marks, now, timers) {
	const known = suspects(one, marks, now);
	const failing = timers.filter((timer) => timer.failing && one.kind === 'failing' && one.stands);
	known.unshift(...failing.map(({ timer, error_share: part }) => `${visible(timer)}, which fails ${percent(part, 1)} of its runs`));
	return known.length ? `Suspect: ${known.join('; ')}.` : 'No timer, deploy or instance stands out.';
}

/** Did my deploy do it? */
function deployVerdict({ deploy: { verdict, mark, seconds_before: earlier } }) {
	if (verdict === 'suspected') return '';
	return verdict === 'not_the_deploy' ? `Not a deploy: the last one before it, ${visible(mark.text)}, was ${span(earlier)} earlier.` : 'No deploy was seen before it.';
}
