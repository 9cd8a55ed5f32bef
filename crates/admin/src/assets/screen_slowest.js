// The slowest paths and the slowest requests, filtered by the API.

import { question } from './api.js';
import { card } from './card.js';
import { attr, button, el, labelled, show, sync, text } from './dom.js';
import { duration, moment, plural, visible } from './format.js';
import { filterField, showFilter } from './pager.js';
import { requestTable } from './requests.js';
import { isZoomed, range, seconds, state } from './state.js';
import { contextColumn, numberColumn, requestsColumn, statistic, Table } from './table.js';

const ROWS = 100;
const PER_PATH = '5'; // unless another number is chosen, so that one path does not fill the table
const PATHS = 8;
const ENDS = ['failed', '5xx', '4xx', '3xx', '2xx', 'error', 'panicked', 'cancelled', 'body_aborted', 'body_failed'];
const nameOf = (end) => (end === 'error' ? 'Service error' : end[0].toUpperCase() + end.slice(1).replace('_', ' '));
const STATUSES = [['', 'Any status'], ...ENDS.map((end) => [end, nameOf(end)])];
const PER_PATHS = ['1', '3', '', '10'].map((n) => [n, `${n || PER_PATH} per path`]).concat([['all', 'All per path']]);
const KEPT =
	'Kept from this hour and the one before: the 100 slowest requests; of each path the 5 slowest and 5 newest failed';

/**
 * Mounts the screen.
 * @param {HTMLElement} root
 * @param {object} page the functions that screens call
 */
export function mount(root, page) {
	const requests = requestTable(true, { name: 'slowest-requests', caption: 'Slowest requests', href: true });
	const paths = new Table({
		name: 'slowest-paths',
		caption: 'Slowest paths',
		href: true,
		figures: ['p95', 'count'],
		columns: [
			contextColumn(),
			...['p95', 'p99', 'mean'].map(statistic),
			numberColumn('max', 'Max', duration),
			requestsColumn(),
		],
		key: (row) => row.context,
	});
	const field = filterField(page);
	const statuses = choice(page, 'status', 'Status');
	const instances = choice(page, 'instance', 'Instance');
	const perPath = choice(page, 'per', 'At most');
	const context = button('', () => page.go({ context: '' }), 'button chip');
	const note = el('span', 'muted');
	attr(note, 'role', 'status');
	note.title = KEPT;
	const clear = button('Clear filters', () => page.go({ context: '', q: '', status: '', instance: '' }));
	const filters = el('div', 'bar', context, field, statuses.node, instances.node, perPath.node, clear);
	const parts = [labelled(filters, 'Filters', 'group'), requests.node];
	root.append(card('slowest-paths', 'Slowest paths, by p95', { parts: [paths.node] }));
	root.append(card('slowest-requests', 'Slowest requests', { head: [note], parts }));
	const isFiltered = () => Boolean(state.context || state.q || state.status || state.instance);
	return {
		questions: () => ({
			requests: question('slowest_requests', {
				...{ context: state.context, q: state.q, status: state.status, instance: state.instance },
				...range(),
				per_path: state.per === 'all' ? '' : state.per || PER_PATH,
				limit: ROWS,
			}),
			paths: question('paths', {
				...range(),
				kind: 'http',
				sort: 'p95',
				q: state.context || state.q,
				limit: PATHS,
			}),
		}),
		draw({ requests: slow, paths: slowest }, now, { refused }) {
			showFilter(field);
			statuses.draw(STATUSES);
			perPath.draw(PER_PATHS);
			const known = (slow?.instances ?? []).map((name) => [name, visible(name)]);
			instances.draw([['', 'All instances'], ...known]);
			show(context, state.context !== '');
			text(context, `Only ${visible(state.context)} ✕`);
			labelled(context, `Only ${visible(state.context)}: remove this filter`);
			show(clear, isFiltered());
			const rows = slow ? slow.requests.slice() : [];
			requests.draw(rows, rows.length ? '' : (refused.requests ?? nothing(isFiltered())));
			const begin = isZoomed() ? state.from : now - seconds();
			const since = slow?.kept_since > begin + 60 ? `lists begin at ${moment(slow.kept_since, now)}` : '';
			text(note, [rows.length && summary(slow), since].filter(Boolean).join('; '));
			if (!slowest) return;
			paths.draw(slowest.paths, slowest.total ? '' : 'No requests in this range');
			page.complete(slowest, slowest.total > 0);
		},
	};
}

const nothing = (isFiltered) => `No ${isFiltered ? 'such request' : 'request of this range'} is listed. ${KEPT}.`;

/** The numbers of shown and found requests, and whether paths were left out. */
function summary({ requests, total, lists, lists_in_all: listsInAll }) {
	const more = total > requests.length;
	const shown = more ? `the ${requests.length} slowest of ${total} found` : plural(requests.length, 'request');
	return lists < listsInAll
		? `${shown}; only the ${ROWS} paths with the slowest requests of each hour were searched`
		: shown;
}

/**
 * A select that sets a field of the state.
 * @param {{go(values: object): void}} page the functions that screens call
 * @param {string} field of the state
 * @param {string} label the accessible name
 * @returns {{node: HTMLSelectElement, draw(options: string[][]): void}} `draw` shows options, each a value and
 * its label. The value of the state is always one of them.
 */
function choice(page, field, label) {
	const node = labelled(el('select'), label);
	node.addEventListener('change', () => page.go({ [field]: node.value, offset: 0 }));
	return {
		node,
		draw(options) {
			const chosen = state[field];
			const all = options.some(([value]) => value === chosen) ? options : [...options, [chosen, chosen]];
			sync(node, all, 0, 'option', (option, [value, name]) => {
				option.value = value;
				text(option, name);
			});
			node.value = chosen;
		},
	};
}
