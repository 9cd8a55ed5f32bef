// How requests end: the kinds of errors of a range, as the service names them, and the mix of outcomes of a path.

import { question, serverNow } from './api.js';
import { card } from './card.js';
import { contextParts } from './context.js';
import { attr, el, say, sync, text } from './dom.js';
import { count, grouped, moment, percent, visible } from './format.js';
import { range } from './state.js';
import { Table, linkTo, numberColumn } from './table.js';

const NOTHING = 'No error of this range has a kind: see the guide’s page “How did it fail?”';
const CODES = 8;
const CLASSES = { '1xx': '2xx', completed: '2xx', panicked: 'error', body_aborted: 'cancelled', body_failed: 'error' };

/** A table of the kinds of a path, or with `more` columns, of all paths. */
export const kindTable = (more = []) =>
	new Table({
		name: 'kinds',
		caption: 'Kinds of errors',
		key: (row) => row.kind,
		figures: more.length ? ['count', 'share'] : null,
		columns: [
			{
				id: 'kind',
				label: 'Kind',
				className: 'name',
				value: (row) => row.kind,
				draw(cell, { kind, is_new: isNew, since_version: version }) {
					if (!cell.firstChild) cell.append(el('bdi', 'path'), el('span', 'change tag'));
					text(cell.firstChild, visible(kind));
					say(cell.lastChild, isNew ? `new${version ? ` since version ${visible(version)}` : ''}` : '');
				},
			},
			numberColumn('count', 'Count', grouped),
			numberColumn('share', 'Share', (share) => percent(share, 1)),
			...more,
		],
	});

const time = (id, label) => numberColumn(id, label, (at) => moment(at, serverNow()));

const paths = {
	id: 'paths',
	label: 'Mostly on',
	className: 'left',
	value: (row) => row.paths.map(({ context }) => context).join(', '),
	draw(cell, row) {
		const create = (path) => el('a', 'open', ...contextParts(path), el('span', 'muted'));
		sync(cell, row.paths, 'context', create, (link, path) => {
			attr(link, 'href', linkTo(path));
			text(link.lastChild, count(path.count));
		});
	},
};

export function mount(root, page) {
	const kinds = kindTable([paths, time('first_seen', 'First seen'), time('last_seen', 'Last seen')]);
	root.append(card('kinds', 'Kinds of errors', { parts: [kinds.node] }));
	return {
		questions: () => ({ errors: question('errors', { ...range(), limit: 100 }) }),
		draw({ errors }) {
			if (!errors) return;
			kinds.draw(errors.kinds, errors.kinds.length ? '' : NOTHING);
			page.complete(errors, errors.kinds.length > 0);
		},
	};
}

/** Draws the bar of outcomes into a `details`. Opened, it lists status codes, or the outcomes of a timer. */
export function drawOutcomes(root, { outcomes, codes = [], count: all }) {
	if (!root.firstChild) {
		const summary = el('summary', '', el('h3', '', 'Outcomes'), el('div', 'mix'), el('p', 'delta'));
		root.append(summary, el('ul', 'codes'));
	}
	const [, mix, words] = root.firstChild.children;
	const some = Object.entries(outcomes ?? {})
		.filter(([, n]) => n > 0)
		.sort((a, b) => b[1] - a[1]);
	sync(mix, some, 0, 'span', (node, [name, n]) => {
		node.className = `fill c-${CLASSES[name] ?? name}`;
		node.style.flexGrow = n / all;
	});
	const error = codes.length ? 'service error' : 'failed'; // timers have no codes
	const named = some.map(([name, n]) => [name === 'error' ? error : name.replace('_', ' '), n]);
	const shares = named.slice(0, 3).map(([name, n]) => `${percent(n, all)} ${name}`);
	text(words, shares.join(' · '));
	attr(root, 'title', named.map(([name, n]) => `${count(n)} ${name}`).join(', '));
	const rows = codes.length ? codes.map(({ code, count: n }) => [code === 'none' ? 'no response' : code, n]) : named;
	const more = rows.splice(CODES).reduce((sum, [, n]) => sum + n, 0);
	if (more) rows.push(['further codes', more]);
	const create = () => el('li', '', el('span'), el('span'));
	sync(root.lastChild, rows, 0, create, ({ firstChild, lastChild }, [name, n]) => {
		text(firstChild, name);
		text(lastChild, `${count(n)} · ${percent(n, all)}`);
	});
}
