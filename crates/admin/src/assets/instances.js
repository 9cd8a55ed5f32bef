// The instances, compared with each other.

import { headline, isOfAll, ongoingOn } from './change.js';
import { attr, el, text } from './dom.js';
import { duration, grouped, moment, percent, plural, visible } from './format.js';
import { link, state } from './state.js';
import { Table, drawTag, errorColumn, numberColumn, ratioColumn, requestsColumn, statistic } from './table.js';

export const instanceLink = (instance) => link({ screen: 'instance', context: instance });

const REQUESTS = [
	requestsColumn(),
	statistic('mean'),
	ratioColumn('ratio', 'vs others', {
		title: 'Its mean ÷ the mean of the others in line, in the same minutes',
		level: (row) => (row.stands_out ? 'bad' : null),
	}),
	statistic('p95'),
	errorColumn((row) => row.stands_out),
];

/** The columns that may explain why requests wait in front of an instance. */
export const AROUND_QUEUE = [
	requestsColumn(),
	numberColumn('in_flight', 'In flight now', grouped),
	ratioColumn('cpu', 'CPU', {
		words: (row) => percent(row.cpu, 1),
		level: (row) => (row.cpu >= 0.9 ? 'bad' : null),
		title: 'The mean share of its CPUs in use',
	}),
	numberColumn('longest_poll', 'Longest poll', duration, {
		value: (row) => row.polls?.longest ?? null,
		title: 'The longest time that a request held a worker thread',
	}),
	ratioColumn('delay', 'Scheduling delay', {
		words: (row) => duration(row.delay),
		level: (row) => (row.delay >= 0.01 ? 'bad' : null),
		title: 'How long a ready task usually waited for a CPU: 10 ms or more is high',
	}),
	numberColumn('worst_delay', 'Worst delay', duration),
];

/** A table of the instances with their requests, or with other columns. */
export function instanceTable(name, columns = REQUESTS) {
	return new Table({
		name,
		caption: 'Instances',
		href: true,
		figures: columns === REQUESTS ? ['mean', 'ratio'] : ['cpu', 'delay'],
		key: (row) => row.instance,
		mark: (node, row) => attr(node, 'data-odd', row.stands_out ? 'true' : null),
		columns: [
			{
				id: 'instance',
				label: 'Instance',
				className: 'name',
				value: (row) => row.instance,
				draw(cell, row) {
					if (!cell.firstChild)
						cell.append(el('a', 'open', el('bdi', 'mono')), el('span', 'muted'), el('span', 'change tag'));
					text(cell.firstChild.firstChild, visible(row.instance));
					attr(cell.firstChild, 'href', instanceLink(row.instance));
					attr(cell, 'title', row.instance);
					const version = row.version ? ` ${visible(row.version)}` : '';
					text(cell.children[1], `${version}${row.alive === false ? ' gone' : ''}`);
					const change = state.screen === 'health' && ongoingOn('instance', row.instance);
					const where = change && !isOfAll(change) ? `${visible(change.context)}: ` : '';
					drawTag(cell.lastChild, change, change && `${where}${headline(change)}`);
				},
			},
			...columns,
		],
	});
}

/** Draws the instances, first those out of line. `most`: the most rows to draw. */
export function drawInstances(table, { instances, from, to, total }, note, now, most = instances.length) {
	const rank = (one) => (one.out_of_line ? 2 : one.stands_out ? 1 : 0);
	const ordered = instances.toSorted((a, b) => rank(b) - rank(a));
	const odd = instances.find((one) => one.out_of_line);
	const none = 'No reports in this range: each instance reports at most its 32 busiest paths';
	table.draw(ordered, instances.length ? '' : none, most);
	const shown = `${most < total ? `${most} of ` : ''}${plural(total, 'instance')}`;
	const when = `${moment(from, now)} – ${moment(Math.min(to, now), now)}`;
	text(note, odd ? `${visible(odd.instance)} is worse than the others` : instances.length ? `${shown}, ${when}` : '');
}
