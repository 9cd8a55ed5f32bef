// Which page to fix first, why, and what that would save.

import { isOfAll } from './change.js';
import { attr, el, fill, meter, show, text } from './dom.js';
import { delta, duration, percent, rate, sense, times, visible } from './format.js';
import { Table, contextColumn, numberColumn, statistic } from './table.js';
import { recorded } from './tiles.js';

const COMPARABLE = 20; // requests before, of which a mean says something

/**
 * The rows of the table: an instance that is out of line first, then silent and failing pages, then those that have become
 * slower or are asked for more often, by what that costs, then those that take most time. `paths` is an answer of
 * `api/paths`, `changes` are those that stand.
 */
export function ranked({ paths, ...window }, changes, now) {
	const minutes = recorded(window, now) / 60;
	const measured = new Map(paths.map((path) => [path.context, path]));
	const rows = new Map();
	for (const change of changes) {
		const row = ofChange(change, measured.get(change.context), minutes);
		if (row && !(rows.get(row.key)?.rank >= row.rank)) rows.set(row.key, row);
	}
	for (const path of paths) {
		if (!rows.has(path.context)) rows.set(path.context, { ...ofPath(path, minutes), rank: 0, weight: path.total, reason: 'most time' });
	}
	return [...rows.values()].sort((a, b) => b.rank - a.rank || b.weight - a.weight);
}

/** The row of a change that should be mended; `path` is what its page measured, if that is known. */
function ofChange(change, path, minutes) {
	const { kind, context, instance, then } = change;
	const row = path ? ofPath(path, minutes) : { ...change, key: context, mean: kind === 'failing' ? null : change.now, kind: 'http' };
	const saved = change.extra_seconds_per_minute;
	if (instance && isOfAll(change)) {
		const sides = { count: change.requests, mean: change.now, before: { count: change.requests }, change: { mean: change.ratio } };
		return { ...row, ...sides, key: `${context} ${instance}`, instance, saved, rank: 3, weight: saved, reason: `${visible(instance)} is out of line` };
	}
	if (isOfAll(change) || instance) return null;
	if (kind === 'failing') return { ...row, rank: 2, weight: change.now, reason: `fails ${percent(change.now, 1)} of its requests` };
	if (kind === 'silent') return { ...row, rank: 2, weight: 1, reason: `silent, ${rate(then)}/min before` };
	if (kind === 'surging') return { ...row, saved, rank: 1, weight: saved, reason: `${times(change.now / then)} the traffic` };
	if (kind === 'slower') return { ...row, ...sinceThen(change), saved: change.from_code, rank: 1, weight: saved, reason: change.is_tail ? 'its slowest tenth is slower than before' : 'slower than before' };
	return null;
}

/** What a page takes since it has become slower, which may be a small part of the range. */
function sinceThen({ now, then, is_tail: isTail, from_code: code, from_traffic: traffic }) {
	const perMinute = (traffic / (now + then) + code / (now - then)) * now;
	return isTail || !(perMinute > 0) ? {} : { mean: now, perMinute, change: { mean: now / then }, before: { count: COMPARABLE } };
}

/** The row of a page. What would be saved is known if it was asked for often enough before. */
function ofPath(path, minutes) {
	const { count, mean, total, before } = path;
	const saved = before?.count >= COMPARABLE && minutes > 0 ? (count * Math.max(mean - before.mean, 0)) / minutes : null;
	return { ...path, key: path.context, saved, perMinute: minutes > 0 ? total / minutes : null };
}

/** The table that draws these rows. */
export function fixFirst() {
	return new Table({
		name: 'fix-first',
		caption: 'Pages to fix first',
		key: (row) => row.key,
		href: true,
		columns: [
			contextColumn(),
			{ id: 'reason', label: 'Why', className: 'left', value: (row) => row.reason, draw(cell, row) {
				text(cell, row.reason);
				attr(cell, 'data-level', row.rank > 0 ? 'bad' : null);
			} },
			{ id: 'share', label: 'Share of time', className: 'share', value: (row) => row.share, draw(cell, row) {
				if (!cell.firstChild) cell.append(meter(), el('span'));
				show(cell.firstChild, row.share > 0);
				fill(cell.firstChild, row.share);
				text(cell.lastChild, percent(row.share, 1));
			} },
			numberColumn('perMinute', 'Time per minute', (value) => duration(value), { title: 'Seconds of service time per minute' }),
			numberColumn('saved', 'Saved if as before', (value) => (value > 0.0005 ? `${duration(value)}/min` : '–'), { title: 'Service time per minute that would be saved if the page were as it was' }),
			statistic('mean'),
			{ id: 'change', label: 'Change', title: 'Of the mean, against the range before; of a page that is slower, against the time before that', value: (row) => row.change?.mean ?? null, draw(cell, row) {
				const ratio = row.count >= 5 && row.before?.count >= 5 ? row.change?.mean : null;
				text(cell, delta(ratio) || '–');
				attr(cell, 'data-sense', sense(ratio));
			} },
			statistic('p95'),
			statistic('error_share', 'Errors', (value) => percent(value, 1)),
		],
	});
}
