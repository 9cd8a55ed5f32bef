// A change in words: how large, since when, how sure, and what is suspected.

import { duration, moment, percent, rate, span, times, visible } from './format.js';

const VERBS = { slower: 'slower', faster: 'faster', failing: 'failing', surging: 'the traffic', silent: 'silent', instance: 'the others' };
const LEVELS = { slower: 'bad', failing: 'bad', silent: 'bad', instance: 'bad', surging: 'warn', faster: 'good' };

export const level = (change) => LEVELS[change.kind] ?? 'warn';

/** 1.5× slower, 24% failing, silent */
export function headline({ kind, now, ratio, is_tail: isTail }) {
	const verb = VERBS[kind] ?? visible(kind);
	if (kind === 'failing') return `${percent(now, 1)} failing`;
	if (kind === 'silent' || !(ratio > 0)) return verb;
	return `${times(kind === 'faster' && ratio < 1 ? 1 / ratio : ratio)} ${verb}${isTail ? ' at its tail' : ''}`;
}

/** Whether a change concerns all pages, or all pages of an instance. */
export const isOfAll = (change) => change.context === '<all>';

/** 26 ms → 40 ms */
export function values({ kind, then, now }) {
	const format = { failing: (v) => percent(v, 1), surging: (v) => `${rate(v)}/min`, silent: (v) => `${rate(v)}/min` }[kind] ?? ((v) => duration(v));
	return `${format(then)} → ${format(now)}`;
}

/** What being slower costs, without what more requests do: what "Fix first" says is saved. */
export const cost = ({ kind, from_code: code }) => (kind === 'slower' && code > 0.0005 ? `, costs ${duration(code)} per minute` : '');

export function since(change, now) {
	return `since ${moment(change.since, now)} (${span(now - change.since)})`;
}

/** > 99.9% sure */
export function sure({ confidence }) {
	return confidence >= 0.9995 ? '> 99.9% sure' : `${percent(confidence, 1)} sure`;
}

/** What is suspected, most likely first. */
export function suspects(change, marks, now) {
	return (change.suspects ?? []).map((one) => {
		if (one.kind === 'timer') return `${visible(one.timer)}, ${percent(Math.min(one.share, 1), 1)} of the added time`;
		if (one.kind === 'instance') return `instance ${visible(one.instance)}, ${times(one.ratio)} the others`;
		const at = marks.find((mark) => mark.id === one.mark)?.at;
		const when = at ? ` at ${moment(at, now)}` : '';
		const beside = one.side_by_side ? `, ${times(one.side_by_side)} the old version in the same minutes` : '';
		return `${visible(one.text)}${when}${beside}`;
	});
}
