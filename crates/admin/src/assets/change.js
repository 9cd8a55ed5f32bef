// A change in words: its size, its start, its confidence, and its suspects.

import { delta, duration, moment, percent, perUnit, plural, rateOf, shortened, span, visible } from './format.js';

export const TOO_EARLY = 'Too early to tell: a comparison needs half an hour of requests';
const LEVELS = { faster: 'good', 'maybe slower': 'maybe', refusing: 'maybe', new_error: 'maybe' };

/** The name of a change's colour. */
export const level = ({ kind, acknowledged }) => (acknowledged ? 'acknowledged' : (LEVELS[kind] ?? 'bad'));

/** A ratio, and the noun that it is relative to: 2.4× the others, +40% over the others */
export const against = (ratio, others) => `${delta(ratio)} ${ratio >= 2 ? '' : 'over '}${others}`;

/** The suspect of a page's change that names instances, if not all instances have the change. */
const onSome = ({ kind, suspects }) => (kind === 'instance' ? null : suspects?.find((one) => one.kind === 'instance'));

/** The names of the instances that have the change; empty if all instances have it. */
export const instancesWith = (change) => onSome(change)?.instances ?? [change.instance].filter(Boolean);

/** The figures of a change on the instances that have it: other instances would hide a part of the change. */
const figures = (change) => {
	const { then, now, ratio } = (!change.is_tail && onSome(change)) || change;
	return { then, now, ratio };
};

/** +48% slower, 2.6× slower, 20% faster, 24% failing, 31% refused, new error db_timeout, silent */
export function headline(change) {
	const { context, kind, is_tail: isTail } = change;
	const { now, ratio } = figures(change);
	const by = delta(ratio).replace('−', '');
	if (context === '<queue>') return `${by} ${kind === 'faster' ? 'shorter' : 'longer'} wait`;
	if (kind === 'failing') return `${percent(now, 1)} failing`;
	if (kind === 'refusing') return `${percent(now, 1)} refused`;
	if (kind === 'new_error') return `new error ${shortened(visible(change.error), 32)}`;
	if (kind === 'silent' || !(ratio > 0)) return visible(kind);
	if (kind === 'surging') return against(ratio, 'the earlier traffic');
	if (kind === 'instance') return against(ratio, 'the others');
	const words = kind === 'maybe slower' ? `maybe ${by} slower` : `${by} ${visible(kind)}`;
	return `${words}${isTail ? ' in its slowest tenth' : ''}`;
}

/** The instances that have the change: " on web-1 and web-2". Empty if all instances have it. */
export function where(change) {
	const { instances, count } = onSome(change) ?? { instances: [change.instance], count: change.instance ? 1 : 0 };
	const more = count - instances.length;
	const names = [...instances.map(visible), ...(more > 0 ? [`${more} more`] : [])];
	return count ? ` on ${[names.slice(0, -1).join(', '), names.at(-1)].filter(Boolean).join(' and ')}` : '';
}

let ongoing = new Map(); // the most urgent change by kind and name

/** Keeps the ongoing changes for the tags beside names. `changes` has the most urgent first. */
export function keepOngoing(changes) {
	ongoing = new Map();
	for (const change of changes.filter((one) => one.is_ongoing).reverse()) {
		for (const { timer } of change.suspects ?? []) if (timer) ongoing.set(`timer ${timer}`, change);
		ongoing.set(change.context === '<queue>' ? 'timer queue' : `http ${change.context}`, change);
		for (const instance of instancesWith(change)) ongoing.set(`instance ${instance}`, change);
	}
}

/** The most urgent ongoing change of a page or an instance, or with this timer as a suspect. */
export const ongoingOn = (kind, name) => ongoing.get(`${kind} ${name}`);

/** Whether a change concerns all pages, of the fleet or of an instance. `<queue>` does, as all requests wait there. */
export const isOfAll = (change) => ['<all>', '<queue>'].includes(change.context);

/** The ongoing change of longer waits in the queue, or `undefined`. */
export const longerWait = (changes) =>
	changes.find((one) => one.is_ongoing && one.kind === 'slower' && one.context === '<queue>');

/** 26 ms → 40 ms, 2% → 25%, 12 requests */
export function values(change) {
	const { kind, requests, minutes, seconds_per_minute: taken } = change;
	if (kind === 'new_error') return plural(requests, 'request');
	const { then, now } = figures(change);
	const [perMinute, share] = [(v) => perUnit(rateOf(v, 60)), (v) => percent(v, 1)];
	// The `now` of a slow instance is its mean time, that of a failing one its share of errors.
	const fails = kind === 'instance' && Math.abs((taken * minutes) / requests / now - 1) > 1e-6;
	const formats = { failing: share, refusing: share, surging: perMinute, silent: perMinute };
	const format = formats[kind] ?? (fails ? share : duration);
	return `${format(then)} → ${format(now)}${fails ? ' errors' : ''}`;
}

/** The extra time from slower requests, without the time from more requests. */
export const cost = ({ context, kind, from_code: code }) =>
	kind === 'slower' && code > 0.0005
		? `, ${duration(code)} more ${context === '<queue>' ? 'waiting' : 'work'} each minute`
		: '';

export function since(change, now) {
	return `since ${moment(change.since, now)} (${span(now - change.since)})`;
}

/** > 99.9% sure */
export function sure({ confidence }) {
	return confidence >= 0.9995 ? '> 99.9% sure' : `${percent(confidence, 1)} sure`;
}

/** Acknowledged by ada, 3 min ago. Empty if the change is not acknowledged. */
export const acknowledgedBy = ({ acknowledged: one }, now) =>
	one ? `Acknowledged by ${visible(one.by)}, ${span(now - one.at)} ago` : '';

/** The verdict on a deploy, in words. Empty if the deploy is among the suspects. */
export function deployVerdict({ deploy }) {
	const { verdict, mark, seconds_before: earlier } = deploy ?? {};
	if (verdict === 'no_deploy_seen') return 'No deploy was seen before the change.';
	return verdict === 'not_the_deploy'
		? `No deploy is suspected: the last one, ${visible(mark.text)}, was ${span(earlier)} earlier.`
		: '';
}

/** The known causes, and the verdict on a deploy, in sentences. No line ends between a number and its unit. */
export function explanation(change) {
	const known = change.explanation || 'No timer or instance stands out.';
	return `${known.replace(/(\d) (?=%|[mµ]?s\b)/g, '$1\u202f')} ${deployVerdict(change)}`.trim();
}
