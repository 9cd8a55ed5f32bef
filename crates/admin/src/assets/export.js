// The menu that saves what a screen shows as a file.

import { el } from './dom.js';

/** Lists in the menu what can be saved, each as CSV and as JSON. */
export function list(menu, offered) {
	const seen = offered.filter(({ node }) => node.checkVisibility());
	menu.replaceChildren(
		...seen.map(({ title, name, exported }) => {
			const note = el('span', '', title);
			const buttons = ['csv', 'json'].map((format) => {
				const button = el('button', 'button quiet', format.toUpperCase());
				Object.assign(button.dataset, { export: format, of: name });
				button.setAttribute('aria-label', `${title} as ${format.toUpperCase()}`);
				button.addEventListener('click', async () => {
					try {
						save(format, await exported());
						note.textContent = title;
					} catch (error) {
						note.textContent = `${title}: not saved, ${error.message}`;
					}
				});
				return button;
			});
			return el('div', 'field', note, ...buttons);
		}),
	);
	if (!seen.length) menu.append('Nothing to save here');
}

/** `columns`: names; `rows`: arrays of values. */
export function save(format, { name, columns, rows }) {
	const text =
		format === 'csv'
			? csv(columns, rows)
			: JSON.stringify(
					rows.map((row) => Object.fromEntries(columns.map((column, at) => [column, row[at] ?? null]))),
					null,
					'\t',
				);
	const type = format === 'csv' ? 'text/csv;charset=utf-8' : 'application/json';
	const link = document.createElement('a');
	link.href = URL.createObjectURL(new Blob([text], { type }));
	link.download = `${name.replace(/[^\w.-]+/g, '-').slice(0, 80)}.${format}`;
	link.click();
	setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** RFC 4180. A name that a spreadsheet would take for a formula gets an apostrophe. */
function csv(columns, rows) {
	const cell = (value) => {
		if (value === null || value === undefined) return '';
		if (typeof value === 'number') return String(value);
		const text = String(value).replace(/^[=+\-@\t\r]/, "'$&");
		return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
	};
	return `${[columns, ...rows].map((row) => row.map(cell).join(',')).join('\r\n')}\r\n`;
}
