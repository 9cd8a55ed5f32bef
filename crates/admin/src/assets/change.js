// A change in words: its size, its start, its confidence, and its suspects.

import { delta, duration, moment, percent, perUnit, rateOf, span, visible } from './format.js';

const LEVELS = { slower: 'bad', failing: 'bad', silent: 'bad', instance: 'bad', surging: 'warn', faster: 'good' };

export const level = (change) => LEVELS[change.kind] ?? 'warn';

/** A ratio, and the noun that it is relative to: 2.4× the others, +40% over the others */
export const against = (ratio, others) => `${delta(ratio)} ${ratio >= 2 ? '' : 'over '}${others}`;

/** +48% slower, 2.6× slower, 24% failing, silent */
export function headline({ kind, now, ratio, is_tail: isTail }) {
	if (kind === 'failing') return `${percent(now, 1)} failing`;
	if (kind === 'silent' || !(ratio > 0)) return visible(kind);
	if (kind === 'surging') return against(ratio, 'the traffic');
	if (kind === 'instance') return against(ratio, 'the others');
	const words = kind === 'maybe slower' ? `maybe ${delta(ratio)} slower` : `${delta(ratio)} ${visible(kind)}`;
	return `${words}${isTail ? ' at its tail' : ''}`;
}

let standing = new Map(); // the most urgent change of each context and timer

/** Keeps the ongoing changes, most urgent first, for the signs beside names. */
export function keepStanding(changes) {
	standing = new Map();
	for (const change of changes.filter(({ stands }) => stands).reverse()) {
		for (const { timer } of change.suspects ?? []) if (timer) standing.set(`timer ${timer}`, change);
		standing.set(`http ${change.context}`, change);
	}
}

/** The ongoing change of a context, or the one that a timer is a suspect of. */
export const standingOn = (kind, name) => standing.get(`${kind} ${name}`);

/** Whether a change concerns all pages, or all pages of an instance. */
export const isOfAll = (change) => change.context === '<all>';

/** 26 ms → 40 ms */
export function values({ kind, then, now }) {
	const perMinute = (v) => perUnit(rateOf(v, 60));
	const format = { failing: (v) => percent(v, 1), surging: perMinute, silent: perMinute }[kind] ?? duration;
	return `${format(then)} → ${format(now)}`;
}

/** The extra time from slower requests, without the time from more requests. "Fix first" names it as the saving. */
export const cost = ({ kind, from_code: code }) =>
	kind === 'slower' && code > 0.0005 ? `, ${duration(code)} more work each minute` : '';

export function since(change, now) {
	return `since ${moment(change.since, now)} (${span(now - change.since)})`;
}

/** > 99.9% sure */
export function sure({ confidence }) {
	return confidence >= 0.9995 ? '> 99.9% sure' : `${percent(confidence, 1)} sure`;
}

/** Taken by ada, 3 min ago. Empty if the change is not acknowledged. */
export const takenBy = ({ taken }, now) => (taken ? `Taken by ${visible(taken.by)}, ${span(now - taken.at)} ago` : '');

/** The suspects, most likely first. */
export function suspects(change, marks, now) {
	return (change.suspects ?? []).map((one) => {
		const share = `${percent(Math.min(one.share, 1), 1)} of the added time`;
		if (one.kind === 'timer') return `${visible(one.timer)}, ${share}`;
		if (one.kind === 'code') return `your code outside of timers, ${share}`;
		if (one.kind === 'instance') return `instance ${visible(one.instance)}, ${against(one.ratio, 'the others')}`;
		const at = marks.find((mark) => mark.id === one.mark)?.at;
		const when = at ? ` at ${moment(at, now)}` : '';
		const beside = one.side_by_side && against(one.side_by_side, 'the old version in the same minutes');
		return `${visible(one.text)}${when}${beside ? `, ${beside}` : ''}`;
	});
}

/** The verdict on a deploy, in words. Empty if the deploy is among the suspects. */
export function deployVerdict({ deploy }) {
	const { verdict, mark, seconds_before: earlier } = deploy ?? {};
	if (verdict === 'no_deploy_seen') return 'No deploy was seen before it.';
	return verdict === 'not_the_deploy'
		? `No deploy caused it: the last one, ${visible(mark.text)}, was ${span(earlier)} earlier.`
		: '';
}

/** The suspects, and the verdict on a deploy, in sentences. `timers`: the page's timers, some of which may fail. */
export function explanation(change, marks, now, timers = []) {
	const failing = timers.filter((timer) => timer.failing && change.kind === 'failing' && change.stands);
	const fails = ({ timer, error_share: part }) => `${visible(timer)}, which fails in ${percent(part, 1)} of its runs`;
	const known = [...failing.map(fails), ...suspects(change, marks, now)];
	const none =
		change.kind === 'failing' && !timers.length ? 'Its page says what fails.' : 'No timer or instance stands out.';
	const first = known.length ? `Suspect: ${known.join('; ')}.` : none;
	return `${first} ${deployVerdict(change)}`.trim();
}
