// What has changed: the changes that stand, with their suspects, and the latest marks.

import { contextParts } from './context.js';
import { $, el, show, text } from './dom.js';
import { duration, percent, rate, time, visible } from './format.js';

const MARKS = 3;
const VERBS = { slower: 'slower', faster: 'faster', failing: 'failing', surging: 'surging', silent: 'silent', instance: 'out of line' };
const LEVELS = { slower: 'bad', failing: 'bad', silent: 'bad', instance: 'bad', surging: 'warn', faster: 'good' };

/** 1.52×, 12×; nothing where there was nothing to compare with. */
function times(ratio) {
	return ratio > 0 ? `${ratio >= 10 ? Math.round(ratio) : ratio.toFixed(2)}×` : '';
}

function figure(kind, value) {
	if (kind === 'failing') return percent(value, 1);
	if (kind === 'surging' || kind === 'silent') return `${rate(value)}/min`;
	return duration(value);
}

function suspect(one) {
	if (one.kind === 'timer') return `${visible(one.timer)} (${percent(one.share, 1)} of it)`;
	if (one.kind === 'instance') return `instance ${visible(one.instance)} (${times(one.ratio)} the others)`;
	const side = one.side_by_side ? `, ${times(one.side_by_side)} the old version side by side` : '';
	return `${visible(one.text)} at ${time(one.at, 'minute')}${side}`;
}

function row(change, marks) {
	const { kind, then, now, ratio } = change;
	const label = el('span', 'change', `${kind === 'silent' ? '' : times(ratio)} ${VERBS[kind] ?? visible(kind)}`.trim());
	label.dataset.level = LEVELS[kind] ?? 'warn';
	const name = el('span', 'name', ...contextParts({ ...change, kind: 'http' }));
	if (change.instance) name.append(el('span', 'muted', ` on ${visible(change.instance)}`));
	if (change.is_tail) name.append(el('span', 'muted', ' its slowest tenth'));
	const facts = [`since ${time(change.since, 'minute')}`, `${figure(kind, then)} → ${figure(kind, now)}`];
	const known = change.suspects.map((one) => suspect({ ...one, at: marks.find((mark) => mark.id === one.mark)?.at }));
	if (known.length) facts.push(`suspect: ${known.join('; ')}`);
	return el('li', '', label, name, el('span', 'muted grow', facts.join(' · ')));
}

export function drawChanges({ changes, judged_until: until, standing }, { marks }) {
	const stand = changes.filter((change) => change.stands);
	$('changes').replaceChildren(...stand.map((change) => row(change, marks)));
	show($('changes'), stand.length > 0);
	const judged = until ? `judged until ${time(until, 'minute')}` : 'nothing is judged yet: pages are compared with their past once there is one';
	text($('changes-note'), standing > 0 ? judged : `No page has changed · ${judged}`);
	const latest = marks.slice(0, MARKS).map((mark) => `${visible(mark.text)} (${time(mark.at, 'minute')})`);
	text($('marks'), latest.length ? `Marks: ${latest.join(' · ')}` : '');
}
