// The menu that saves the data of a screen as a file.

import { button, el, labelled, text } from './dom.js';
import { serverNow } from './api.js';
import { revealed } from './format.js';
import { isZoomed, seconds, state } from './state.js';
import { copy } from './trace.js';

/** Lists the offers in the menu, each as CSV and as JSON. */
export function list(menu, offered) {
	const seen = offered.filter(({ node }) => node.checkVisibility());
	menu.replaceChildren(
		...seen.map(({ title, name, exported }) => {
			const note = el('span', '', title);
			const buttons = ['csv', 'json'].map((format) => {
				const node = button(format.toUpperCase(), async () => {
					try {
						save(format, await exported());
						note.textContent = title;
					} catch (error) {
						note.textContent = `${title}: not saved, ${error.message}`;
					}
				});
				Object.assign(node.dataset, { export: format, of: name });
				return labelled(node, `${title} as ${format.toUpperCase()}`);
			});
			return el('div', 'field', note, ...buttons);
		}),
	);
	if (!seen.length) menu.append('Nothing to save here');
	const link = button('Copy the link', async () => {
		text(link, (await copy(location.href)) ? 'Copied' : 'Not copied: see the address bar');
	});
	menu.append(link);
}

/** Saves a file. `columns` are names, `rows` are arrays of values. The name of the file contains the range. */
export function save(format, { name, columns, rows }) {
	const object = (row) => Object.fromEntries(columns.map((column, at) => [column, row[at] ?? null]));
	const text = format === 'csv' ? csv(columns, rows) : JSON.stringify(rows.map(object), null, '\t');
	const type = format === 'csv' ? 'text/csv;charset=utf-8' : 'application/json';
	const link = document.createElement('a');
	link.href = URL.createObjectURL(new Blob([text], { type }));
	const to = isZoomed() ? state.to : serverNow();
	const range = [to - seconds(), to].map((at) => new Date(at * 1000).toISOString().replace(/:\d\d\.\d+/, ''));
	link.download = `${[name.slice(0, 60), ...range].join('_').replace(/[^\w.-]+/g, '-')}.${format}`;
	link.click();
	setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** The beginning of a formula. NFKC turns full-width and small signs into the signs here. */
const FORMULA = /^[\t\r\n]|^[\s\p{Cc}\p{Cf}]*[=+\-@]/u;

/**
 * CSV as in RFC 4180. Text that a spreadsheet could take for a formula gets an apostrophe, and text with a separator of
 * any spreadsheet gets quotes. Control characters other than tabs and line ends are made visible.
 */
function csv(columns, rows) {
	const cell = (value) => {
		if (value === null || value === undefined) return '';
		if (typeof value === 'number') return String(value);
		const given = String(value);
		const text = (FORMULA.test(given.normalize('NFKC')) ? "'" : '') + given.replace(/[^\t\r\n]+/g, revealed);
		return /[",;\t\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
	};
	return `${[columns, ...rows].map((row) => row.map(cell).join(',')).join('\r\n')}\r\n`;
}
