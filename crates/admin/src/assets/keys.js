// The keys of the dashboard, in a dialog.

import { button, el, labelled } from './dom.js';

const KEYS = {
	'/ or Ctrl + K': 'Filter by name: this screen, or else Paths',
	'?': 'Show these keys',
	Esc: 'Close a menu, clear a selection, leave a zoom',
	'← → Home End': 'In a chart: read slice by slice',
	'Shift + ← →': 'In a chart: select slices; Enter zooms to them',
	'↑ ↓': 'In a heat map: go from cell to cell; Enter lists the requests of a cell',
};

export function showKeys() {
	const rows = Object.entries(KEYS).map(([key, does]) => el('div', '', el('dt', '', key), el('dd', '', does)));
	const close = button('Close', () => dialog.close(), 'button');
	const dialog = labelled(el('dialog', 'card', el('h2', '', 'Keys'), el('dl', 'facts', ...rows), close), 'Keys');
	dialog.addEventListener('close', () => dialog.remove());
	document.body.append(dialog);
	dialog.showModal();
}
