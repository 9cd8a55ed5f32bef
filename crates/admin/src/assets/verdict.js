// The changes of a path: the size, the start, the confidence, the suspects, and the verdict on a deploy.

import { acknowledgement } from './acknowledge.js';
import { TOO_EARLY, cost, explanation, headline, isOfAll, level, since, sure, values, where } from './change.js';
import { attr, el, labelled, say, sync, text } from './dom.js';
import { duration, moment, span, visible } from './format.js';
import { instanceLink } from './instances.js';
import { state } from './state.js';
import { linkTo } from './table.js';

/**
 * The ongoing changes, or else the last ended one, in a sentence each. A timer is not compared with its own past: its
 * panel shows the changes of which it is a suspect, each with its path.
 */
export function changePanel(page, { isTimer = false } = {}) {
	const lines = el('ul', 'verdict');
	const calm = el('p', 'calm');
	const node = labelled(el('section', 'card', lines, calm), 'What has changed');
	node.dataset.panel = 'change';
	return {
		node,
		/** `failed`: failed requests, newest first. One of them may have the message of an error. */
		draw(changes, marks, now, log, failed = []) {
			const ongoing = changes.filter((one) => one.is_ongoing);
			const last = changes.filter((one) => !one.is_ongoing).sort((a, b) => b.ended - a.ended)[0];
			const shown = ongoing.length ? ongoing : last ? [last] : [];
			const create = () => line(page);
			sync(lines, shown, 'id', create, (node, one) => {
				const [label, start, message, figures, certainty, , suspect, links] = node.children;
				node.form.draw(one, now);
				const isNamed = (isTimer || state.screen === 'instance') && !isOfAll(one);
				const path = isNamed ? `${visible(one.context)}: ` : '';
				const pages = isOfAll(one) ? ', all pages' : '';
				text(label, `${path}${firstWords(one)}${pages}${where(one)}`);
				attr(label, 'data-level', level(one));
				node.classList.toggle('ended', !one.is_ongoing);
				const during = `from ${moment(one.since, now)} to ${moment(one.ended, now)}`;
				text(start, one.ended ? during : since(one, now));
				const kind = one.error ?? failuresOf(one).error;
				const said = failed.find((request) => request.error_kind === kind && request.message)?.message;
				say(message, said ? `“${visible(said)}”` : '');
				text(figures, figuresOf(one));
				text(certainty, sure(one));
				text(suspect, explanation(one));
				const looks = instancesOf(one).map((instance) => [instance, instanceLink(instance)]);
				if (isNamed) looks.push([one.context, linkTo({ context: one.context })]);
				if (one.context === '<queue>' && state.context !== '<queue>') looks.push(['the queue', linkTo(one)]);
				sync(links, looks, 0, 'a', (anchor, [name, href]) => {
					text(anchor, `Look at ${visible(name)}`);
					attr(anchor, 'href', href);
				});
				node.dataset.kind = one.kind;
			});
			const mark = marks.find((one) => one.version);
			const canJudge = log?.judged_until > 0 && log.coverage?.compared > 0;
			const calmly = isTimer ? 'This timer is not a suspect of any change' : 'Nothing has changed here';
			const words = canJudge ? `${calmly}, as of ${moment(log.judged_until, now)}` : TOO_EARLY;
			const deploy = mark ? `; the last deploy, ${visible(mark.text)}, was ${span(now - mark.at)} ago` : '';
			say(calm, shown.length ? '' : `${words}${deploy}`);
		},
	};
}

/** The suspected causes of failures: a kind of error, a code, a timer. */
const failuresOf = ({ suspects }) => suspects.find(({ kind }) => kind === 'failures') ?? {};

/** 31% fail: db_timeout (timer db:orders); for other changes the headline. */
function firstWords(one) {
	const { error, code, timer } = failuresOf(one);
	if (!one.is_ongoing) return `Was ${headline(one)}`;
	const cause = error ?? code;
	const words = cause ? `: ${visible(cause)}` : '';
	return `${headline(one).replace('failing', 'fail')}${words}${timer ? ` (timer ${visible(timer)})` : ''}`;
}

/** The sentences of a change, empty at first, with the button that acknowledges it. */
function line(page) {
	const form = acknowledgement(page);
	const names = ['since', 'message', 'values', 'sure', 'suspect', 'links'];
	const parts = names.map((name) => el('span', name));
	const node = el('li', '', el('strong', 'change'), ...parts.slice(0, 4), form, ...parts.slice(4));
	return Object.assign(node, { form });
}

/** The instance of a change, and single suspected instances; without the instance of this screen. */
function instancesOf({ instance, suspects: known = [] }) {
	const named = known.filter((one) => one.kind === 'instance' && one.count === 1).map((one) => one.instances[0]);
	const all = new Set(instance ? [instance, ...named] : named);
	if (state.screen === 'instance') all.delete(state.context);
	return [...all];
}

function figuresOf(one) {
	const isMore = one.kind === 'slower' && one.from_traffic > 0.0005;
	const traffic = isMore ? `; more requests add ${duration(one.from_traffic)}` : '';
	return `${values(one)}${cost(one)}${traffic}`;
}
