// Saves a table as a file.

/** `columns`: names; `rows`: arrays of values. */
export function save(format, { name, columns, rows }) {
	const text = format === 'csv' ? csv(columns, rows) : JSON.stringify(rows.map((row) => Object.fromEntries(columns.map((column, at) => [column, row[at] ?? null]))), null, '\t');
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
